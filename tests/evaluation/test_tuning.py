"""Settings chosen by judged queries: replays give what searches give, and chance alone chooses nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.evaluation.tuning import (
    DEFAULT,
    HITS,
    JudgedQuery,
    Trials,
    confidence_interval,
    ingredients,
    labelling_plan,
    settings_to_try,
    task_of,
    tune_trials,
)

CONFIGS = [*settings_to_try(signals=True), *ingredients(signals=True).values()]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"), documents=260, queries=3)


@pytest.fixture(scope="module")
def searcher(toy):
    """It searches with a signal too: documents in an order of the query's own."""

    def signal(queries, k):
        orders = [np.random.default_rng(3 + toy.queries.index(text)).permutation(260) for text in queries]
        return [[f"d{at}" for at in order[:150]] for order in orders], [list(range(150, 0, -1)) for _ in orders]

    given = toy.vectors, toy.texts, toy.encoder.encode, HashReranker().predict
    return TourSearcher.from_vectors(*given, signals=[signal])


@pytest.fixture(scope="module")
def judged(toy, searcher):
    """The queries with the labels of the labelling plan, and no others."""
    found = []
    for task in searcher.tasks(toy.queries, toy.q_ids, HITS):
        labels = {}
        for config in labelling_plan(signals=True):
            one = task_of(task.query, config)
            searcher.scheduler().run([one], lambda tasks: [HashReranker().predict(searcher.pairs(t)) for t in tasks])
            labels |= one.labels
        found.append(JudgedQuery(task.query, labels, searcher.nearest, searcher.fetch))
    return found


@settings(max_examples=40, deadline=None)
@given(config=st.sampled_from(CONFIGS))
def test_a_replay_gives_what_a_search_gives_with_the_labels_of_the_plan(toy, searcher, judged, config):
    expected = searcher.run(toy.queries, toy.q_ids, HITS, config=config)
    for query, task in zip(judged, expected, strict=True):
        replayed = query.replay(config)
        assert replayed.result.ranking.ids[:HITS].tolist() == task.result.ranking.ids[:HITS].tolist()
        assert replayed.result.ranking.scores[:HITS] == pytest.approx(task.result.ranking.scores[:HITS])
        assert replayed.labels == task.labels


def test_each_label_is_asked_for_by_some_settings_and_every_vector_is_searched_once(judged):
    for query in judged:
        used = set().union(*(query.replay(config).labels for config in CONFIGS))
        assert used <= query.labels.keys() and len(used) > 0.8 * len(query.labels)
        query.forget()


def trials(gains):
    """Trials over all settings whose first measure is 0.5 and, for some settings, what `gains` says."""
    tried = settings_to_try(signals=True)
    queries = len(next(iter(gains.values())))
    values = np.full((len(tried), queries), 0.5)
    for config, gained in gains.items():
        values[tried.index(config)] += gained
    return Trials(tried, {"nDCG@10": values, "R@100": values}, np.zeros(values.shape, dtype=np.int64))


BETTER = DEFAULT.replace(signal_weight=1.0, reranker_weight=0.1)


def test_what_gains_for_all_queries_is_chosen_and_nothing_else():
    found = trials({BETTER: np.full(30, 0.2)})
    choice = tune_trials(found)
    assert found.configs[choice.row] == BETTER and choice.gain == (pytest.approx(0.2), pytest.approx(0.0))
    one_query = np.where(np.arange(30) == 3, 1.0, -0.01)
    for chance in (np.full(30, -0.2), one_query):
        assert tune_trials(trials({BETTER: chance})).row == 0


def test_fewer_labels_are_chosen_where_labels_harm():
    for fewer in (DEFAULT.replace(budget=0), DEFAULT.replace(budget=10)):
        found = trials({fewer: np.full(20, 0.1)})
        assert found.configs[tune_trials(found).row] == fewer


def test_by_chance_alone_the_default_stays():
    random, changed = np.random.default_rng(1), 0
    for _ in range(40):
        found = trials({config: random.normal(0, 0.1, 30) for config in settings_to_try(signals=True)[1:]})
        choice = tune_trials(found)
        assert choice.row == 0 or choice.gain[0] > choice.gain[1]
        changed += choice.row != 0
    assert changed <= 12


def test_settings_without_signals_have_no_weights_of_signals():
    assert {config.signal_weight for config in settings_to_try(signals=False)} == {TourConfig().signal_weight}
    assert list(ingredients(signals=False)) == ["dense", "re-rank", "mixed"]


def test_the_interval_holds_the_mean():
    values = np.random.default_rng(0).normal(0.3, 0.1, 400)
    low, high = confidence_interval(values)
    assert (low, high) == pytest.approx((values.mean() - 0.0098, values.mean() + 0.0098), abs=0.003)
