"""The columns of a pandas data frame in a pickle file, read without unpickling: see `pickle_values`.

pandas 1.0 to 3.1 with any protocol write a manager of blocks: each block has the values of some columns. Values are
NumPy arrays of numbers or of objects, or arrays of texts, which Arrow may keep as offsets in one long text. Every
length is compared with the bytes that are there.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.data.pickle_values import Made, Name, pickle_values

_ALLOWED = {
    "pandas": ("DataFrame", "Index", "RangeIndex", "StringDtype", "NA"),
    "pandas.core.frame": ("DataFrame",),
    "pandas.core.internals.managers": ("BlockManager",),
    "pandas.core.internals.blocks": ("new_block",),
    "pandas._libs.internals": ("_unpickle_block",),
    "pandas._libs.arrays": ("__pyx_unpickle_NDArrayBacked",),
    "pandas._libs.missing": ("NA", "_NA", "NAType"),
    "pandas.core.indexes.base": ("_new_Index", "Index"),
    "pandas.core.indexes.range": ("RangeIndex",),
    "pandas.core.indexes.numeric": ("Int64Index",),
    "pandas.arrays": ("ArrowStringArray", "StringArray"),
    "pandas.core.arrays.string_": ("StringDtype", "StringArray"),
    "pandas.core.arrays.string_arrow": ("ArrowStringArray", "ArrowStringArrayNumpySemantics"),
    "pyarrow.lib": ("_restore_array", "type_for_alias", "py_buffer", "chunked_array"),
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "numpy.core.numeric": ("_frombuffer",),
    "builtins": ("slice", "bytearray", "object"),
    "__builtin__": ("slice", "bytearray", "object"),
    "functools": ("partial",),
    "_codecs": ("encode",),
    "copy_reg": ("_reconstructor",),
    "copyreg": ("_reconstructor",),
}
NAMES = frozenset(Name(module, name) for module, names in _ALLOWED.items() for name in names)

MOST_COLUMNS = 100  # a pickle can refer to one large array a million times
_NUMBERS = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
_OFFSETS = {"string": "<i4", "large_string": "<i8"}


def table_columns(raw: bytes) -> dict[str, list[Any]]:
    """The columns of a pickled data frame by name; `vectors` reads a column of vectors.

    Raises:
        ValueError: if the pickle is not such a table, or asks for anything else.
    """
    manager = _manager(pickle_values(raw, NAMES))
    if _is(manager, "BlockManager") and len(manager.arguments) == 2:
        blocks = [_block(block) for block in _sequence(manager.arguments[0])]
        axes = manager.arguments[1]
    else:  # pandas before 1.3
        inner = _field(_sequence(_state(manager))[-1], "0.14.1")
        blocks = [(_field(block, "values"), _field(block, "mgr_locs")) for block in _sequence(_field(inner, "blocks"))]
        axes = _field(inner, "axes")
    labels = _labels(_sequence(axes)[0])
    if len(labels) > MOST_COLUMNS:
        raise ValueError(f"it has {len(labels)} columns")
    columns: dict[str, list[Any]] = {}
    for values, places in blocks:
        rows = list(_rows(values))
        positions = _positions(places, len(labels))
        if len(rows) != len(positions):
            raise ValueError("a block has not as many columns as places")
        for position, row in zip(positions, rows, strict=True):
            columns[str(labels[position])] = row
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("its columns have different lengths")
    return columns


def _manager(value: Any) -> Made:
    """The block manager of a data frame."""
    if not _is(value, "DataFrame"):
        raise ValueError("it is not a table")
    state = _state(value)
    manager = state.get("_mgr", state.get("_data")) if isinstance(state, dict) else None
    if not isinstance(manager, Made):
        raise ValueError("it is not a table")
    return manager


def _block(block: Any) -> tuple[Any, Any]:
    if not (_is(block, "_unpickle_block") or _is(block, "new_block")) or len(block.arguments) < 2:
        raise ValueError("a part of it is not a block of columns")
    return block.arguments[0], block.arguments[1]


def _labels(index: Any) -> list[Any]:
    """The names of the columns."""
    if not _is(index, "_new_Index") or len(index.arguments) != 2:
        raise ValueError("its columns have no names")
    return _flat(_field(index.arguments[1], "data"))


def _positions(places: Any, count: int) -> list[int]:
    """The positions of a block's columns: a slice, or an array of numbers."""
    if _is(places, "slice"):
        numbers = [value if isinstance(value, int) else None for value in places.arguments]
        positions = list(range(count))[slice(*numbers)]
    else:
        positions = [int(position) for position in _flat(places)]
    if not all(0 <= position < count for position in positions):
        raise ValueError("a block is for a column that is not there")
    return positions


def _rows(values: Any) -> Iterator[list[Any]]:
    """The columns of a block: the rows of its array, or one column of texts."""
    if not _is_array(values):
        yield _flat(values)
        return
    content = _array(values)
    if content.ndim != 2:
        raise ValueError("a block of columns is not a matrix")
    yield from (row.tolist() for row in content)


def _flat(values: Any) -> list[Any]:
    """The values of a one-dimensional array."""
    if _is_array(values):
        return _array(values).ravel().tolist()
    if _is(values, "__pyx_unpickle_NDArrayBacked") or _is(values, "StringArray"):
        return _flat(_backing(_state(values)))
    if _is(values, "ArrowStringArray") or _is(values, "ArrowStringArrayNumpySemantics"):
        state = _state(values)
        chunks = _chunks(_field(state, "_data" if "_pa_array" not in state else "_pa_array"))
        return [text for chunk in chunks for text in _arrow_texts(chunk)]
    raise ValueError("a column has values of an unknown kind")


def _backing(state: Any) -> Any:
    """The array inside a StringArray: pandas gives it in a tuple with the dtype, or by name."""
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, tuple | list) else ()
    for part in parts:
        if _is_array(part):
            return part
        if isinstance(part, dict | tuple) and part:
            return _backing(part)
    raise ValueError("a column of texts has no array")


def _is_array(value: Any) -> bool:
    return _is(value, "_reconstruct") or _is(value, "_frombuffer")


def _array(value: Made) -> np.ndarray:
    """A NumPy array; in an array of objects, cells are texts, numbers, None, or a `_Vector`."""
    if value.name.name == "_frombuffer":
        data, dtype, shape, order = _of_length(value.arguments, 4)
        fortran = order == "F"
    else:
        _, shape, dtype, fortran, data = _of_length(_state(value), 5)
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and 0 <= size < 2**62 for size in shape):
        raise ValueError("an array has no shape")
    count, code = math.prod(shape), _code(dtype)
    if code is not None:
        content = _numbers(data, code, count)
    elif isinstance(data, list) and len(data) == count:
        content = np.empty(count, dtype=object)
        content[:] = [_cell(item) for item in data]
    else:
        raise ValueError("an array has another number of values than its shape says")
    return content.reshape(shape, order="F" if fortran else "C")


def _numbers(data: Any, code: np.dtype, count: int) -> np.ndarray:
    content = _bytes(data)
    if len(content) != count * code.itemsize:
        raise ValueError("an array has another number of bytes than its shape says")
    return np.frombuffer(content, dtype=code)


def _code(dtype: Any) -> np.dtype | None:
    """The type of an array's numbers; None for objects."""
    name = dtype.arguments[0] if _is(dtype, "dtype") and dtype.arguments else None
    if name in ("O8", "O4", "O"):
        return None
    if not isinstance(name, str) or name not in _NUMBERS:
        raise ValueError("an array is neither of numbers nor of objects")
    state = _sequence(dtype.state) if dtype.state is not None else ()
    return np.dtype(name).newbyteorder(">" if len(state) > 1 and state[1] == ">" else "<")


def _cell(value: Any) -> Any:
    """A cell of an array of objects."""
    if isinstance(value, str | int | float | None):
        return value
    if _is(value, "scalar"):
        return _scalar(value)
    if _is(value, "NA") or isinstance(value, Name):
        return None
    if _is_array(value) or isinstance(value, list | tuple):
        return _Vector(value)
    raise ValueError("a cell is neither a text nor a number nor a vector")


class _Vector(NamedTuple):
    """An array or a list in a cell; it is read when it is needed, and once if several cells refer to it."""

    content: Any


def vectors(column: Sequence[Any]) -> list[np.ndarray]:
    """The vectors in the cells of a column, float32; a number is a vector of shape [].

    Raises:
        ValueError: if a cell is not a vector of numbers; the message names its row, from 0.
    """
    known: dict[int, np.ndarray] = {}
    contents = [cell.content if isinstance(cell, _Vector) else cell for cell in column]
    for row, content in enumerate(contents):
        if id(content) not in known:
            try:
                known[id(content)] = _numbers_of(content)
            except (ValueError, OverflowError, TypeError) as error:
                raise ValueError(f"row {row} has no vector of numbers ({error})") from None
    return [known[id(content)] for content in contents]


def _numbers_of(content: Any) -> np.ndarray:
    if _is_array(content):
        array = _array(content)
        if array.dtype != object:
            return array.astype(np.float32)
        content = array.ravel().tolist()
    numbers = content if isinstance(content, list | tuple) else [content]
    numbers = [_scalar(number) if _is(number, "scalar") else number for number in numbers]
    for number in numbers:
        if not isinstance(number, int | float):
            raise ValueError(f"{type(number).__name__} where a number was expected")
    array = np.array(numbers, dtype=np.float64).astype(np.float32)
    return array if isinstance(content, list | tuple) else array[0]


def _scalar(value: Made) -> Any:
    dtype, data = _of_length(value.arguments, 2)
    code = _code(dtype)
    if code is None:
        raise ValueError("a number has no type")
    return _numbers(data, code, 1)[0].item()


def _chunks(value: Any) -> Sequence[Any]:
    if not _is(value, "chunked_array"):
        return [value]
    chunks = _sequence(_of_length(value.arguments[:1], 1)[0])
    if len({id(chunk) for chunk in chunks}) < len(chunks):
        raise ValueError("a column of texts has a part twice")
    return chunks


def _arrow_texts(value: Any) -> Iterator[str | None]:
    """The texts of an Arrow array: a bit per text that says whether it is there, offsets, and all bytes in a row."""
    if not _is(value, "_restore_array"):
        raise ValueError("a column has an Arrow array of an unknown kind")
    kind, length, _, skipped, buffers, *_ = _of_length(_of_length(value.arguments, 1)[0], 7)
    alias = kind.arguments[0] if _is(kind, "type_for_alias") and kind.arguments else None
    if alias not in _OFFSETS or not isinstance(length, int) or not isinstance(skipped, int) or min(length, skipped) < 0:
        raise ValueError("a column has an Arrow array that is not of texts")
    present, places, content = (None if part is None else _bytes(part) for part in _of_length(buffers, 3))
    if places is None and length == 0:
        return
    size = np.dtype(_OFFSETS[alias]).itemsize
    if places is None or len(places) < (skipped + length + 1) * size:
        raise ValueError("a column of texts is shorter than it says")
    offsets = np.frombuffer(places, dtype=_OFFSETS[alias], count=skipped + length + 1)[skipped:].tolist()
    content = content or b""
    if offsets != sorted(offsets) or offsets[0] < 0 or offsets[-1] > len(content):
        raise ValueError("a column of texts has offsets outside its content")
    if present is not None and len(present) * 8 < skipped + length:
        raise ValueError("a column of texts is shorter than it says")
    for row, (begin, end) in enumerate(pairwise(offsets), start=skipped):
        is_there = present is None or present[row // 8] >> row % 8 & 1
        yield content[begin:end].decode("utf-8") if is_there else None


def _bytes(value: Any) -> bytes:
    """The bytes of a buffer, which pickles of older protocols write as a text."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if _is(value, "encode") and len(value.arguments) == 2 and value.arguments[1] in ("latin1", "latin-1"):
        return str(value.arguments[0]).encode("latin-1")
    if (_is(value, "py_buffer") or _is(value, "bytearray")) and len(value.arguments) <= 1:
        return _bytes(value.arguments[0]) if value.arguments else b""
    if _is(value, "bytearray") and len(value.arguments) == 2:
        return str(value.arguments[0]).encode("latin-1")
    if isinstance(value, str):  # written by Python 2
        return value.encode("latin-1")
    raise ValueError("an array has no bytes")


def _is(value: Any, name: str) -> bool:
    return isinstance(value, Made) and value.name.name == name


def _state(value: Made) -> Any:
    if value.state is None:
        raise ValueError(f"{value.name} has no content")
    return value.state


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"a part has no {name}")
    return value[name]


def _of_length(value: Any, length: int) -> Sequence[Any]:
    if len(_sequence(value)) != length:
        raise ValueError("a part has another number of values than expected")
    return value


def _sequence(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("a part is not a list")
    return value
