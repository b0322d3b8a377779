"""Settings: one meaning in Python, as text, in TOML files and on the command line."""

import copy
import dataclasses
import math
import pickle

import pytest
from halfway_method import halfway
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.core.config import PRESETS, TourConfig
from tour_pyserini.core.method import METHODS
from tour_pyserini.errors import TourError
from tour_pyserini.search import search_request


def from_command_line(*flags):
    return search_request(["--topics", "topics.tsv", *flags]).config


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
    assert TourConfig(config.method, **config.values()) == config


@pytest.mark.parametrize(
    ("kind", "name"), [*(("method", name) for name in METHODS), *(("preset", name) for name in PRESETS)]
)
def test_methods_and_presets_have_one_meaning_everywhere(kind, name, tmp_path):
    config = TourConfig(name) if kind == "method" else TourConfig.preset(name)
    assert config == TourConfig.parse(f"{kind}={name}") == from_command_line(f"--{kind}", name)
    assert config == TourConfig.parse(str(config)) == eval(repr(config))
    config.save(tmp_path / "config.toml")
    assert config == TourConfig.load(tmp_path / "config.toml")
    assert config == from_command_line("--config", str(tmp_path / "config.toml"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.depth = 5


def test_the_papers_table():
    columns = ["paper-odqa-phrases", "paper-passages-phrases", "paper-passages-dpr"]
    rows = ("learning_rate", "iterations", "depth", "score_weight")
    table = [[getattr(PRESETS[column], row) for column in columns] for row in rows]
    assert table == [[1.2, 1.2, 0.2], [3, 1, 1], [10, 100, 100], [0.1, 1, 1]]
    for name in columns:
        c = PRESETS[name]
        assert (c.momentum, c.weight_decay, c.p, c.tau, c.similarity_scale) == (0.99, 0.01, 0.5, 0.5, 1.0)


@pytest.mark.parametrize("method", [*METHODS, halfway])
def test_configs_are_hashed_copied_and_pickled_by_their_values(method):
    config = TourConfig(method, signal_weight=0.25)
    copies = [copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))] if method != halfway else []
    for other in [*copies, TourConfig(method, signal_weight=0.25)]:
        assert other == config and hash(other) == hash(config)
        assert str(other) == str(config) and other.signal_weight == 0.25
    assert config != config.replace(signal_weight=1.0)


def test_replace_of_the_method_keeps_chosen_settings_that_the_new_method_has():
    chosen = {"depth": 7, "learning_rate": 0.5, "tau": 1.0, "early_stopping": False}
    config = TourConfig("hard", **chosen)
    assert config.replace(method="soft") == TourConfig("soft", **chosen)
    assert config.replace(method="average") == TourConfig("average", depth=7)
    # depth=10 is the default of hard, so it counts as not chosen.
    assert TourConfig("hard", depth=10).replace(method="average").depth == TourConfig("average").depth == 3


@pytest.mark.parametrize(
    ("config", "labels"),
    [
        (TourConfig("hard", depth=5, iterations=2), 15),
        (TourConfig("hard", depth=5, iterations=2, budget=7), 7),
        (TourConfig(depth=5, budget=11), 11),
        (TourConfig("rerank", depth=8), 8),
        (TourConfig("dense"), 0),
    ],
    ids=str,
)
def test_most_labels_by_hand(config, labels):
    assert config.most_labels == labels


REFUSED = {
    "method=harder": "unknown",
    "preset=paperr": "unknown",
    "depth=0": "depth",
    "depth=2.5": "whole number",
    "step=nan": "finite",
    "early_stopping=maybe": "true or false",
    "depth=1 depth=2": "twice",
    "dpeth=3": "its settings are",
    "method=rerank aggregation=mean": "linear",
    "method=rerank budget=3": "budget",
    "method=hard budget=41": "changes nothing",
    "method=soft p=0.9": "nucleus",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_refused_in_one_sentence(text):
    with pytest.raises(TourError, match=REFUSED[text]):
        TourConfig.parse(text)


def test_files_that_hold_no_settings_are_named(tmp_path):
    for content in (b"depth = ", b"\xff", b"depth = 0"):
        (tmp_path / "wrong.toml").write_bytes(content)
        with pytest.raises(TourError, match=r"wrong\.toml"):
            TourConfig.load(tmp_path / "wrong.toml")
    with pytest.raises(TourError, match=r"none\.toml"):
        TourConfig.load(tmp_path / "none.toml")
