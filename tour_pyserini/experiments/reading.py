"""Reading experiments from YAML files."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.experiments.definition import (
    CLOSE,
    COLLECTION,
    FIGURE_KINDS,
    PARTS,
    Collection,
    Condition,
    Encoder,
    Experiment,
    FigureDefinition,
    Index,
    Reranker,
    Scores,
    Sweep,
    TableDefinition,
    of_collection,
)
from tour_pyserini.experiments.yaml_file import read_yaml
from tour_pyserini.experiments.yaml_sections import Section

FILES = Path(__file__).parent / "files"

_TOP_KEYS = ("title", "measures", "hits", "tolerance", *PARTS, "conditions", "tables", "figures", "paper", "expected")
_COLLECTION_KEYS = ("corpus", "topics", "qrels", "splits", "index", "limit", "search")


def packaged() -> list[str]:
    """The names of the experiments that come with the package."""
    return sorted(path.stem for path in FILES.glob("*.yaml"))


def find_experiment(name: str | os.PathLike[str]) -> Path:
    """The path of an experiment file, given its path or the name of an experiment of the package."""
    for path in (Path(name), FILES / f"{name}.yaml"):
        if path.is_file():
            return path
    raise TourError(f"the experiment {name} does not exist; give a YAML file, or one of {', '.join(packaged())}.")


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment file.

    Raises:
        TourError: if the file is not YAML, has a wrong value, or uses a name that it does not define.
    """
    path = Path(path)
    top = Section(str(path), read_yaml(path), allowed=_TOP_KEYS)
    experiment = _experiment(path.stem, top)
    _check_names(top, experiment)
    return experiment


def _experiment(name: str, top: Section) -> Experiment:
    conditions: dict[str, Condition] = {}
    sweeps: dict[str, Sweep] = {}
    for key, section in _sections(top, "conditions", ["name", "flags", "sweep", "only", "everywhere"]):
        sweep, new = _conditions(key, section)
        if repeated := conditions.keys() & new.keys():
            section.refuse(f"defines the condition {min(repeated)} a second time")
        conditions |= new
        sweeps |= {key: sweep} if sweep else {}
    return Experiment(
        name=name,
        title=top.text("title", name),
        measures=top.names("measures", ["nDCG@10", "R@100"]),
        hits=top.number("hits", 100) or 100,
        tolerance=top.share("tolerance", CLOSE),
        collections={
            key: _collection(key, section) for key, section in _sections(top, "collections", _COLLECTION_KEYS)
        },
        encoders={
            key: Encoder(section.text("name", key), section.flags("index"), section.flags("search"))
            for key, section in _sections(top, "encoders", ["name", "index", "search"])
        },
        indexes={
            key: Index(
                section.text("name", key),
                section.flags("flags"),
                section.optional_text("vectors"),
                section.optional_text("prebuilt"),
            )
            for key, section in _sections(top, "indexes", ["name", "flags", "vectors", "prebuilt"])
        },
        rerankers={
            key: Reranker(section.text("name", key), section.flags("flags"), section.names("collections"))
            for key, section in _sections(top, "rerankers", ["name", "flags", "collections"])
        },
        conditions=conditions,
        sweeps=sweeps,
        tables={
            key: TableDefinition(
                section.text("title", key),
                section.names("conditions"),
                section.names("baselines"),
                section.names("rerankers"),
            )
            for key, section in _sections(top, "tables", ["title", "conditions", "baselines", "rerankers"])
        },
        figures={
            key: FigureDefinition(
                section.text("kind"),
                section.text("title", key),
                section.text("measure", "nDCG@10"),
                section.names("curves"),
                section.names("lines"),
            )
            for key, section in _sections(top, "figures", ["kind", "title", "measure", "curves", "lines"])
        },
        expected=_scores(top, "expected"),
        paper=_scores(top, "paper"),
    )


def _collection(key: str, section: Section) -> Collection:
    qrels, splits = section.optional_text("qrels"), section.optional_text("splits")
    return Collection(
        corpus=section.text("corpus").replace(COLLECTION, key),
        topics=section.text("topics").replace(COLLECTION, key),
        qrels=qrels and qrels.replace(COLLECTION, key),
        splits=splits and splits.replace(COLLECTION, key),
        stem=_file_name(section, "index", key),
        limit=section.number("limit", None),
        search_flags=of_collection(section.flags("search"), key),
    )


def _conditions(key: str, section: Section) -> tuple[Sweep | None, dict[str, Condition]]:
    """A condition by its name, or a sweep with one condition for each value, such as `mix-30`.

    If a sweep is restricted to some setups by `only`, its values under `everywhere` are run in all setups.
    """
    title, flags = section.text("name", key), section.flags("flags")
    restricted = section.section("only", allowed=PARTS)
    only = {name: restricted.names(name) for name in restricted.values}
    if "sweep" not in section.values:
        return None, {key: Condition(title, flags, None, None, only)}
    swept = section.section("sweep").values
    if len(swept) != 1 or not isinstance(values := next(iter(swept.values())), list) or not values:
        section.refuse("must sweep one flag over a list of numbers")
    flag = next(iter(swept))
    for value in values:
        if not _is_number(value):
            section.refuse(f"sweeps --{flag} over {value!r:.100}, which is not a number")
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


def _is_number(value: Any) -> bool:
    """Whether a value is a number that float can hold."""
    return isinstance(value, int | float) and abs(value) < 1e300


def _file_name(section: Section, key: str, default: str) -> str:
    """A text that can be the first part of a file name; with a folder in it, a file would lie elsewhere."""
    text = section.text(key, default)
    if set(text) & set("/\\\0") or text.startswith("."):
        section.refuse(f"has {key}: {text!r:.100}, which cannot be part of a file name")
    return text


def _sections(top: Section, key: str, allowed: Sequence[str]) -> Iterator[tuple[str, Section]]:
    """The sections inside `key`, by name; names become parts of file names."""
    part = top.section(key)
    for name in part.values:
        if not name or set(name) & set("./\\ \t\n\0"):
            part.refuse(f"has the name {name!r:.100}, which cannot be part of a file name")
        yield name, part.section(name, allowed=allowed)


def _scores(top: Section, key: str) -> Scores:
    by_setup = top.section(key)
    return {setup: _condition_scores(by_setup.section(setup)) for setup in by_setup.values}


def _condition_scores(section: Section) -> Mapping[str, Mapping[str, float]]:
    return {condition: _numbers(section.section(condition)) for condition in section.values}


def _numbers(section: Section) -> Mapping[str, float]:
    for name, value in section.values.items():
        if not _is_number(value):
            section.refuse(f"gives {name} the value {value!r:.100}, which is not a number")
    return {name: float(value) for name, value in section.values.items()}


def _check_names(top: Section, experiment: Experiment) -> None:
    """Refuse a file that lacks a part, or that uses a name that it does not define."""
    for part in (*PARTS, "conditions"):
        if not getattr(experiment, part):
            top.refuse(f"needs at least one of {part}")
    for part, name in _used_names(experiment):
        if name not in getattr(experiment, part):
            top.refuse(f"uses {name!r}, which is not defined in its {part}")
    for figure in experiment.figures.values():
        if figure.kind not in FIGURE_KINDS:
            kinds = ", ".join(FIGURE_KINDS)
            top.refuse(f"has a figure of the unknown kind {figure.kind!r}; the kinds are {kinds}")


def _used_names(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Every name that refers to a part of the file, with the name of the part."""
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
