"""Filters: which documents may be found, by their docids or by the fields that a corpus gives beside title and text.

    {"year": {"gte": 2020}, "lang": "en", "tag": {"in": ["a", "b"]}}

All conditions must hold; `{"or": [FILTER, ...]}` holds where one does, `{"and": [...]}` where all do. A field that is a
list passes where one of its values does; a field that is not there never passes. Numbers are compared with numbers and
strings with strings.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.errors import RequestError

_COMPARED = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_QDRANT = {"must", "must_not", "should"}
_DEEPEST = 20  # filters within filters
_FORM = 'write {"year": {"gte": 2020}, "lang": "en"} with eq, in, gt, gte, lt, lte, and lists of filters under and, or'


class _Test(NamedTuple):
    """One condition: the field has one of some values, or one that compares to the only one."""

    field: str
    operator: str
    values: tuple[Any, ...]


class _Group(NamedTuple):
    """All of some conditions (`and`), or one of them (`or`)."""

    operator: str
    parts: "tuple[_Test | _Group, ...]"


@dataclass(frozen=True)
class Filter:
    """What a document must be to be found; all that is given must hold.

    Attributes:
        docids: the only ones that pass.
        conditions: what its fields must be.
        expressions: conditions in the language of a vector database.
    """

    docids: frozenset[str] | None = None
    conditions: tuple[_Group, ...] = ()
    expressions: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """What equal filters share, and others do not: 1, 1.0 and true are equal, and this is not."""
        return repr(self)

    @classmethod
    def parse(cls, given: Any) -> "Filter":
        """A filter from a condition, from docids, or from text: JSON of one of these, or an expression of a database.

        Raises:
            RequestError: if it is none of them.
        """
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return cls(expressions=(given,))
        if isinstance(given, Filter):
            return given
        if isinstance(given, Mapping):
            is_qdrants = given and given.keys() <= _QDRANT and all(isinstance(part, list) for part in given.values())
            return cls(expressions=(json.dumps(given),)) if is_qdrants else cls(conditions=(_parsed(given),))
        if not isinstance(given, list | tuple | set | frozenset) or not all(isinstance(one, str) for one in given):
            raise RequestError(f"a filter is a condition or a list of docids, not {given!r:.100}; {_FORM}.")
        return cls(docids=frozenset(given))

    def __and__(self, other: "Filter") -> "Filter":
        """What passes both."""
        docids = [one for one in (self.docids, other.docids) if one is not None]
        return Filter(
            frozenset.intersection(*docids) if docids else None,
            self.conditions + other.conditions,
            self.expressions + other.expressions,
        )

    def milvus(self) -> str:
        """The same as an expression of Milvus.

        Raises:
            RequestError: if an expression would have to be joined with another filter: its brackets could end theirs.
        """
        parts = [*self.expressions, *map(_milvus, self.conditions)]
        if self.docids is not None:
            parts.append(f"docid in {_text(sorted(self.docids))}")
        if self.expressions and len(parts) > 1:
            raise RequestError(f"{self.expressions[0]!r:.100} cannot be joined with another filter; {_FORM}.")
        return " and ".join(f"({part})" for part in parts)

    def qdrant(self, models: Any) -> Any:
        """The same as Qdrant's `Filter`; an expression is the JSON of one.

        Raises:
            RequestError: if Qdrant has no such condition.
        """
        parts = [_qdrant(condition, models) for condition in self.conditions]
        if self.docids is not None:
            parts.append(models.FieldCondition(key="docid", match=models.MatchAny(any=sorted(self.docids))))
        for expression in self.expressions:
            try:
                parts.append(models.Filter.model_validate_json(expression))
            except ValueError:
                raise RequestError(f"{expression!r:.100} is neither a condition nor Qdrant's Filter as JSON.") from None
        return models.Filter(must=parts)

    def sql(self) -> tuple[str, list[Any]]:
        """The same as a condition of PostgreSQL on the columns `docid` and `fields`, and the values of its parameters.

        Conditions and expressions are JSON path predicates.
        """
        docids = [] if self.docids is None else [sorted(self.docids)]
        paths = [*self.expressions, *map(_json_path, self.conditions)]
        parts = ["docid = ANY(%s)"] * len(docids) + ["fields @@ %s::jsonpath"] * len(paths)
        return " AND ".join(parts) or "true", [*docids, *paths]


def _parsed(given: Any, depth: int = 1) -> _Group:
    if not isinstance(given, Mapping) or depth > _DEEPEST:
        raise RequestError(f"{given!r:.100} is no condition; {_FORM}.")
    parts: list[_Test | _Group] = []
    for field, wanted in given.items():
        if field in ("and", "or") and isinstance(wanted, list | tuple):
            parts.append(_Group(field, tuple(_parsed(one, depth + 1) for one in wanted)))
            continue
        if wanted == {}:
            raise RequestError(f"the filter says nothing of {field!r}; {_FORM}.")
        for name, value in (wanted if isinstance(wanted, Mapping) else {"eq": wanted}).items():
            values = tuple(value) if name == "in" and isinstance(value, list | tuple | set) else (value,)
            kinds = (str, int, float) if name in ("eq", "in", *_COMPARED) else ()
            wrong = [one for one in values if not isinstance(one, kinds) or one in (math.inf, -math.inf) or one != one]
            if not isinstance(field, str) or wrong or (name in _COMPARED and isinstance(value, bool)):
                raise RequestError(f"the filter cannot compare {field!r} as {name} with {value!r:.100}; {_FORM}.")
            parts.append(_Test(field, "in" if name == "eq" else name, values))
    return _Group("and", tuple(parts))


# In memory


class Within:
    """The documents of an index that pass a filter."""

    def __init__(self, mask: np.ndarray) -> None:
        """Those that are true in [size] truth values."""
        self.mask = mask

    @cached_property
    def ids(self) -> Ids:
        """Those that pass, ascending."""
        return np.flatnonzero(self.mask)

    def passes(self, ids: Ids) -> np.ndarray:
        """Whether each of the documents passes; the shape is that of `ids`, and -1 never passes."""
        return self.mask[ids] & (ids >= 0)

    @cached_property
    def selector(self) -> Any:
        """The same for FAISS."""
        import faiss

        make: Any = faiss.IDSelectorBitmap
        return make(np.packbits(self.mask, bitorder="little"))


class FieldTable:
    """Which documents of an index have which values of which fields; a field is read when a filter first names it."""

    def __init__(
        self, docids: Sequence[str], texts: Any = None, fields: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Of an index with these docids: the given fields by docid, or what the corpus of `texts` has."""
        self._docids = docids
        self._given = getattr(texts, "fields", None) if fields is None else fields.items
        self._names: set[str] | None = None  # of all fields, when they were read once
        self._values: dict[str, dict[tuple[bool, Any], Ids]] = {}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each docid in the index."""
        return positions_of(self._docids)

    def passing(self, wanted: Filter, among: Within | None = None) -> Within:
        """The documents that pass a filter, among those that pass another one.

        Raises:
            RequestError: if it is in the language of a database, or names a field that none of these documents has.
        """
        if wanted.expressions:
            raise RequestError(f"the filter {wanted.expressions[0]!r:.100} is not JSON; {_FORM}.")
        allowed = np.ones(len(self._docids), dtype=bool) if among is None else among.mask
        mask = allowed.copy()
        if wanted.docids is not None:
            found = (self.positions.get(docid, -1) for docid in wanted.docids)
            mask &= self._mask([[position for position in found if position >= 0]])
        for condition in wanted.conditions:
            names = dict.fromkeys(test.field for test in _tests(condition))
            self._read([name for name in names if name not in self._values])
            for name in names:
                if allowed.any() and not any(allowed[ids].any() for ids in self._values.get(name, {}).values()):
                    raise RequestError(f"no document that may be found has the field {name!r}, which the filter names.")
            mask &= self._where(condition)
        return Within(mask)

    def _mask(self, positions: Iterable[Any]) -> np.ndarray:
        mask = np.zeros(len(self._docids), dtype=bool)
        for ids in positions:
            mask[ids] = True
        return mask

    def _where(self, condition: _Test | _Group) -> np.ndarray:
        if isinstance(condition, _Group):
            join, start = (np.logical_and, True) if condition.operator == "and" else (np.logical_or, False)
            masks = [np.full(len(self._docids), start), *map(self._where, condition.parts)]
            return np.asarray(join.reduce(masks))
        values, (first, *_) = self._values[condition.field], (*condition.values, None)
        if condition.operator == "in":
            keys = [(isinstance(value, bool), value) for value in condition.values]
            return self._mask(values[key] for key in keys if key in values)
        holds = _COMPARED[condition.operator]
        return self._mask(
            ids
            for (is_bool, value), ids in values.items()
            if not is_bool and isinstance(value, str) == isinstance(first, str) and holds(value, first)
        )

    def _read(self, names: Sequence[str]) -> None:
        """Read the fields of these names, of which there may be none; the first time, the names of all fields."""
        if not names or (self._names is not None and self._names.isdisjoint(names)):
            return
        if self._given is None:
            raise RequestError("a filter on fields reads them from the corpus file; give it, or fields=.")
        found: dict[str, dict[tuple[bool, Any], list[int]]] = {name: {} for name in names}
        known = set[str]()
        for docid, fields in self._given():
            known |= fields.keys()
            for name in found.keys() & fields.keys():
                position = self.positions.get(str(docid), -1)
                for value in fields[name] if isinstance(fields[name], list) else [fields[name]]:
                    if isinstance(value, str | int | float) and position >= 0:
                        found[name].setdefault((isinstance(value, bool), value), []).append(position)
        self._names = known
        for name in known.intersection(names):
            self._values[name] = {value: np.array(ids, dtype=np.int64) for value, ids in found[name].items()}


def _tests(condition: _Test | _Group) -> Iterator[_Test]:
    if isinstance(condition, _Test):
        yield condition
        return
    for part in condition.parts:
        yield from _tests(part)


def positions_of(docids: Sequence[str]) -> Mapping[str, int]:
    """The position of each docid; of equal docids, the last one."""
    known = getattr(docids, "positions", None)  # of the packed docids of a folder
    return known if isinstance(known, Mapping) else {docid: i for i, docid in enumerate(docids)}


def search_within(store: Any, vectors: Floats, k: int, within: Within, *, threads: int = 1) -> Hits:
    """The k hits of each of the vectors [n, d] among the documents that pass; see `Store.search`."""
    if own := getattr(store, "search_within", None):
        hits: Hits = own(vectors, k, within, threads=threads)
        return hits
    return first_passing(
        lambda rows, wanted: store.search(vectors[rows], wanted, threads=threads), len(vectors), k, within, store.size
    )


def search_each(store: Any, vectors: Floats, k: int, withins: Sequence[Within | None], *, threads: int = 1) -> Hits:
    """The k hits of each of the vectors [n, d] among documents of its own [n]; None: all."""
    kinds = {id(within): within for within in withins}
    if list(kinds.values()) == [None]:
        hits: Hits = store.search(vectors, k, threads=threads)
        return hits
    result = Hits(np.full((len(vectors), k), -1, dtype=np.int64), np.full((len(vectors), k), -np.inf, np.float32))
    for kind, within in kinds.items():
        rows = [row for row, own in enumerate(withins) if id(own) == kind]
        if within is None:
            found = store.search(vectors[rows], k, threads=threads)
        else:
            found = search_within(store, vectors[rows], k, within, threads=threads)
        for all_rows, part in zip(result, found, strict=True):
            all_rows[rows, : part.shape[1]] = part
    return result


def first_passing(search: Callable[[Ids, int], Hits], count: int, k: int, within: Within, size: int) -> Hits:
    """The first k hits that pass, where more and more hits are asked for.

    Args:
        search: gives so many hits of some of the queries, by their numbers.
        count: of queries.
        k: hits of each that are wanted.
        within: the documents that pass.
        size: most hits that there are.
    """
    ids, scores = np.full((count, k), -1, dtype=np.int64), np.full((count, k), -np.inf)
    rows, wanted = np.arange(count), k
    while len(rows):
        wanted = min(4 * wanted, size)
        found = search(rows, wanted)
        passing = within.passes(found.ids)
        # The hits that pass come first, in their order.
        order = np.argsort(~passing, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(passing, order, axis=1)
        for result, values, none in ((ids, found.ids, -1), (scores, found.similarities, -np.inf)):
            result[rows, : order.shape[1]] = np.where(kept, np.take_along_axis(values, order, axis=1), none)
        # Each query goes on by itself: what an approximate index finds depends on how much it is asked for.
        rows = rows[(passing.sum(axis=1) < k) & (found.ids >= 0).all(axis=1)] if wanted < size else rows[:0]
    return Hits(ids, scores)


# In the languages of vector databases


def _milvus(condition: _Test | _Group) -> str:
    if isinstance(condition, _Group):
        parts = [f"({_milvus(part)})" for part in condition.parts]
        return f" {condition.operator} ".join(parts) or ("id >= 0" if condition.operator == "and" else "id < 0")
    field = f"fields[{_text(condition.field)}]"
    if condition.operator == "in":
        tests = (f"{field} == {_text(value)} or json_contains({field}, {_text(value)})" for value in condition.values)
        return " or ".join(tests) or "id < 0"
    return f"{field} {_SIGNS[condition.operator]} {_text(condition.values[0])}"


def _json_path(condition: _Test | _Group) -> str:
    if isinstance(condition, _Group):
        parts = [f"({_json_path(part)})" for part in condition.parts]
        sign = "&&" if condition.operator == "and" else "||"
        return f" {sign} ".join(parts) or ("1 == 1" if sign == "&&" else "1 == 2")
    sign = _SIGNS.get(condition.operator, "==")
    return " || ".join(f"$.{_text(condition.field)} {sign} {_text(value)}" for value in condition.values) or "1 == 2"


def _qdrant(condition: _Test | _Group, models: Any) -> Any:
    nothing = models.HasIdCondition(has_id=[])
    if isinstance(condition, _Group):
        parts = [_qdrant(part, models) for part in condition.parts]
        return models.Filter(must=parts) if condition.operator == "and" else models.Filter(should=parts or [nothing])
    if not condition.field.replace("_", "").replace("-", "").isalnum():
        raise RequestError(f"a filter in Qdrant cannot name the field {condition.field!r}; rename it.")
    key, tests = f"fields.{condition.field}", []
    for value in condition.values:
        if isinstance(value, str) and condition.operator != "in":
            raise RequestError(f"Qdrant compares numbers alone; {condition.field!r} is compared with {value!r}.")
        bounds = {"gte": value, "lte": value} if condition.operator == "in" else {condition.operator: value}
        is_word = isinstance(value, str | bool)
        test = {"match": models.MatchValue(value=value)} if is_word else {"range": models.Range(**bounds)}
        tests.append(models.FieldCondition(key=key, **test))
    return models.Filter(should=tests or [nothing])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
