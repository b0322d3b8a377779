"""Settings: one meaning in Python, as text, in TOML files and on the command line."""

import copy
import dataclasses
import math
import pickle

import pytest
from config_samples import SHARED, from_command_line, own_settings
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.config import PRESETS, TourConfig
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError


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


@pytest.mark.parametrize("name", PRESETS)
def test_presets_print_save_and_come_back(name, tmp_path):
    config = TourConfig.preset(name)
    config.save(tmp_path / "config.toml")
    assert TourConfig.load(tmp_path / "config.toml") == TourConfig.parse(str(config)) == config
    assert TourConfig.parse(f"preset={name}") == from_command_line("--preset", name) == config


def test_presets_named_after_a_method_are_that_method():
    named = [name for name in PRESETS if name in METHODS]
    assert {"dense", "rerank", "refit", "graph", "ladr", "rgs", "ore"} < set(named)
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
