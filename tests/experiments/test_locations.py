"""Paths of an experiment, with variables."""

from pathlib import Path

import pytest

from tour_pyserini.data.demo_collection import CORPUS
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.planning import Locations, variables


def expanded(text, values):
    return Locations(Path("runs"), Path("indexes"), None, values).expanded(text)


def test_variables_are_replaced_or_named_in_the_error():
    assert expanded("${DATA}/a/$$5", {"DATA": "here"}) == "here/a/$5"
    with pytest.raises(TourError, match="variable DATA; give --data DIR"):
        expanded("${DATA}/a", {})
    with pytest.raises(TourError, match="variable MODELS; set it in the environment"):
        expanded("${MODELS}/a", {})
    with pytest.raises(TourError, match=r"a \$ without a {VARIABLE} after it; write \$\$"):
        expanded("a$", {})


def test_a_file_of_the_experiment_is_looked_for_with_its_variables(monkeypatch):
    monkeypatch.delenv("NOTHING", raising=False)
    locations = Locations(Path("runs"), Path("indexes"), None, variables(None))
    assert locations.is_file("${DEMO}/" + CORPUS.name)
    assert not locations.is_file("${DEMO}/missing.jsonl")
    assert not locations.is_file("${NOTHING}/a")
