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
from tour_pyserini.experiments.definition import COLLECTION, Experiment, Flags, Setup
from tour_pyserini.flags import Request, flag_name, words
from tour_pyserini.index import IndexRequest
from tour_pyserini.search_request import SearchRequest

AnyRequest = TypeVar("AnyRequest", bound=Request)

_MODELS = ("encoder", "reranker")
# Flags that name files that are written; an experiment writes to its own folders only.
_OUTPUTS = ("output", "trace", "predictions", "output-queries", "cache", "overwrite")
_WEIGHTS = (".safetensors", ".bin", ".onnx", ".json")


class Workspace(NamedTuple):
    """An experiment on this machine: its file, and the folders that it reads and writes.

    Attributes:
        experiment: the content of its file.
        runs: the folder of its runs.
        indexes: the folder of indexes, which experiments share.
        cache: the score cache; None for the one in the cache folder.
        data: the value of ${DATA} in paths. ${DEMO} is the folder of the embedded collection; other variables are
            those of the environment.
    """

    experiment: Experiment
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

    def index_folder(self, setup: Setup, kind: str) -> Path:
        """The folder of an index of this kind, of the setup's collection and encoder."""
        stem = self.experiment.collections[setup.collection].stem
        return self.indexes / f"{stem}.{setup.encoder}.{kind}"

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


def plan_index(at: Workspace, setup: Setup, kind: str) -> PlannedIndex | None:
    """An index of the setup's collection and encoder; None for a prebuilt one."""
    index, folder = at.experiment.indexes[kind], at.index_folder(setup, kind)
    if index.prebuilt:
        return None
    given = {"corpus": at.experiment.collections[setup.collection].corpus, **_index_flags(at, setup, kind)}
    paths = {"vectors": str(at.index_folder(setup, index.vectors))} if index.vectors else {}
    return PlannedIndex(folder, {**_expanded(at, given), **paths, "index": str(folder)})


class PlannedSearch(NamedTuple):
    """One run to make.

    Attributes:
        setup: what is searched.
        condition: the name of how.
        flags: values of the flags of `python -m tour_pyserini.search`.
        settings: the flags as the experiment file has them: ${VARIABLES} are not replaced, and paths of this machine
            are left out.
        inputs: those inputs that are files, by role.
        plugins: files that the command loads.
        output: the compressed run, which is made of the one that the search writes.
    """

    setup: Setup
    condition: str
    flags: Flags
    settings: str
    inputs: Mapping[str, Path]
    plugins: Sequence[str]
    output: Path

    def request(self) -> SearchRequest:
        """The search as a request; a TourError about a wrong flag or setting names the condition."""
        return _request(SearchRequest, self.flags, f"the condition {self.condition}")

    def command(self) -> str:
        """The equivalent command line, to show to users."""
        return _command_line("search", self.flags, self.plugins)


def plan_search(at: Workspace, setup: Setup, name: str, *, qrels: Path | None = None) -> PlannedSearch:
    """The search of a condition, by its name, in a setup: of the topics judged in `qrels`; None: of all topics."""
    own = at.experiment
    collection, index = own.collections[setup.collection], own.indexes[setup.index_kind]
    given: dict[str, Any] = {
        "topics": collection.topics,
        "corpus": collection.corpus,
        **collection.search_flags,
        **own.encoders[setup.encoder].search_flags,
        **own.rerankers[setup.reranker].flags,
        **own.conditions[name].flags,
        "hits": own.hits,
    }
    flags = {
        flag: value.replace(COLLECTION, setup.collection) if isinstance(value, str) else value
        for flag, value in given.items()
    }
    index_flags = _index_flags(at, setup, setup.index_kind)
    prebuilt = index.prebuilt and index.prebuilt.replace(COLLECTION, setup.collection)
    made = {"index": prebuilt} if prebuilt else index_flags | ({"vectors": index.vectors} if index.vectors else {})
    output = at.run(setup, name)
    paths = {"index": prebuilt or str(at.index_folder(setup, setup.index_kind))}
    if index.vectors and not index_flags.get("phrases"):  # a phrase index has exact vectors of its own
        paths["vectors"] = str(at.index_folder(setup, index.vectors))
    if qrels:
        paths["qrels"] = str(qrels)
    if at.cache and "no-cache" not in flags:
        paths["cache"] = at.cache
    paths["output"] = str(output.with_suffix(""))
    complete = _expanded(at, flags)
    files = {"topics": Path(complete["topics"]), "corpus": Path(complete["corpus"]), "qrels": qrels}
    inputs = {role: path for role, path in files.items() if path and path.is_file()}
    models = {"index encoder": index_flags.get("encoder"), **{role: flags.get(role) for role in _MODELS}}
    for role, model in models.items():
        inputs |= _model_files(role, Path(at.expanded(str(model)))) if model else {}
    settings = shlex.join([*words(made), *words(flags)])
    return PlannedSearch(setup, name, complete | paths, settings, inputs, own.plugins, output)


def _index_flags(at: Workspace, setup: Setup, kind: str) -> dict[str, Any]:
    """The flags that make an index: those of its encoder and of its kind."""
    return {**at.experiment.encoders[setup.encoder].index_flags, **at.experiment.indexes[kind].flags}


def _expanded(at: Workspace, flags: Flags) -> dict[str, Any]:
    """The flags with their ${VARIABLES} replaced; one that names an output is refused."""
    for name in flags:
        if name.replace("_", "-") in _OUTPUTS:
            raise TourError(
                f"an experiment file may not give {flag_name(name)}: an experiment writes to its own folders only."
            )
    return {name: at.expanded(value) if isinstance(value, str) else value for name, value in flags.items()}


def _model_files(role: str, folder: Path) -> dict[str, Path]:
    """The files of a model that is a folder, by role and name, so that runs are made again after a new training."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return {f"{role} {file.name}": file for file in files if file.suffix in _WEIGHTS and file.is_file()}


def _command_line(command: str, flags: Flags, plugins: Sequence[str] = ()) -> str:
    loaded = [word for plugin in plugins for word in ("--plugin", plugin)]
    return shlex.join(["python", "-m", f"tour_pyserini.{command}", *loaded, *words(flags)])


def _request(kind: type[AnyRequest], flags: Flags, what: str) -> AnyRequest:
    try:
        return kind.from_flags(dict(flags))
    except TourError as error:
        raise TourError(f"{what}: {error}") from error
