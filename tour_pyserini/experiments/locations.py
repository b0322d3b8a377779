"""The paths of an experiment: what it reads and where it writes."""

import os
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from tour_pyserini.data.demo_collection import CORPUS
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Experiment, Setup


class Locations(NamedTuple):
    """Folders and variables.

    Attributes:
        runs: the folder of this experiment's runs.
        indexes: the folder of indexes, which experiments share.
        cache: the score cache; None for the one in the cache folder.
        variables: the values of ${VARIABLES} in paths.
    """

    runs: Path
    indexes: Path
    cache: str | None
    variables: Mapping[str, str]

    def run(self, setup: Setup, condition: str) -> Path:
        """The run of a condition in a setup."""
        return self.runs / f"{setup.name}.{condition}.trec.gz"

    def archive(self, setup: Setup) -> Path:
        """The file with all runs of a setup, as a repository stores them."""
        return self.runs / f"{setup.name}.runs.xz"

    def index_folder(self, experiment: Experiment, setup: Setup, kind: str | None = None) -> Path:
        """The folder of the setup's index, or of another kind of index with the same encoder."""
        stem = experiment.collections[setup.collection].stem
        return self.indexes / f"{stem}.{setup.encoder}.{kind or setup.index_kind}"

    def qrels(self, collection: str) -> Path:
        """Judgements that are made for this experiment: of some topics, or by answers."""
        return self.runs / f"{collection}.qrels"

    def portable(self, path: Path) -> str:
        """A path as records have it: ${RUNS} and ${INDEXES} stand for the folders of this machine."""
        for name, folder in (("RUNS", self.runs), ("INDEXES", self.indexes)):
            if path.is_relative_to(folder):
                return f"${{{name}}}/{path.relative_to(folder).as_posix()}"
        return str(path)

    def expanded(self, text: str) -> str:
        """The text with its ${VARIABLES} replaced.

        Raises:
            TourError: if a variable has no value.
        """
        try:
            return Template(text).substitute(self.variables)
        except KeyError as missing:
            name = str(missing).strip("'")
            hint = "give --data DIR" if name == "DATA" else f"set it in the environment: {name}=..."
            raise TourError(f"{text!r} needs the variable {name}; {hint}.") from None
        except ValueError:
            raise TourError(f"{text!r} has a $ without a {{VARIABLE}} after it; write $$ for a dollar sign.") from None

    def is_file(self, text: str) -> bool:
        """Whether a path of the experiment file, with its ${VARIABLES} replaced, is a file on this machine."""
        try:
            return Path(self.expanded(text)).is_file()
        except TourError:
            return False


def variables(data: str | None) -> Mapping[str, str]:
    """The variables of the environment, with DATA for `--data` and DEMO for the embedded collection."""
    own = {"DEMO": str(CORPUS.parent)} | ({"DATA": data} if data else {})
    return {**os.environ, **own}
