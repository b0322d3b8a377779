"""The searches and indexes of an experiment as requests, and the paths of what it reads and writes."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeVar

from tour_pyserini.data.demo_collection import CORPUS
from tour_pyserini.data.input_files import IRDS
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import COLLECTION, Condition, Experiment, Flags, Setup
from tour_pyserini.flags import Request, flag_name, words
from tour_pyserini.index import IndexRequest
from tour_pyserini.search_request import SearchRequest

AnyRequest = TypeVar("AnyRequest", bound=Request)

_MODELS = ("encoder", "reranker")
# Flags of the search command that name files it writes.
_OUTPUTS = ("output", "trace", "predictions", "output_queries", "cache")
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".json")


class Locations(NamedTuple):
    """Folders and variables.

    Attributes:
        runs: the folder of this experiment's runs.
        indexes: the folder of indexes, which experiments share.
        cache: the score cache; None for the one in the cache folder.
        data: the value of ${DATA} in paths. ${DEMO} is the folder of the embedded collection; other variables are
            those of the environment.
    """

    runs: Path
    indexes: Path
    cache: str | None = None
    data: str | None = None

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

    def expanded(self, text: str) -> str:
        """The text with its ${VARIABLES} replaced.

        Raises:
            TourError: if a variable has no value.
        """
        variables = {**os.environ, "DEMO": str(CORPUS.parent), **({"DATA": self.data} if self.data else {})}
        try:
            return Template(text).substitute(variables)
        except KeyError as missing:
            name = str(missing).strip("'")
            hint = "give --data DIR" if name == "DATA" else f"set it in the environment: {name}=..."
            raise TourError(f"{text!r} needs the variable {name}; {hint}.") from None
        except ValueError:
            raise TourError(f"{text!r} has a $ without a {{VARIABLE}} after it; write $$ for a dollar sign.") from None

    def is_file(self, text: str) -> bool:
        """Whether a path of the experiment file, with its ${VARIABLES} replaced, is a file here or a data set."""
        try:
            return text.startswith(IRDS) or Path(self.expanded(text)).is_file()
        except TourError:
            return False


class PlannedSearch(NamedTuple):
    """One search.

    Attributes:
        flags: values of the flags of `python -m tour_pyserini.search`.
        settings: the flags as the experiment file has them: ${VARIABLES} are not replaced, and paths of this machine
            are left out.
        inputs: those inputs that are files, by role.
        plugins: files that the command loads.
    """

    flags: Flags
    settings: str
    inputs: dict[str, Path]
    plugins: tuple[str, ...] = ()

    def request(self, condition: str) -> SearchRequest:
        """The search as a request; a TourError about a wrong flag or setting names the condition."""
        return _request(SearchRequest, self.flags, f"the condition {condition}")

    def command(self) -> str:
        """The equivalent command line, to show to users."""
        return _command_line("search", self.flags, self.plugins)


class PlannedIndex(NamedTuple):
    """One index: its folder, and values of the flags of `python -m tour_pyserini.index`."""

    folder: Path
    flags: Flags

    def request(self) -> IndexRequest:
        """The index as a request; a TourError about a wrong flag names the folder."""
        return _request(IndexRequest, self.flags, f"the index {self.folder.name}")

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
    flags = {
        name: value.replace(COLLECTION, setup.collection) if isinstance(value, str) else value
        for name, value in given.items()
    }
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
    files = {"topics": Path(str(complete["topics"])), "corpus": Path(str(complete["corpus"])), "qrels": qrels}
    inputs = {role: path for role, path in files.items() if path and path.is_file()}
    inputs |= _model_files(
        {"index encoder": index_flags.get("encoder"), **{m: flags.get(m) for m in _MODELS}}, locations
    )
    settings = shlex.join([*_index_settings(experiment, setup), *words(flags)])
    return PlannedSearch({**complete, **paths, "output": str(output)}, settings, inputs, experiment.plugins)


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


def _command_line(command: str, flags: Flags, plugins: Sequence[str] = ()) -> str:
    loaded = [word for plugin in plugins for word in ("--plugin", plugin)]
    return shlex.join(["python", "-m", f"tour_pyserini.{command}", *loaded, *words(flags)])


def _request(kind: type[AnyRequest], flags: Flags, what: str) -> AnyRequest:
    try:
        return kind.from_flags(dict(flags))
    except TourError as error:
        raise TourError(f"{what}: {error}") from error


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
    return {name: locations.expanded(value) if isinstance(value, str) else value for name, value in flags.items()}
