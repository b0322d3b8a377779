"""Settings: one meaning in Python, as text, in TOML files and on the command line."""

import copy
import dataclasses
import math
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.cli.search_flags import search_request
from tour_pyserini.core.config import PRESETS, TourConfig, settings_by_name
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError

# Every setting of version 0.1, which had one flat list for all methods, with values that are no method's defaults.
VERSION_0_1 = {
    "depth": 17,
    "iterations": 4,
    "budget": 90,
    "anchor": 5.5,
    "least_gain": 0.75,
    "learning_rate": 0.45,
    "momentum": 0.25,
    "weight_decay": 0.125,
    "p": 0.625,
    "tau": 1.5,
    "score_weight": 0.875,
    "early_stopping": False,
    "similarity_scale": 7.5,
    "calibrate": "never",
    "final_list": "union",
    "positives": 6,
    "rocchio_alpha": 0.375,
    "rocchio_beta": 0.5,
    "rocchio_gamma": -0.25,
    "interpolation_beta": 0.6,
    "gradient_clip": 2.5,
    "aggregation": "softmax",
    "stopping": "nucleus",
}
VERSION_0_1_DEFAULTS = {
    "depth": 10,
    "iterations": 3,
    "budget": 0,
    "anchor": 3.0,
    "least_gain": 0.2,
    "learning_rate": 0.2,
    "momentum": 0.0,
    "weight_decay": 0.01,
    "p": 0.5,
    "tau": 2.0,
    "score_weight": 0.5,
    "early_stopping": True,
    "similarity_scale": 20.0,
    "calibrate": "method",
    "final_list": "last",
    "positives": 3,
    "rocchio_alpha": 0.9,
    "rocchio_beta": 0.1,
    "rocchio_gamma": 0.1,
    "interpolation_beta": 0.3,
    "gradient_clip": math.inf,
    "aggregation": "linear",
    "stopping": "method",
}
# The methods of version 0.1, and which of their own settings they read. A later method needs no line here.
OWN = {
    "anchored": {"anchor", "least_gain"},
    "anchored-soft": {"anchor", "least_gain", "tau"},
    "anchored-hard": {"anchor", "least_gain", "tau", "p"},
    "hard": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "p", "tau", "stopping"},
    "soft": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "p", "tau", "stopping"},
    "top": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "positives"},
    "interpolation": {"p", "tau", "stopping", "interpolation_beta"},
    "rocchio": {"positives", "rocchio_alpha", "rocchio_beta", "rocchio_gamma"},
    "average": set(),
    "rerank": set(),
    "dense": set(),
    "rocchio-rerank": {"positives", "rocchio_alpha", "rocchio_beta", "rocchio_gamma"},
    "average-rerank": {"positives"},
    "refit": {"tau"},
    "regression": {"anchor", "least_gain"},
    "graph": set(),
}
NEWER = {"signal_weight": 0.5, "belief": 0.2}  # settings that version 0.1 did not have, with their defaults
SHARED = {
    *("depth", "iterations", "budget", "score_weight", "early_stopping", "similarity_scale"),
    *("calibrate", "final_list", "aggregation", *NEWER),
}


def own_settings(method):
    return {field.name for field in dataclasses.fields(METHODS[method].Settings)}


def from_command_line(*flags):
    return search_request(["--topics", "topics.tsv", *flags]).config


def as_toml(settings):
    """The settings as a TOML file of version 0.1 has them."""
    lines = []
    for name, value in settings.items():
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        lines.append(f"{name} = {text}\n")
    return "".join(lines)


def as_words(settings):
    """The settings as a run record of version 0.1 has them."""
    return " ".join(f"{name}={str(value).lower()}" for name, value in settings.items())


@given(
    st.builds(
        TourConfig,
        method=st.sampled_from(["hard", "soft"]),
        depth=st.integers(1, 1000),
        learning_rate=st.floats(0, 10),
        gradient_clip=st.floats(0.1, math.inf),
        early_stopping=st.booleans(),
        final_list=st.sampled_from(["last", "union"]),
    )
)
def test_a_config_prints_and_parses_back(config):
    assert TourConfig.parse(str(config)) == config
    assert TourConfig(config.method, **config.settings()) == config


@pytest.mark.parametrize("method", METHODS)
def test_a_method_has_one_meaning_everywhere(method, tmp_path):
    config = TourConfig(method)
    assert config == TourConfig(method=method) == TourConfig.parse(f"method={method}")
    assert config == from_command_line("--method", method)
    assert config == TourConfig().replace(method=method)
    assert config == TourConfig.parse(str(config)) == eval(repr(config))
    config.save(tmp_path / "config.toml")
    assert config == TourConfig.load(tmp_path / "config.toml")
    assert config == from_command_line("--config", str(tmp_path / "config.toml"))
    (tmp_path / "method.toml").write_text(f'method = "{method}"\n')
    assert config == TourConfig.load(tmp_path / "method.toml")


@pytest.mark.parametrize("method", METHODS)
def test_each_method_has_the_shared_settings_and_its_own(method):
    config = TourConfig(method)
    assert set(config.settings()) == SHARED | own_settings(method)
    assert all(getattr(config, name) == value for name, value in config.settings().items())
    assert {field.name for field in dataclasses.fields(config.own)} == own_settings(method)


def test_the_methods_of_version_0_1_have_the_settings_they_had():
    assert {method: own_settings(method) for method in OWN} == OWN


@pytest.mark.parametrize("name", PRESETS)
def test_presets_print_save_and_come_back(name, tmp_path):
    config = TourConfig.preset(name)
    config.save(tmp_path / "config.toml")
    assert TourConfig.load(tmp_path / "config.toml") == TourConfig.parse(str(config)) == config
    assert TourConfig.parse(f"preset={name}") == from_command_line("--preset", name) == config


def test_presets_named_after_a_method_are_that_method():
    named = [name for name in PRESETS if name in METHODS]
    assert len(named) == 8
    assert all(TourConfig.preset(name) == TourConfig(name) for name in named)
    assert TourConfig("rerank").score_weight == 1.0


def test_the_papers_table():
    columns = ["paper-odqa-phrases", "paper-passages-phrases", "paper-passages-dpr"]
    table = [
        [getattr(PRESETS[c], f) for c in columns] for f in ("learning_rate", "iterations", "depth", "score_weight")
    ]
    assert table == [[1.2, 1.2, 0.2], [3, 1, 1], [10, 100, 100], [0.1, 1, 1]]
    for name in columns:
        c = PRESETS[name]
        assert (c.momentum, c.weight_decay, c.p, c.tau, c.similarity_scale) == (0.99, 0.01, 0.5, 0.5, 1.0)


def test_the_plain_constructor_is_the_default_preset():
    assert TourConfig() == TourConfig.preset("default") == TourConfig("anchored")


def test_text_over_a_preset():
    config = TourConfig.parse("preset=official, depth=7")
    assert config == TourConfig.preset("official").replace(depth=7)


def test_empty_text_is_the_default():
    assert TourConfig.parse("") == TourConfig.parse(" ") == TourConfig()
    assert TourConfig.parse("depth=4,") == TourConfig(depth=4)


def test_official_is_the_published_code_where_it_differs():
    official = TourConfig.preset("official")
    differences = {"weight_decay": 0.1, "gradient_clip": 1.0, "aggregation": "softmax", "stopping": "nucleus"}
    assert official == TourConfig.preset("paper-odqa-phrases").replace(**differences)


def test_a_config_cannot_be_changed():
    config = TourConfig("hard")
    for name in ("depth", "learning_rate", "method", "shared", "anything"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, 5)
    for part, name in ((config.shared, "depth"), (config.own, "learning_rate")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, name, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del config.method
    config.settings()["depth"] = 99
    assert config == TourConfig("hard")


@pytest.mark.parametrize("method", METHODS)
def test_configs_are_hashed_copied_and_pickled_by_their_values(method):
    config = TourConfig(method, depth=7)
    copies = [copy.copy(config), copy.deepcopy(config), TourConfig(method, depth=7)]
    copies += [pickle.loads(pickle.dumps(config, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for other in copies:
        assert other == config and hash(other) == hash(config)
        assert str(other) == str(config) and other.depth == 7
    assert len({config, *copies}) == 1
    assert config != config.replace(depth=8)
    assert len({TourConfig(name) for name in METHODS}) == len(METHODS)


def test_a_setting_of_another_method_is_no_attribute():
    with pytest.raises(AttributeError, match="the method anchored has no setting 'learning_rate'"):
        _ = TourConfig().learning_rate
    assert not hasattr(TourConfig("rerank"), "tau")
    assert hasattr(TourConfig("refit"), "tau")


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


@pytest.mark.parametrize("values", [VERSION_0_1, VERSION_0_1_DEFAULTS], ids=["other values", "defaults"])
@pytest.mark.parametrize("method", OWN)
def test_complete_settings_of_version_0_1_have_the_same_values(method, values, tmp_path):
    expected = {name: value for name, value in values.items() if name in SHARED | OWN[method]} | NEWER
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


def test_replace_keeps_all_other_settings():
    config = TourConfig("hard", depth=7, learning_rate=0.5, tau=1.0)
    assert config.replace() == config
    assert config.replace(depth=9, tau=3) == TourConfig("hard", depth=9, learning_rate=0.5, tau=3.0)
    assert config == TourConfig("hard", depth=7, learning_rate=0.5, tau=1.0)
    assert config.replace(method="hard") == config


def test_replace_of_the_method_keeps_chosen_settings_that_the_new_method_has():
    config = TourConfig("hard", depth=7, learning_rate=0.5, tau=1.0, early_stopping=False)
    assert config.replace(method="soft") == TourConfig(
        "soft", depth=7, learning_rate=0.5, tau=1.0, early_stopping=False
    )
    assert config.replace(method="refit") == TourConfig("refit", depth=7, tau=1.0, early_stopping=False)
    assert config.replace(method="average", depth=4) == TourConfig("average", depth=4, early_stopping=False)


def test_replace_of_the_method_gives_defaults_of_the_old_method_up():
    assert TourConfig("rerank").replace(method="graph") == TourConfig("graph")
    assert TourConfig("graph").replace(method="hard") == TourConfig("hard")
    # depth=10 is the default of hard, so it counts as not chosen.
    assert TourConfig("hard", depth=10).replace(method="average").depth == TourConfig("average").depth == 3


def test_replace_refuses_what_the_new_method_does_not_have():
    with pytest.raises(TourError, match="the method rerank has no setting 'tau'"):
        TourConfig("hard").replace(method="rerank", tau=2.0)
    with pytest.raises(TourError, match="method 'harder' is unknown"):
        TourConfig().replace(method="harder")
    assert TourConfig("rerank").replace(method="hard", tau=1.0) == TourConfig("hard", tau=1.0)


@pytest.mark.parametrize(
    ("config", "rounds", "labels", "calibrates"),
    [
        (TourConfig("hard", depth=5, iterations=2), 2, 15, False),
        (TourConfig("hard", depth=5, iterations=2, budget=7), 2, 7, False),
        (TourConfig("anchored", depth=5, iterations=2), 2, 10, True),
        (TourConfig("anchored", depth=5, iterations=2, budget=11), 3, 11, True),
        (TourConfig("anchored", calibrate="never"), 3, 30, False),
        (TourConfig("rerank", depth=8), 0, 8, False),
        (TourConfig("rerank", depth=8, iterations=3, calibrate="always"), 0, 32, True),
    ],
    ids=str,
)
def test_rounds_and_labels_by_hand(config, rounds, labels, calibrates):
    assert (config.rounds, config.most_labels, config.calibrates) == (rounds, labels, calibrates)


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
