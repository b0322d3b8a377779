"""An experiment: the YAML file as values, and the setups and conditions that it defines."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from tour_pyserini.errors import TourError

FILES = Path(__file__).parent / "files"
"""The experiments that come with the package."""

COLLECTION = "${COLLECTION}"
"""Stands for the name of a collection, in its own texts, in the name of a prebuilt index and in flags."""

Part = Literal["collections", "encoders", "indexes", "rerankers"]
PARTS: tuple[Part, ...] = get_args(Part)
"""A setup has one of each."""

# What a section is called like if it does not say: the field of each part.
_NAMED_BY_KEY = {"collections": "index", "tables": "title", "figures": "title"} | dict.fromkeys(
    ("encoders", "indexes", "rerankers", "conditions"), "name"
)

Value = str | int | float | bool
Flags = Mapping[str, Value]
Text = Annotated[str, StringConstraints(min_length=1)]
# Names become parts of file names, joined by dots; with a folder in it, a file would lie elsewhere.
Name = Annotated[str, StringConstraints(pattern=r"^[^./\\\s\x00]+$")]
Stem = Annotated[str, StringConstraints(pattern=r"^[^./\\\x00][^/\\\x00]*$")]


class _Section(BaseModel):
    """A mapping in the file; a key that is not a field of it is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Collection(_Section):
    """Passages, topics and judgements; paths may contain ${VARIABLES}.

    Attributes:
        qrels: the judgements; None if passages are judged by the answers they contain.
        splits: a file that puts the topics into splits; None if there is none.
        stem: the first part of the names of its indexes; collections with the same corpus share it.
        limit: search this many of the judged topics, evenly spaced; None for all.
        search_flags: further flags of the search command.
    """

    corpus: Text
    topics: Text
    qrels: Text | None = None
    splits: Text | None = None
    stem: Stem = Field(alias="index")
    limit: int | None = Field(None, ge=1)
    search_flags: Flags = Field({}, alias="search")


class _Encoder(_Section):
    """An encoder: the flags of the index command and of the search command that choose it, and its collections.

    Without collections it has all of them.
    """

    title: Text = Field(alias="name")
    index_flags: Flags = Field({}, alias="index")
    search_flags: Flags = Field({}, alias="search")
    collections: tuple[str, ...] = ()


class _Index(_Section):
    """A kind of index.

    Attributes:
        flags: flags of the index command.
        vectors: the kind of index, of the same encoder, that exact vectors are read from.
        prebuilt: the name of an index that Pyserini downloads, where ${COLLECTION} stands for the collection; None if
            it is built here.
    """

    title: Text = Field(alias="name")
    flags: Flags = {}
    vectors: Text | None = None
    prebuilt: Text | None = None


class _Reranker(_Section):
    """A re-ranker: the flags of the search command that choose it, and its collections (all, if none is named)."""

    title: Text = Field(alias="name")
    flags: Flags = {}
    collections: tuple[str, ...] = ()


class _Condition(NamedTuple):
    """One way to search.

    Attributes:
        flags: flags of the search command.
        sweep: the name of its sweep; None if it is not part of one.
        value: the value of the swept flag.
        only: the names that it is restricted to, by `collections`, `encoders`, `indexes` or `rerankers`.
    """

    title: str
    flags: Flags
    sweep: str | None
    value: float | None
    only: Mapping[Part, Sequence[str]]


class _ConditionEntry(_Section):
    """One way to search, or several that differ in the value of one flag: a sweep.

    Attributes:
        flags: flags of the search command.
        sweep: one flag and its values; a condition such as `mix-30` is made for each of them.
        only: the names that it is restricted to, by `collections`, `encoders`, `indexes` or `rerankers`.
        everywhere: values of the sweep that are run in all setups nevertheless.
    """

    title: Text = Field(alias="name")
    flags: Flags = {}
    sweep: dict[str, Annotated[list[int | float], Field(min_length=1)]] = Field({}, max_length=1)
    only: Mapping[Part, tuple[str, ...]] = {}
    everywhere: tuple[int | float, ...] = ()

    @property
    def flag(self) -> str:
        """The flag that is swept."""
        return next(iter(self.sweep))

    def conditions(self, key: str) -> Iterator[tuple[str, _Condition]]:
        """The condition of an entry that is called `key`, or those of its sweep, with their names."""
        if not self.sweep:
            yield key, _Condition(self.title, self.flags, None, None, self.only)
        for flag, values in self.sweep.items():
            for value in values:
                title, only = f"{self.title}, {flag} {value}", {} if value in self.everywhere else self.only
                yield f"{key}-{value}", _Condition(title, {**self.flags, flag: value}, key, float(value), only)

    @model_validator(mode="after")
    def _check_everywhere(self) -> Self:
        values = next(iter(self.sweep.values()), [])
        if other := [value for value in self.everywhere if value not in values]:
            raise ValueError(f"everywhere has {other[0]!r}, which is not a value of the sweep")
        return self


class TableDefinition(_Section):
    """A table of conditions, and the baselines that the others are tested against.

    Attributes:
        rerankers: if given, there is one table for each condition, with one line for each of these re-rankers; the
            first re-ranker is the baseline.
    """

    title: Text
    conditions: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    rerankers: tuple[str, ...] = ()


class FigureDefinition(_Section):
    """A figure of several curves.

    Attributes:
        kind: what quality is drawn against: labels per query, or the swept flag (`sweep`).
        curves: names of sweeps.
        lines: names of conditions that are drawn as one point or one horizontal line.
    """

    kind: Literal["labels", "sweep"]
    title: Text
    measure: Text = "nDCG@10"
    curves: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


class Setup(NamedTuple):
    """One collection, encoder, index and re-ranker, by their names.

    Attributes:
        name: the name in file names and in expected scores; it has the re-ranker only if there are several.
    """

    collection: str
    encoder: str
    index_kind: str
    reranker: str
    name: str


class Experiment(_Section):
    """The content of an experiment file; the first four parts, and the conditions, by their names.

    Attributes:
        name: the name of the file.
        plugins: Python files that register methods, relative to the experiment file or to the current folder.
        measures: names of ir-measures, and EM@k or F1@k.
        hits: hits per topic of each run.
        tolerance: a score that differs from the expected one by at most this is close enough.
        expected: the scores that this code gave, by setup, condition and measure; with them `method` and its `version`
            that gave them.
        paper: published scores, by setup, condition and measure.
    """

    name: str
    title: Text
    plugins: tuple[Text, ...] = ()
    measures: tuple[Text, ...] = ("nDCG@10", "R@100")
    hits: int = Field(100, ge=1)
    tolerance: float = Field(0.0005, ge=0, le=1)
    collections: dict[Name, _Collection] = Field(min_length=1)
    encoders: dict[Name, _Encoder] = Field(min_length=1)
    indexes: dict[Name, _Index] = Field(min_length=1)
    rerankers: dict[Name, _Reranker] = Field(min_length=1)
    entries: dict[Name, _ConditionEntry] = Field(min_length=1, alias="conditions")
    tables: dict[str, TableDefinition] = {}
    figures: dict[Name, FigureDefinition] = {}
    expected: dict[str, dict[str, dict[str, Any]]] = {}
    paper: dict[str, dict[str, dict[str, float]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Sections without a name or title are called like their keys, which also replace ${COLLECTION}."""
        for part, field in _NAMED_BY_KEY.items():
            entries: Any = values.get(part)
            for key, entry in entries.items() if isinstance(entries, dict) else ():
                if not isinstance(entry, dict | None):
                    continue
                entry = {field: key, **(entry or {})}  # several keys may share one entry, by an alias of YAML
                if part == "collections":
                    texts = {name: text for name, text in entry.items() if isinstance(text, str)}
                    entry |= {name: text.replace(COLLECTION, str(key)) for name, text in texts.items()}
                entries[key] = entry
        return values

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Refuse a name that the file does not define, and a condition that it defines twice."""
        names = [name for key, entry in self.entries.items() for name, _ in entry.conditions(key)]
        if len(names) > len(self.conditions):
            raise ValueError(f"defines the condition {max(names, key=names.count)} a second time")
        for part, name in self._used_names():
            if name not in getattr(self, part):
                raise ValueError(f"uses {name!r}, which is not defined in its {part}")
        return self

    def _used_names(self) -> Iterator[tuple[str, str]]:
        """Every name that refers to a part of the file, with the name of the part."""
        used: list[tuple[str, Sequence[str]]] = []
        used += [("indexes", [index.vectors]) for index in self.indexes.values() if index.vectors]
        used += [("collections", encoder.collections) for encoder in self.encoders.values()]
        used += [("collections", reranker.collections) for reranker in self.rerankers.values()]
        used += [(part, names) for entry in self.entries.values() for part, names in entry.only.items()]
        for table in self.tables.values():
            used += [("conditions", (*table.conditions, *table.baselines)), ("rerankers", table.rerankers)]
        for figure in self.figures.values():
            used += [("sweeps", figure.curves), ("conditions", figure.lines)]
        return ((part, name) for part, names in used for name in names)

    @cached_property
    def conditions(self) -> Mapping[str, _Condition]:
        """The conditions by name, with one for each value of a sweep."""
        return dict(named for key, entry in self.entries.items() for named in entry.conditions(key))

    @cached_property
    def sweeps(self) -> Mapping[str, _ConditionEntry]:
        """The conditions that differ in the value of one flag."""
        return {key: entry for key, entry in self.entries.items() if entry.sweep}

    def setups(self, chosen: Mapping[str, Sequence[str]] | None = None) -> list[Setup]:
        """The setups in the order of the file.

        Args:
            chosen: names by `collections`, `encoders`, `indexes` or `rerankers`; without names, all of that part.
        """
        chosen = chosen or {}
        several = len(self.rerankers) > 1
        kept = {part: _chosen(list(getattr(self, part)), chosen.get(part) or (), part) for part in PARTS}
        return [
            Setup(collection, encoder, index, reranker, ".".join([collection, encoder, index, *[reranker] * several]))
            for collection, encoder, index, reranker in itertools.product(*kept.values())
            if all(
                collection in (restricted or kept["collections"])
                for restricted in (self.encoders[encoder].collections, self.rerankers[reranker].collections)
            )
        ]

    def conditions_of(self, setup: Setup, chosen: Sequence[str] = ()) -> dict[str, _Condition]:
        """The conditions of a setup by name; only the chosen ones, which are named by condition or by sweep."""
        _chosen([*self.conditions, *self.sweeps], chosen, "conditions")
        own = dict(zip(PARTS, setup[:4], strict=True))
        return {
            name: condition
            for name, condition in self.conditions.items()
            if all(own[part] in names for part, names in condition.only.items())
            and (not chosen or name in chosen or condition.sweep in chosen)
        }


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
        TourError: if the file is not YAML, has a wrong value, or uses a name that it does not define; the message names
            the section and the key.
    """
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_bytes())
        if not isinstance(values, dict):
            raise TourError(f"{path} is not an experiment: it must be a mapping of names to values.")
        return Experiment.model_validate({"title": path.stem, **values, "name": path.stem})
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise TourError(f"{path}{line} is not YAML: {getattr(error, 'problem', None) or error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ", ".join([str(path), *map(str, first["loc"])])
        what = first["msg"].removeprefix("Value error, ")
        given = "" if first["type"] == "missing" else f" ({first['input']!r:.100} is given)"
        raise TourError(f"{where}: {what}{given}." if first["loc"] else f"{where} {what}.") from None


def _chosen(names: list[str], chosen: Sequence[str], part: str) -> list[str]:
    for name in chosen:
        if name not in names:
            raise TourError(f"{name!r} is not one of the {part}; choose from {', '.join(names)}.")
    return [name for name in names if name in chosen] if chosen else names
