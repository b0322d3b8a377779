"""Settings that are refused: of other methods, of none, and values that are wrong."""

import re

import pytest
from config_samples import VERSION_0_1, as_toml, from_command_line, own_settings

from tour_pyserini.core.config import TourConfig, settings_by_name
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError

FOREIGN = [
    (method, name)
    for method in METHODS
    for name, (_, methods) in settings_by_name().items()
    if methods and method not in methods
]


@pytest.mark.parametrize(("method", "name"), FOREIGN)
def test_a_setting_of_other_methods_is_refused_everywhere(method, name, tmp_path):
    owners = ", ".join(other for other in METHODS if name in own_settings(other))
    message = re.escape(f"the method {method} has no setting '{name}', which is for {owners}.")
    value = VERSION_0_1.get(name, settings_by_name()[name][0].default)
    flag = f"--{name.replace('_', '-')}" + ("" if isinstance(value, bool) else f"={value}")
    with pytest.raises(TourError, match=f"^{message}$"):
        TourConfig(method, **{name: value})
    with pytest.raises(TourError, match=f"^{message}$"):
        TourConfig(method).replace(**{name: value})
    with pytest.raises(TourError, match=f"^{message}$"):
        TourConfig.parse(f"{name}={value} method={method}")
    path = tmp_path / "c.toml"
    path.write_text(as_toml({name: value, "method": method}))
    with pytest.raises(TourError, match=rf"^{re.escape(str(path))}: {message}$"):
        TourConfig.load(path)
    with pytest.raises(TourError, match=f"^{message}$"):
        from_command_line("--method", method, flag)


def test_a_setting_of_no_method_is_refused_with_the_settings_of_the_method():
    for make in (lambda: TourConfig("hard", lr=3), lambda: TourConfig.parse("method=hard lr=3")):
        with pytest.raises(TourError, match=r"'lr' is not a setting of the method hard: .*depth.*learning_rate"):
            make()
    with pytest.raises(TourError, match="'shared' is not a setting"):
        TourConfig(shared=TourConfig().shared)


def test_a_preset_refuses_settings_that_its_method_does_not_have():
    message = "the method hard has no setting 'anchor', which is for anchored"
    with pytest.raises(TourError, match=message):
        TourConfig.parse("preset=official anchor=3")
    with pytest.raises(TourError, match=message):
        from_command_line("--preset", "official", "--anchor", "3")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("method=harder", ["harder", "hard, soft"]),
        ("depth=0", ["depth", "0"]),
        ("depth=ten", ["depth", "whole number", "ten"]),
        ("depth=1.5", ["depth", "whole number", "1.5"]),
        ("iterations=-1", ["iterations must be 0 or more, not -1"]),
        ("budget=-1", ["budget must be 0 or more"]),
        ("score_weight=1.01", ["score_weight must lie in [0, 1], not 1.01"]),
        ("anchor=0", ["anchor must be above 0"]),
        ("anchor=-inf", ["anchor must be a finite number"]),
        ("least_gain=-0.1", ["least_gain must be 0 or more"]),
        ("method=refit tau=0", ["tau"]),
        ("method=soft p=1.5", ["p must lie in (0, 1], not 1.5"]),
        ("method=soft p=0", ["p must"]),
        ("method=hard p=nan", ["p must"]),
        ("method=hard learning_rate=inf", ["learning_rate", "finite"]),
        ("method=hard gradient_clip=nan", ["gradient_clip"]),
        ("method=hard momentum=1", ["momentum must lie in [0, 1), not 1"]),
        ("method=hard stopping=never", ["stopping", "method, nucleus"]),
        ("method=rocchio positives=0", ["positives must be at least 1"]),
        ("early_stopping=maybe", ["early_stopping", "true or false"]),
        ("final_list=first", ["final_list", "last, union"]),
        ("preset=papers", ["papers", "paper-passages-dpr"]),
        ("method=hard lr=3", ["'lr'", "learning_rate"]),
        ("depth", ["name=value"]),
        ("depth=3 depth=4", ["twice"]),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_setting(text, names):
    with pytest.raises(TourError) as caught:
        TourConfig.parse(text)
    assert all(name in str(caught.value) for name in names)
    assert str(caught.value).count("\n") == 0


def test_a_bad_file_is_refused_by_its_name(tmp_path):
    path = tmp_path / "c.toml"
    with pytest.raises(TourError, match=r"c\.toml"):
        TourConfig.load(path)
    for text in ("depth = [", "depht = 3", 'depth = "x"'):
        path.write_text(text)
        with pytest.raises(TourError, match=r"c\.toml"):
            TourConfig.load(path)


@pytest.mark.parametrize("name", ["depth", "score_weight", "calibrate"])
def test_true_is_neither_a_number_nor_a_word(name):
    with pytest.raises(TourError, match=f"{name} must be a.*, not True"):
        TourConfig(**{name: True})
