import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tour_pyserini.core.presets import PRESETS, preset_for

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError


@given(
    st.builds(
        TourConfig,
        method=st.sampled_from(["hard", "soft", "rocchio"]),
        depth=st.integers(1, 1000),
        learning_rate=st.floats(0, 10),
        gradient_clip=st.floats(0.1, math.inf),
        early_stopping=st.booleans(),
        final_list=st.sampled_from(["last", "union"]),
    )
)
def test_prints_and_parses_back(config):
    assert TourConfig.parse(str(config)) == config
    assert TourConfig(**dataclasses.asdict(config)) == config


@pytest.mark.parametrize("name", PRESETS)
def test_presets_print_save_and_come_back(name, tmp_path):
    config = TourConfig.preset(name)
    config.save(tmp_path / "config.toml")
    assert TourConfig.load(tmp_path / "config.toml") == TourConfig.parse(str(config)) == config


def test_the_papers_table():
    columns = ["paper-odqa-phrases", "paper-passages-phrases", "paper-passages-dpr"]
    table = [
        [getattr(PRESETS[c], f) for c in columns] for f in ("learning_rate", "iterations", "depth", "score_weight")
    ]
    assert table == [[1.2, 1.2, 0.2], [3, 1, 1], [10, 100, 100], [0.1, 1, 1]]
    for name in columns:
        c = PRESETS[name]
        assert (c.momentum, c.weight_decay, c.p, c.tau, c.similarity_scale) == (0.99, 0.01, 0.5, 0.5, 1.0)


def test_plain_constructor_is_the_default_preset():
    assert TourConfig() == TourConfig.preset("default") == preset_for("anchored")
    assert preset_for("rerank").score_weight == 1.0


def test_text_over_a_preset():
    config = TourConfig.parse("preset=official, depth=7")
    assert config == TourConfig.preset("official").replace(depth=7)


def test_nothing_said_is_the_default():
    assert TourConfig.parse("") == TourConfig.parse(" ") == TourConfig()
    assert TourConfig.parse("depth=4,") == TourConfig(depth=4)


def test_official_is_the_published_code_where_it_differs():
    official = TourConfig.preset("official")
    differences = {"weight_decay": 0.1, "gradient_clip": 1.0, "aggregation": "softmax", "stopping": "nucleus"}
    assert official == TourConfig.preset("paper-odqa-phrases").replace(**differences)


def test_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TourConfig().depth = 5


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("method=harder", ["harder", "hard, soft"]),
        ("depth=0", ["depth", "0"]),
        ("depth=ten", ["depth", "whole number", "ten"]),
        ("tau=0", ["tau"]),
        ("p=1.5", ["p must"]),
        ("p=nan", ["p must"]),
        ("learning_rate=inf", ["learning_rate", "finite"]),
        ("gradient_clip=nan", ["gradient_clip"]),
        ("momentum=1", ["momentum"]),
        ("early_stopping=maybe", ["early_stopping", "true or false"]),
        ("final_list=first", ["final_list", "last, union"]),
        ("preset=papers", ["papers", "paper-passages-dpr"]),
        ("lr=3", ["'lr'", "learning_rate"]),
        ("depth", ["name=value"]),
        ("depth=3 depth=4", ["twice"]),
    ],
)
def test_bad_settings_name_themselves(text, names):
    with pytest.raises(TourError) as caught:
        TourConfig.parse(text)
    assert all(name in str(caught.value) for name in names)
    assert str(caught.value).count("\n") == 0


def test_bad_files_are_named(tmp_path):
    path = tmp_path / "c.toml"
    with pytest.raises(TourError, match=r"c\.toml"):
        TourConfig.load(path)
    for text in ("depth = [", "depht = 3", 'depth = "x"'):
        path.write_text(text)
        with pytest.raises(TourError, match=r"c\.toml"):
            TourConfig.load(path)
