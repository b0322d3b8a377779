"""Experiments from YAML files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.experiments.definition import (
    PARTS,
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
from tour_pyserini.experiments.yaml_sections import Section

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "labels": "quality against labels per query",
        "seconds": "quality against seconds per query",
        "sweep": "quality against what was swept: iterations, for one",
        "efficiency": "labels and seconds per query against what was swept, with and without labels used again",
    }
)


def check_names(top: Section, experiment: Experiment) -> None:
    """Refuse a file that lacks a part, or that mentions what it does not define."""
    for part in (*PARTS, "conditions"):
        if not getattr(experiment, part):
            top.refuse(f"needs at least one of {part}")
    for part, name in _mentioned(experiment):
        if name not in getattr(experiment, part):
            top.refuse(f"mentions {name!r}, which is not among its {part}")
    for figure in experiment.figures.values():
        if figure.kind not in KINDS:
            top.refuse(f"has a figure of the kind {figure.kind!r}, which is none of {', '.join(KINDS)}")


def _mentioned(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The part of the file, and a name from it."""
    for index in experiment.indexes.values():
        if index.vectors:
            yield "indexes", index.vectors
    for reranker in experiment.rerankers.values():
        yield from (("collections", name) for name in reranker.collections)
    for condition in experiment.conditions.values():
        yield from ((part, name) for part, names in condition.only.items() for name in names)
    for table in experiment.tables.values():
        yield from (("conditions", name) for name in (*table.conditions, *table.baselines))
        yield from (("rerankers", name) for name in table.rerankers)
    for figure in experiment.figures.values():
        yield from (("sweeps", name) for name in figure.curves)
        yield from (("conditions", name) for name in figure.lines)


def read_conditions(key: str, section: Section) -> tuple[Sweep | None, dict[str, Condition]]:
    """The condition by its name, or a sweep with one for each of its values: `mix-30`.

    Where a sweep is restricted to some cells, its values that are named under `everywhere` are not.
    """
    title, flags = section.text("name", key), section.flags("flags")
    restricted = section.section("only", allowed=PARTS)
    only = {name: restricted.names(name) for name in restricted.values}
    if "sweep" not in section.values:
        return None, {key: Condition(title, flags, None, None, only)}
    swept = section.section("sweep").values
    if len(swept) != 1 or not isinstance(values := next(iter(swept.values())), list) or not values:
        section.refuse("must sweep one flag over a list of values")
    flag = next(iter(swept))
    for value in values:
        if not isinstance(value, int | float):
            section.refuse(f"sweeps --{flag} over {value!r}, which is not a number")
    everywhere = section.values.get("everywhere") or []
    if not isinstance(everywhere, list) or not all(value in values for value in everywhere):
        section.refuse(f"has everywhere: {everywhere!r}, which is not a list of values of its sweep")
    return Sweep(title, flag), {
        f"{key}-{value}": Condition(
            title=f"{title}, {flag} {value}",
            flags={**flags, flag: value},
            sweep=key,
            value=float(value),
            only={} if value in everywhere else only,
        )
        for value in values
    }


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
