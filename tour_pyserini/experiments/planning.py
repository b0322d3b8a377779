"""The searches and indexes of an experiment, as requests."""

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import COLLECTION, Condition, Experiment, Flags, Setup, of_collection
from tour_pyserini.experiments.locations import Locations
from tour_pyserini.flags import Request, flag_name, words
from tour_pyserini.index import IndexRequest
from tour_pyserini.search_request import SearchRequest

_MODELS = ("encoder", "reranker")
# Flags of the search command that name files it writes.
_OUTPUTS = ("output", "trace", "predictions", "output_queries", "cache")
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".json")


class PlannedSearch(NamedTuple):
    """One search.

    Attributes:
        flags: values of the flags of `python -m tour_pyserini.search`.
        settings: the flags as the experiment file has them: ${VARIABLES} are not replaced, and paths of this machine
            are left out.
        inputs: those inputs that are files, by role.
        portable: the flags with ${VARIABLES} in place of paths of this machine: those of the experiment file, ${RUNS}
            and ${INDEXES}.
    """

    flags: Flags
    settings: str
    inputs: dict[str, Path]
    portable: Flags

    def request(self, condition: str) -> SearchRequest:
        """The search as a request.

        Raises:
            TourError: if a flag or a setting is wrong; the message names the condition.
        """
        try:
            return SearchRequest.from_flags(_with_numbers(self.flags, SearchRequest))
        except TourError as error:
            raise TourError(f"the condition {condition}: {error}") from error

    def command(self) -> str:
        """The equivalent command line, to show to users."""
        return _command_line("search", self.flags)

    def portable_command(self) -> str:
        """The equivalent command line with ${VARIABLES} in place of paths of this machine, for records."""
        return " ".join(["python -m tour_pyserini.search", *map(_quoted, words(self.portable))])


class PlannedIndex(NamedTuple):
    """One index: its folder, and values of the flags of `python -m tour_pyserini.index`."""

    folder: Path
    flags: Flags

    def request(self) -> IndexRequest:
        """The index as a request.

        Raises:
            TourError: if a flag is wrong; the message names the folder.
        """
        try:
            return IndexRequest.from_flags(_with_numbers(self.flags, IndexRequest))
        except TourError as error:
            raise TourError(f"the index {self.folder.name}: {error}") from error

    def command(self) -> str:
        """The equivalent command line, to show to users."""
        return _command_line("index", self.flags)


def plan_index(experiment: Experiment, setup: Setup, locations: Locations, kind: str) -> PlannedIndex | None:
    """An index of the setup's collection and encoder; None for a prebuilt one."""
    index = experiment.indexes[kind]
    if index.prebuilt:
        return None
    folder = locations.index_folder(experiment, setup, kind)
    corpus = experiment.collections[setup.collection].corpus
    flags = _expanded({"corpus": corpus, **_index_flags(experiment, setup, kind)}, locations)
    if flags.get("overwrite"):
        raise TourError(
            f"an experiment file may not give --overwrite: remove {folder} yourself, or give --indexes DIR."
        )
    if index.vectors:
        flags["vectors"] = str(locations.index_folder(experiment, setup, index.vectors))
    return PlannedIndex(folder, {**flags, "index": str(folder)})


def plan_search(
    experiment: Experiment,
    setup: Setup,
    condition: Condition,
    locations: Locations,
    *,
    output: Path,
    qrels: Path | None,
) -> PlannedSearch:
    """The search of a condition in a setup.

    Args:
        experiment: the experiment.
        setup: collection, encoder, index and re-ranker.
        condition: how to search.
        locations: where indexes and scores are.
        output: the run file.
        qrels: search only the topics judged in this file; None: all topics.
    """
    collection, index = experiment.collections[setup.collection], experiment.indexes[setup.index_kind]
    index_flags = _index_flags(experiment, setup, setup.index_kind)
    given: dict[str, Any] = {
        "topics": collection.topics,
        "corpus": collection.corpus,
        **collection.search_flags,
        **experiment.encoders[setup.encoder].search_flags,
        **experiment.rerankers[setup.reranker].flags,
        **condition.flags,
        "hits": experiment.hits,
    }
    flags = of_collection(given, setup.collection)
    paths: dict[str, Any] = {"index": _prebuilt(experiment, setup) or str(locations.index_folder(experiment, setup))}
    if index.vectors and not index_flags.get("phrases"):  # a phrase index has exact vectors of its own
        paths["vectors"] = str(locations.index_folder(experiment, setup, index.vectors))
    if qrels:
        paths["qrels"] = str(qrels)
    if locations.cache and "no-cache" not in flags:
        paths["cache"] = locations.cache
    for name in flags:
        if name.replace("-", "_") in _OUTPUTS:
            raise TourError(
                f"an experiment file may not give {flag_name(name)}: an experiment writes to its own folders only; "
                "leave it out, or use python -m tour_pyserini.search."
            )
    complete = _expanded(flags, locations)
    inputs = {"topics": Path(str(complete["topics"])), "corpus": Path(str(complete["corpus"]))}
    inputs |= {"qrels": qrels} if qrels else {}
    inputs = {role: path for role, path in inputs.items() if path.is_file()}
    models = {"index encoder": index_flags.get("encoder"), **{name: flags.get(name) for name in _MODELS}}
    inputs |= _model_files(models, locations)
    settings = shlex.join([*_index_settings(experiment, setup), *words(flags)])
    portable = {name: locations.portable(Path(str(path))) for name, path in paths.items() if name != "cache"}
    if qrels and not portable["qrels"].startswith("${"):
        portable["qrels"] = str(collection.qrels)
    portable["output"] = locations.portable(output)
    return PlannedSearch({**complete, **paths, "output": str(output)}, settings, inputs, {**flags, **portable})


def _index_flags(experiment: Experiment, setup: Setup, kind: str) -> dict[str, Any]:
    """The flags that make an index: those of its encoder and of its kind."""
    return {**experiment.encoders[setup.encoder].index_flags, **experiment.indexes[kind].flags}


def _prebuilt(experiment: Experiment, setup: Setup) -> str | None:
    """The name of the setup's prebuilt index; None if it is built here."""
    name = experiment.indexes[setup.index_kind].prebuilt
    return name and name.replace(COLLECTION, setup.collection)


def _index_settings(experiment: Experiment, setup: Setup) -> list[str]:
    """How the setup's index is made, or its name if it is prebuilt, as words of a command line."""
    index = experiment.indexes[setup.index_kind]
    if prebuilt := _prebuilt(experiment, setup):
        return ["--index", prebuilt]
    vectors = {"vectors": index.vectors} if index.vectors else {}
    return words({**_index_flags(experiment, setup, setup.index_kind), **vectors})


def _quoted(word: str) -> str:
    """A word of a command line, quoted if a shell would change it other than by its ${VARIABLES}."""
    return f'"{word}"' if word.startswith("${") else shlex.quote(word)


def _command_line(command: str, flags: Flags) -> str:
    return shlex.join(["python", "-m", f"tour_pyserini.{command}", *words(flags)])


def _with_numbers(flags: Flags, request: type[Request]) -> dict[str, Any]:
    """The flags with text converted to numbers where the request has numbers: a file may have "-inf" or "${HITS}"."""
    kinds: dict[str, type[int] | type[float]] = {}
    for item in dataclasses.fields(request):
        if item.metadata.get("count"):
            kinds[item.name] = int
        elif item.type in (float, float | None):
            kinds[item.name] = float
    return {name: _number(value, kinds.get(name.replace("-", "_"))) for name, value in flags.items()}


def _number(value: Any, kind: type[int] | type[float] | None) -> Any:
    if kind is None or not isinstance(value, str):
        return value
    try:
        return kind(value)
    except ValueError:
        return value  # the request refuses it, with the name of its flag


def _model_files(models: Mapping[str, Any], locations: Locations) -> dict[str, Path]:
    """The files of models that are folders, by role and name, so that runs are made again after a new training."""
    folders = {role: Path(locations.expanded(str(name))) for role, name in models.items() if name is not None}
    return {
        f"{role} {file.name}": file
        for role, folder in folders.items()
        if folder.is_dir()
        for file in sorted(folder.iterdir())
        if file.suffix in _WEIGHTS and file.is_file()
    }


def _expanded(flags: Flags, locations: Locations) -> dict[str, Any]:
    """The flags with their ${VARIABLES} replaced."""

    def expanded(value: Any) -> Any:
        if isinstance(value, list):
            return [expanded(part) for part in value]
        return locations.expanded(value) if isinstance(value, str) else value

    return {name: expanded(value) for name, value in flags.items()}
