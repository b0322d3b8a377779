"""The benchmark of tune on queries that are made up: what gains for all of them is found, and nothing else."""

import numpy as np
import pytest

from benchmarks.tuning import Replayed, gains_table, probabilities_table, tuned
from tour_pyserini.evaluation.tuning import DEFAULT, MEASURES, Trials, ingredients, settings_to_try, tune_trials

QUERIES, BETTER = 60, DEFAULT.replace(signal_weight=1.0, reranker_weight=0.1)


def replayed(gain):
    """A collection where one of the settings gains for every query, and labels tell what is relevant."""
    random, configs = np.random.default_rng(0), settings_to_try(signals=True)
    values = np.tile(random.uniform(0.2, 0.6, QUERIES), (len(configs), 1))
    values[configs.index(BETTER)] += gain
    relevant = np.tile(random.random((QUERIES, 20)) < 0.3, (len(configs), 1, 1))
    features = random.normal(0, 0.5, (*relevant.shape, 4)) + 2.0 * relevant[..., None]
    recipes = {name: values[0] - 0.1 for name in ingredients(signals=True)}
    absent = random.normal(0, 0.5, (QUERIES, 20, 4))
    trials = Trials(configs, dict.fromkeys(MEASURES, values), np.zeros(values.shape, dtype=np.int64))
    return Replayed("made up", trials, recipes, features, relevant, absent)


def test_gains_on_queries_that_were_not_judged_and_probabilities():
    def rule(trials):
        return tune_trials(trials).row

    found, values, rows = tuned(replayed(0.2), 10, rule, count=5)
    assert found == pytest.approx(np.full(5, 0.2)) and len(set(rows)) == 1
    assert np.isnan(values).sum() < QUERIES
    one = replayed(0.2)._replace(name="a")
    gains, against = gains_table([one], rule, 2)
    assert [cell.split()[0] for cell in gains.cells[1][3:7]] == ["+0.2000"] * 4
    assert len(against.cells) == 2 and tuned(replayed(0.0), 10, rule, count=5)[0].tolist() == [0.0] * 5
    line = probabilities_table([replayed(0.0)], 3).cells[1]
    assert float(line[1]) < 0.1 and line[3] == "100%"
