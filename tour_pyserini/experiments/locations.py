"""Where an experiment finds what it reads, and keeps what it makes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.data.demo_collection import CORPUS
from tour_pyserini.experiments.definition import Cell, Experiment


class Places(NamedTuple):
    """Folders and variables.

    Attributes:
        runs: the folder of this experiment's runs.
        indexes: the folder of indexes, which experiments share.
        cache: the file of re-ranker scores; None for the user's own.
        variables: what ${VARIABLES} in paths stand for.
    """

    runs: Path
    indexes: Path
    cache: str | None
    variables: Mapping[str, str]

    def run(self, cell: Cell, condition: str) -> Path:
        """The run of a condition in a cell."""
        return self.runs / f"{cell.name}.{condition}.trec.gz"

    def archive(self, cell: Cell) -> Path:
        """All runs of a cell in one file, as a repository keeps them."""
        return self.runs / f"{cell.name}.runs.xz"

    def index_folder(self, experiment: Experiment, cell: Cell, kind: str | None = None) -> Path:
        """The folder of the cell's index, or of another kind with the same encoder."""
        return self.indexes / f"{experiment.collections[cell.collection].stem}.{cell.encoder}.{kind or cell.kind}"

    def qrels(self, collection: str) -> Path:
        """Judgements made for this experiment: of some topics, or by answers."""
        return self.runs / f"{collection}.qrels"


def variables(data: str | None) -> Mapping[str, str]:
    """The environment's variables, with DATA for `--data` and DEMO for the embedded collection."""
    own = {"DEMO": str(CORPUS.parent)} | ({"DATA": data} if data else {})
    return {**os.environ, **own}
