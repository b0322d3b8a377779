"""Settings as version 0.1 wrote them: one flat list for all methods."""

import pytest
from config_samples import (
    NEWER,
    NEWER_OWN,
    OWN,
    SHARED,
    VERSION_0_1,
    VERSION_0_1_DEFAULTS,
    as_toml,
    as_words,
    from_command_line,
    own_settings,
)

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError


def test_the_methods_of_version_0_1_have_the_settings_they_had():
    assert {method: own_settings(method) for method in OWN} == OWN


@pytest.mark.parametrize("values", [VERSION_0_1, VERSION_0_1_DEFAULTS], ids=["other values", "defaults"])
@pytest.mark.parametrize("method", OWN)
def test_complete_settings_of_version_0_1_have_the_same_values(method, values, tmp_path):
    known = values | NEWER | NEWER_OWN
    expected = {name: value for name, value in known.items() if name in SHARED | OWN[method]}
    settings = {"method": method, **values}
    assert len(settings) == 24
    path = tmp_path / "old.toml"
    path.write_text(as_toml(settings))
    for config in (
        TourConfig.load(path),
        TourConfig.parse(as_words(settings)),
        from_command_line("--config", str(path)),
    ):
        assert config.method == method
        assert config.settings() == expected
        assert all(type(config.settings()[name]) is type(value) for name, value in expected.items())
    if method != "dense":  # which refuses --depth
        assert from_command_line("--config", str(path), "--depth", "9").settings() == {**expected, "depth": 9}


def test_settings_of_version_0_1_are_recognised_only_if_they_are_complete():
    for missing in VERSION_0_1:
        settings = {"method": "rerank", **{name: value for name, value in VERSION_0_1.items() if name != missing}}
        with pytest.raises(TourError, match="the method rerank has no setting"):
            TourConfig.parse(as_words(settings))
    with pytest.raises(TourError, match="'lr' is not a setting of the method rerank"):
        TourConfig.parse(as_words({"method": "rerank", **VERSION_0_1, "lr": 1}))


def test_settings_of_version_0_1_work_in_python():
    assert TourConfig(method="hard", learning_rate=0.2) == TourConfig("hard")
    assert TourConfig(method="hard", learning_rate=0.3).learning_rate == 0.3
    assert TourConfig(method="rocchio", positives="5", rocchio_gamma="0").settings()["positives"] == 5
