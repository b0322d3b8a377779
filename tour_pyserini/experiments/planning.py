"""The commands that make up an experiment."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import Cell, Condition, Experiment, expanded, words
from tour_pyserini.experiments.locations import Places


class Search(NamedTuple):
    """One search.

    Attributes:
        argv: the words of `python -m tour_pyserini.search`.
        settings: the same as the file has them: no place of this machine, ${VARIABLES} as written.
        inputs: files by role, as far as they are files.
    """

    argv: list[str]
    settings: str
    inputs: dict[str, Path]


def index_argv(experiment: Experiment, cell: Cell, places: Places, kind: str) -> list[str] | None:
    """The words of `python -m tour_pyserini.index` for a kind of index; None for a prebuilt one."""
    index = experiment.indexes[kind]
    if index.prebuilt:
        return None
    flags = words({**experiment.encoders[cell.encoder].index_flags, **index.flags})
    corpus = experiment.collections[cell.collection].corpus
    argv = [*_expanded(["--corpus", corpus, *flags], places)]
    if index.vectors:
        argv += ["--vectors", str(places.index_folder(experiment, cell, index.vectors))]
    return [*argv, "--index", str(places.index_folder(experiment, cell, kind))]


def plan_search(
    experiment: Experiment, cell: Cell, condition: Condition, places: Places, *, output: Path, qrels: Path | None
) -> Search:
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
    chosen = words(flags)
    where = ["--index", index.prebuilt or str(places.index_folder(experiment, cell))]
    made = {**experiment.encoders[cell.encoder].index_flags, **index.flags}
    if index.vectors and not made.get("phrases"):  # a phrase index has exact vectors of its own
        where += ["--vectors", str(places.index_folder(experiment, cell, index.vectors))]
    where += ["--qrels", str(qrels)] if qrels else []
    where += ["--cache", places.cache] if places.cache and "--no-cache" not in chosen else []
    settings = shlex.join([*index_settings(experiment, cell), *chosen])
    topics, corpus = _expanded([collection.topics, collection.corpus], places)
    inputs = {"topics": Path(topics), "corpus": Path(corpus)} | ({"qrels": qrels} if qrels else {})
    inputs = {role: path for role, path in inputs.items() if path.is_file()}
    inputs |= _weights({"index encoder": made.get("encoder"), **{name: flags.get(name) for name in _MODELS}}, places)
    return Search([*_expanded(chosen, places), *where, "--output", str(output)], settings, inputs)


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


def index_settings(experiment: Experiment, cell: Cell) -> list[str]:
    """How the cell's index is made, or its name."""
    index = experiment.indexes[cell.kind]
    if index.prebuilt:
        return ["--index", index.prebuilt]
    vectors = {"vectors": index.vectors} if index.vectors else {}
    return words({**experiment.encoders[cell.encoder].index_flags, **index.flags, **vectors})


def settings_of(search: Search, name: str) -> TourConfig:
    """What the search computes, read as the search command reads it.

    Raises:
        TourError: if the command has no such flag or setting.
    """
    from tour_pyserini.cli.flags import config_from
    from tour_pyserini.cli.search_flags import search_parser

    args, unknown = search_parser().parse_known_args(search.argv)
    if unknown:
        raise TourError(f"the condition {name} has {unknown[0]}, which the search command does not know.")
    try:
        return config_from(args)
    except TourError as error:
        raise TourError(f"the condition {name}: {error}") from error


def shown(module: str, argv: Iterable[str]) -> str:
    """A command as it is typed."""
    return shlex.join(["python", "-m", f"tour_pyserini.{module}", *argv])


def _expanded(argv: list[str], places: Places) -> list[str]:
    return [expanded(word, places.variables) for word in argv]
