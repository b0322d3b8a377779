"""Methods by name, and methods of users: registered, configured, run and refused."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from halfway_method import Halfway, registered
from memory_corpus import MemoryCorpus

from tour_pyserini.cli.search_flags import search_parser, search_request
from tour_pyserini.core.config import TourConfig, settings_by_name
from tour_pyserini.core.loop import StopReason
from tour_pyserini.core.methods import METHODS, Method, method_named, register_method
from tour_pyserini.core.ranking import rank
from tour_pyserini.core.settings import AT_LEAST_1, Settings, setting
from tour_pyserini.errors import TourError


@pytest.fixture
def halfway():
    with registered("halfway", Halfway):
        yield
    assert "halfway" not in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_method_begins_with_its_own_settings(name):
    config, queries = TourConfig(name), np.ones((2, 3))
    method = config.new_method(queries)
    assert type(method) is METHODS[name] is method_named(name) is config.method_class
    assert method.settings is config.own and type(method.settings) is METHODS[name].Settings
    assert method.start is queries and method.rounds == config.rounds
    assert METHODS[name].__doc__
    assert (config.rounds > 0) == METHODS[name].updates_query


def test_the_methods_cannot_be_changed_from_outside():
    with pytest.raises(TypeError):
        METHODS["mine"] = Halfway
    with pytest.raises(TourError, match=r"method 'mine' is unknown: choose one of anchored, .*graph.*\.$"):
        method_named("mine")


def test_a_registered_method_has_settings_everywhere(halfway, tmp_path):
    config = TourConfig("halfway", share=0.25, goal="worst", depth=3)
    assert config.settings()["iterations"] == 2 and TourConfig("halfway").depth == 4
    assert (config.share, config.goal, config.back, config.depth) == (0.25, "worst", False, 3)
    assert TourConfig.parse(str(config)) == config == pickle.loads(pickle.dumps(config))
    config.save(tmp_path / "config.toml")
    assert TourConfig.load(tmp_path / "config.toml") == config
    flags = ["--topics", "t.tsv", "--method", "halfway", "--share", "0.25", "--goal", "worst", "--depth", "3"]
    assert search_request(flags).config == config
    assert search_request([*flags, "--back"]).config == config.replace(back=True)
    assert "how much of the way the query moves (default: 0.5; for halfway)" in " ".join(
        search_parser().format_help().split()
    )
    assert settings_by_name()["share"][1] == ["halfway"]


def test_a_registered_method_refuses_wrong_settings(halfway):
    with pytest.raises(TourError, match=r"share must lie in \[0, 1\], not 2"):
        TourConfig("halfway", share=2)
    with pytest.raises(TourError, match="goal must be one of best, worst, not 'next'"):
        TourConfig.parse("method=halfway goal=next")
    with pytest.raises(TourError, match="the method halfway has no setting 'tau', which is for"):
        TourConfig("halfway", tau=1)
    with pytest.raises(TourError, match="the method hard has no setting 'share', which is for halfway"):
        TourConfig("hard", share=0.5)
    assert TourConfig("halfway", depth=9).replace(method="hard") == TourConfig("hard", depth=9)


def test_a_registered_method_runs_in_the_loop(halfway):
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    scores = np.array([[1.0, 5.0, 0.0]])
    start = np.array([[1.0, 0.2]])
    rounds = []
    corpus = MemoryCorpus(vectors, scores, 3)
    config = TourConfig("halfway", depth=2, similarity_scale=1.0, score_weight=1.0)
    outcome = corpus.run(start, config, observe=rounds.append)
    # Twice halfway to the second passage: (1, 0.2), (0.5, 0.6), (0.25, 0.8).
    assert outcome.queries == pytest.approx(np.array([[0.25, 0.8]]))
    assert [round_.queries.tolist() for round_ in rounds] == [
        [pytest.approx([1.0, 0.2])],
        [pytest.approx([0.5, 0.6])],
        [pytest.approx([0.25, 0.8])],
    ]
    assert [round_.stops for round_ in rounds] == [[None], [None], [StopReason.ROUNDS]]
    assert sorted(corpus.scored) == [(0, 0), (0, 1)]
    ranking = rank(outcome, 0, config, hits=3)
    assert ranking.ids.tolist() == [1, 0, 2]
    assert ranking.scores[:2].tolist() == [5.0, 1.0]
    away = MemoryCorpus(vectors, scores, 3).run(start, config.replace(back=True, iterations=1))
    assert away.queries == pytest.approx(np.array([[1.5, -0.2]]))


class Picky(Halfway):
    """Finds that nothing is worth a label for the second query."""

    def nothing_to_gain(self, rows, offered):
        return rows == 1

    def target(self, candidates):
        return candidates.mask.astype(float)

    def update(self, rows, query, candidates, target, t):
        return query


def test_a_method_that_does_not_keep_labels_can_decline_them():
    rounds = []
    corpus = MemoryCorpus(np.eye(3), np.arange(6.0).reshape(2, 3), 3)
    with registered("picky", Picky):
        corpus.run(np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]), TourConfig("picky"), observe=rounds.append)
    assert rounds[0].stops == [None, StopReason.NOTHING_TO_GAIN]
    assert rounds[0].candidates.mask.tolist() == [[True, True, True, False], [False] * 4]
    assert all(row == 0 for row, _ in corpus.scored)


@dataclass(frozen=True, kw_only=True)
class WithDepth(Settings):
    depth: int = setting(3, "hides the shared setting", rule=AT_LEAST_1)


@dataclass(frozen=True, kw_only=True)
class WithPlainField(Settings):
    width: int = 3


@dataclass(frozen=True, kw_only=True)
class WithoutDefault(Settings):
    width: object = setting(None, "neither number nor word")


@dataclass(frozen=True, kw_only=True)
class WithWrongDefault(Settings):
    width: int = setting(0, "too small", rule=AT_LEAST_1)


class Undecorated(Settings):
    width: int = setting(3, "no dataclass")


class Incomplete(Method):
    def target(self, candidates):
        return candidates.labels


def with_settings(settings, **attributes):
    return type("Mine", (Halfway,), {"Settings": settings, **attributes})


@pytest.mark.parametrize(
    ("name", "method", "message"),
    [
        ("hard", Halfway, "there is a method 'hard' already; choose another name"),
        ("my method", Halfway, "'my method' cannot name a method: use letters, digits and hyphens"),
        ("", Halfway, "'' cannot name a method"),
        ("a=b", Halfway, "'a=b' cannot name a method"),
        ("a,b", Halfway, "'a,b' cannot name a method"),
        (None, Halfway, "None cannot name a method"),
        ("mine", "halfway", "'halfway' is not a subclass of Method"),
        ("mine", Settings, "Settings'> is not a subclass of Method"),
        ("mine", Incomplete, "the method 'mine' has no update; add it"),
        ("mine", Method, "the method 'mine' has no target and no update; add it"),
        ("mine", with_settings(dict), "the Settings of the method 'mine' are not a subclass of"),
        ("mine", with_settings(WithDepth()), "the Settings of the method 'mine' are not a subclass of"),
        ("mine", with_settings(WithDepth), "cannot have a setting 'depth': all methods use the name"),
        ("mine", with_settings(WithPlainField), "the setting 'width' of the method 'mine' must be made with"),
        ("mine", with_settings(WithoutDefault), "the setting 'width' of the method 'mine' must be made with"),
        ("mine", with_settings(WithWrongDefault), "'mine' has a wrong default: width must be at least 1, not 0"),
        ("mine", with_settings(Undecorated), "are not a dataclass: add @dataclass"),
        ("mine", with_settings(Settings, shared_defaults={"tau": 1}), "shared_defaults of the method 'mine' has 'tau'"),
        ("mine", with_settings(Settings, shared_defaults={"depth": 0}), "'mine' has a wrong default: depth must be"),
    ],
)
def test_a_wrong_registration_is_refused(name, method, message):
    before = dict(METHODS)
    with pytest.raises(TourError) as caught:
        register_method(name, method)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert dict(METHODS) == before
