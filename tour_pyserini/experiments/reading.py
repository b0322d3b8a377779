"""Experiments from YAML files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.experiments.definition import (
    Collection,
    Condition,
    Encoder,
    Experiment,
    FigureOf,
    Index,
    Reranker,
    Scores,
    TableOf,
)
from tour_pyserini.experiments.figure_kinds import KINDS
from tour_pyserini.experiments.sections import Section

FILES = Path(__file__).parent / "files"

_TOP = [
    *("title", "measures", "hits", "only-order", "collections", "encoders", "indexes", "rerankers", "conditions"),
    *("tables", "figures", "paper", "expected"),
]
_ONLY = ["collections", "encoders", "indexes", "rerankers"]


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
    return _checked(top, _experiment(path.stem, top))


def _experiment(name: str, top: Section) -> Experiment:
    conditions: dict[str, Condition] = {}
    curves: dict[str, str] = {}
    for key, section in _each(top, "conditions", ["name", "flags", "sweep", "only"]):
        found = dict(_conditions(key, section))
        if twice := conditions.keys() & found.keys():
            section.refuse(f"defines the condition {min(twice)} a second time")
        conditions |= found
        if "sweep" in section.values:
            curves[key] = section.text("name", key)
    return Experiment(
        name=name,
        title=top.text("title", name),
        measures=top.names("measures", ["nDCG@10", "R@100"]),
        hits=top.number("hits", 100) or 100,
        only_order=bool(top.values.get("only-order", False)),
        collections={
            key: Collection(
                corpus=section.text("corpus"),
                topics=section.text("topics"),
                qrels=section.optional_text("qrels"),
                stem=section.text("index", key),
                limit=section.number("limit", None),
                search_flags=section.flags("search"),
            )
            for key, section in _each(top, "collections", ["corpus", "topics", "qrels", "index", "limit", "search"])
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
            key: Reranker(section.text("name", key), section.flags("flags"))
            for key, section in _each(top, "rerankers", ["name", "flags"])
        },
        conditions=conditions,
        curves=curves,
        tables={
            key: TableOf(section.text("title", key), section.names("conditions"), section.names("baselines"))
            for key, section in _each(top, "tables", ["title", "conditions", "baselines"])
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


def _conditions(key: str, section: Section) -> Iterator[tuple[str, Condition]]:
    """The condition itself, or one for each value of its sweep: `mix-30`."""
    title, flags = section.text("name", key), section.flags("flags")
    restricted = section.section("only", allowed=_ONLY)
    only = {name: restricted.names(name) for name in restricted.values}
    if "sweep" not in section.values:
        yield key, Condition(title, flags, None, None, only)
        return
    swept = section.section("sweep").values
    if len(swept) != 1 or not isinstance(values := next(iter(swept.values())), list) or not values:
        section.refuse("must sweep one flag over a list of values")
    flag = next(iter(swept))
    for value in values:
        if not isinstance(value, int | float):
            section.refuse(f"sweeps --{flag} over {value!r}, which is not a number")
        yield f"{key}-{value}", Condition(f"{title} {value}", {**flags, flag: value}, key, float(value), only)


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


def _checked(top: Section, experiment: Experiment) -> Experiment:
    """Every name that is mentioned is defined."""
    for key in ("collections", "encoders", "indexes", "rerankers", "conditions"):
        if not getattr(experiment, key):
            top.refuse(f"needs at least one of {key}")
    known: dict[str, Any] = {key: getattr(experiment, key) for key in [*_ONLY, "conditions", "curves"]}
    mentioned = [("indexes", index.vectors) for index in experiment.indexes.values() if index.vectors]
    for condition in experiment.conditions.values():
        mentioned += [(key, name) for key, names in condition.only.items() for name in names]
    for table in experiment.tables.values():
        mentioned += [("conditions", name) for name in (*table.conditions, *table.baselines)]
    for figure in experiment.figures.values():
        mentioned += [("curves", name) for name in figure.curves] + [("conditions", name) for name in figure.lines]
        if figure.kind not in KINDS:
            top.refuse(f"has a figure of the kind {figure.kind!r}, which is none of {', '.join(KINDS)}")
    for key, name in mentioned:
        if name not in known[key]:
            top.refuse(f"mentions {name!r}, which is not among its {key}")
    return experiment
