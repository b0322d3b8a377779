"""The searches and indexes that make up an experiment, as requests."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Cell, Condition, Experiment, Flags, expanded
from tour_pyserini.experiments.locations import Places
from tour_pyserini.pipeline.index_request import IndexRequest
from tour_pyserini.pipeline.request import words
from tour_pyserini.pipeline.search_request import SearchRequest


class PlannedSearch(NamedTuple):
    """One search.

    Attributes:
        flags: values of the flags of `python -m tour_pyserini.search`.
        settings: the flags as the file has them: no path of this machine, ${VARIABLES} as written.
        inputs: files by role, as far as they are files.
    """

    flags: Flags
    settings: str
    inputs: dict[str, Path]

    def request(self, condition: str) -> SearchRequest:
        """The search as a request.

        Raises:
            TourError: if the search has no such flag or setting; it names the condition.
        """
        try:
            return SearchRequest.from_flags(self.flags)
        except TourError as error:
            raise TourError(f"the condition {condition}: {error}") from error

    def command(self) -> str:
        """The equivalent command line."""
        return command_line("search", self.flags)


class PlannedIndex(NamedTuple):
    """One index: its folder, and values of the flags of `python -m tour_pyserini.index`."""

    folder: Path
    flags: Flags

    def request(self) -> IndexRequest:
        """The index as a request."""
        return IndexRequest.from_flags(self.flags)

    def command(self) -> str:
        """The equivalent command line."""
        return command_line("index", self.flags)


def plan_index(experiment: Experiment, cell: Cell, places: Places, kind: str) -> PlannedIndex | None:
    """A kind of index of the cell's collection and encoder; None for a prebuilt one."""
    index = experiment.indexes[kind]
    if index.prebuilt:
        return None
    folder = places.index_folder(experiment, cell, kind)
    made = {"corpus": experiment.collections[cell.collection].corpus, **index_flags(experiment, cell, kind)}
    flags = _expanded(made, places)
    if index.vectors:
        flags["vectors"] = str(places.index_folder(experiment, cell, index.vectors))
    return PlannedIndex(folder, {**flags, "index": str(folder)})


def plan_search(
    experiment: Experiment, cell: Cell, condition: Condition, places: Places, *, output: Path, qrels: Path | None
) -> PlannedSearch:
    """The search of a condition in a cell; only the topics that `qrels` judges where it is given."""
    collection, index = experiment.collections[cell.collection], experiment.indexes[cell.kind]
    flags = {
        "topics": collection.topics,
        "corpus": collection.corpus,
        **collection.search_flags,
        **experiment.encoders[cell.encoder].search_flags,
        **experiment.rerankers[cell.reranker].flags,
        **condition.flags,
        "hits": experiment.hits,
    }
    made = index_flags(experiment, cell, cell.kind)
    paths: dict[str, Any] = {"index": index.prebuilt or str(places.index_folder(experiment, cell))}
    if index.vectors and not made.get("phrases"):  # a phrase index has exact vectors of its own
        paths["vectors"] = str(places.index_folder(experiment, cell, index.vectors))
    if qrels:
        paths["qrels"] = str(qrels)
    if places.cache and "no-cache" not in flags:
        paths["cache"] = places.cache
    complete = _expanded(flags, places)
    inputs = {"topics": Path(str(complete["topics"])), "corpus": Path(str(complete["corpus"]))}
    inputs |= {"qrels": qrels} if qrels else {}
    inputs = {role: path for role, path in inputs.items() if path.is_file()}
    inputs |= _weights({"index encoder": made.get("encoder"), **{name: flags.get(name) for name in _MODELS}}, places)
    settings = shlex.join([*index_settings(experiment, cell), *words(flags)])
    return PlannedSearch({**complete, **paths, "output": str(output)}, settings, inputs)


def index_flags(experiment: Experiment, cell: Cell, kind: str) -> dict[str, Any]:
    """How an index is made: flags of its encoder and of its kind."""
    return {**experiment.encoders[cell.encoder].index_flags, **experiment.indexes[kind].flags}


def index_settings(experiment: Experiment, cell: Cell) -> list[str]:
    """How the cell's index is made, or its name, as words of a command line."""
    index = experiment.indexes[cell.kind]
    if index.prebuilt:
        return ["--index", index.prebuilt]
    vectors = {"vectors": index.vectors} if index.vectors else {}
    return words({**index_flags(experiment, cell, cell.kind), **vectors})


def command_line(command: str, flags: Flags) -> str:
    """A command as it is typed."""
    return shlex.join(["python", "-m", f"tour_pyserini.{command}", *words(flags)])


_MODELS = ("encoder", "reranker")
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".json")


def _weights(models: Mapping[str, Any], places: Places) -> dict[str, Path]:
    """The files of models that are folders, by role and name: a model that is trained again makes new runs."""
    folders = {role: Path(expanded(str(name), places.variables)) for role, name in models.items() if name is not None}
    return {
        f"{role} {file.name}": file
        for role, folder in folders.items()
        if folder.is_dir()
        for file in sorted(folder.iterdir())
        if file.suffix in _WEIGHTS and file.is_file()
    }


def _expanded(flags: Flags, places: Places) -> dict[str, Any]:
    """The flags with their ${VARIABLES} replaced."""
    return {
        name: expanded(value, places.variables) if isinstance(value, str) else value for name, value in flags.items()
    }
