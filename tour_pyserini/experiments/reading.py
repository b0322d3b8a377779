"""Experiments from YAML files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.experiments.conditions import read_conditions
from tour_pyserini.experiments.definition import (
    Collection,
    Condition,
    Encoder,
    Experiment,
    FigureOf,
    Index,
    Reranker,
    Scores,
    Sweep,
    TableOf,
)
from tour_pyserini.experiments.names import check_names
from tour_pyserini.experiments.sections import Section

FILES = Path(__file__).parent / "files"

_TOP = [
    *("title", "measures", "hits", "collections", "encoders", "indexes", "rerankers", "conditions"),
    *("tables", "figures", "paper", "expected"),
]

_COLLECTION = ["corpus", "topics", "qrels", "splits", "index", "limit", "search"]


def packaged() -> list[str]:
    """The names of the experiments that come with the package."""
    return sorted(path.stem for path in FILES.glob("*.yaml"))


def find_experiment(name: str | os.PathLike[str]) -> Path:
    """The file of that path, or the one of that name that comes with the package."""
    for path in (Path(name), FILES / f"{name}.yaml"):
        if path.is_file():
            return path
    raise TourError(f"there is no experiment {name}; give a YAML file, or one of {', '.join(packaged())}.")


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read a file; every name it mentions must be defined in it.

    Raises:
        TourError: if something in it cannot be used, with the place.
    """
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TourError(f"cannot read the experiment {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise TourError(f"{path}{place} is not YAML: {getattr(error, 'problem', first_line(error))}.") from error
    top = Section(str(path), values, allowed=_TOP)
    experiment = _experiment(path.stem, top)
    check_names(top, experiment)
    return experiment


def _experiment(name: str, top: Section) -> Experiment:
    conditions: dict[str, Condition] = {}
    sweeps: dict[str, Sweep] = {}
    for key, section in _each(top, "conditions", ["name", "flags", "sweep", "only", "everywhere"]):
        sweep, found = read_conditions(key, section)
        if twice := conditions.keys() & found.keys():
            section.refuse(f"defines the condition {min(twice)} a second time")
        conditions |= found
        sweeps |= {key: sweep} if sweep else {}
    return Experiment(
        name=name,
        title=top.text("title", name),
        measures=top.names("measures", ["nDCG@10", "R@100"]),
        hits=top.number("hits", 100) or 100,
        collections={
            key: Collection(
                corpus=section.text("corpus"),
                topics=section.text("topics"),
                qrels=section.optional_text("qrels"),
                splits=section.optional_text("splits"),
                stem=section.text("index", key),
                limit=section.number("limit", None),
                search_flags=section.flags("search"),
            )
            for key, section in _each(top, "collections", _COLLECTION)
        },
        encoders={
            key: Encoder(section.text("name", key), section.flags("index"), section.flags("search"))
            for key, section in _each(top, "encoders", ["name", "index", "search"])
        },
        indexes={
            key: Index(
                section.text("name", key),
                section.flags("flags"),
                section.optional_text("vectors"),
                section.optional_text("prebuilt"),
            )
            for key, section in _each(top, "indexes", ["name", "flags", "vectors", "prebuilt"])
        },
        rerankers={
            key: Reranker(section.text("name", key), section.flags("flags"), section.names("collections"))
            for key, section in _each(top, "rerankers", ["name", "flags", "collections"])
        },
        conditions=conditions,
        sweeps=sweeps,
        tables={
            key: TableOf(
                section.text("title", key),
                section.names("conditions"),
                section.names("baselines"),
                section.names("rerankers"),
            )
            for key, section in _each(top, "tables", ["title", "conditions", "baselines", "rerankers"])
        },
        figures={
            key: FigureOf(
                section.text("kind"),
                section.text("title", key),
                section.text("measure", "nDCG@10"),
                section.names("curves"),
                section.names("lines"),
            )
            for key, section in _each(top, "figures", ["kind", "title", "measure", "curves", "lines"])
        },
        expected=_scores(top, "expected"),
        paper=_scores(top, "paper"),
    )


def _each(top: Section, key: str, allowed: list[str]) -> Iterator[tuple[str, Section]]:
    inside = top.section(key)
    for name in inside.values:
        if not name or set(name) & set("./\\ \t\n"):
            inside.refuse(f"has the name {name!r}, which cannot be part of a file's name")
        yield name, inside.section(name, allowed=allowed)


def _scores(top: Section, key: str) -> Scores:
    cells = top.section(key)
    return {cell: {name: _numbers(scores) for name, scores in _inside(cells.section(cell))} for cell in cells.values}


def _inside(section: Section) -> Iterator[tuple[str, Section]]:
    return ((name, section.section(name)) for name in section.values)


def _numbers(section: Section) -> Mapping[str, float]:
    for name, value in section.values.items():
        if not isinstance(value, int | float):
            section.refuse(f"gives {name} the value {value!r}, which is not a number")
    return {name: float(value) for name, value in section.values.items()}
