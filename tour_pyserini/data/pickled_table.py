"""The columns of a pandas data frame in a pickle file, of which nothing is run.

Python's own reader calls whatever a pickle names. Here every name stands for something of this module: what pandas
would make is kept as the arguments and the state that the pickle gives it, and NumPy's arrays are made from plain
numbers. Any other name is refused. pandas 1.0 to 3.1 write a manager of blocks: each block has the values of some
columns.
"""

import pickle
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

_NUMBERS = re.compile("[fiu][1248]|b1")


def read_pickled_table(path: Path) -> dict[str, list[Any]]:
    """The columns of a pickled data frame by name; cells are texts, numbers, lists and NumPy's arrays of numbers.

    Raises:
        OSError: if the file cannot be read.
        Exception: of any other type, if it is not such a table or asks for anything else.
    """
    with open(path, "rb") as file:
        frame = _TableUnpickler(file).load()
    if not isinstance(frame, _Part) or not isinstance(frame.state, dict):
        raise ValueError("it is not a table")
    manager = frame.state.get("_mgr") or frame.state["_data"]
    if manager.arguments:
        blocks, axes = manager.arguments
        blocks = [block.arguments[:2] for block in blocks]
    else:  # pandas before 1.3
        axes, blocks = (manager.state[-1]["0.14.1"][name] for name in ("axes", "blocks"))
        blocks = [(block["values"], block["mgr_locs"]) for block in blocks]
    names = _values(axes[0].arguments[1]["data"])
    columns = {}
    for values, places in blocks:
        rows = values.array.tolist() if isinstance(values, _Array) else [_values(values)]
        positions = np.arange(len(names))[places if isinstance(places, slice) else places.array]
        for position, row in zip(positions, rows, strict=True):
            columns[str(names[position])] = [cell.array if isinstance(cell, _Array) else cell for cell in row]
    return columns


def _values(content: Any) -> list[Any]:
    """The values of a one-dimensional array: NumPy's, Arrow's, or one that is in the state of an array of pandas."""
    if isinstance(content, _Part):
        parts: Iterable[Any] = content.state.values() if isinstance(content.state, dict) else content.state
        content = next(part for part in parts if isinstance(part, _Array) or hasattr(part, "to_pylist"))
    return content.array.tolist() if isinstance(content, _Array) else content.to_pylist()


class _TableUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "pyarrow.lib" and name in _ARROW:
            return partial(_checked, super().find_class(module, name))
        for modules, names in _STAND_INS.items():
            if re.fullmatch(modules, module) and name in names:
                return names[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


class _Part:
    """What pandas would make, as its arguments and its state."""

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __call__(self, *arguments: Any) -> "_Part":
        """A block of pandas 1.3: `partial(new_block, ndim=2)(values, places)`."""
        return _Part(*arguments)


class _Dtype:
    order = "="

    def __init__(self, code: str, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def numbers(self, content: Any) -> np.ndarray:
        """The numbers [n] in a buffer."""
        if not _NUMBERS.fullmatch(self.code):
            raise ValueError(f"it has an array of {self.code!r:.20}")
        return np.frombuffer(content, np.dtype(self.code).newbyteorder(self.order))  # type: ignore[arg-type]


class _Array:
    array: np.ndarray

    def __init__(self, *_: Any) -> None:
        """Without content, which `__setstate__` gives it."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        is_objects = isinstance(content, list)
        flat = np.fromiter(content, object, len(content)) if is_objects else dtype.numbers(content)
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")


def _from_buffer(buffer: Any, dtype: _Dtype, shape: Any, order: str, *_: Any) -> _Array:
    array = _Array()
    array.array = dtype.numbers(buffer).reshape(shape, order="F" if order == "F" else "C")
    return array


def _checked(make: Callable[..., Any], *arguments: Any) -> Any:
    """An array of Arrow's, whose lengths and offsets could lie."""
    content = make(*arguments)
    if hasattr(content, "validate"):
        content.validate(full=True)
    return content


_ARROW = {"_restore_array", "type_for_alias", "py_buffer", "chunked_array"}
_PANDAS = (
    *("DataFrame", "BlockManager", "new_block", "_unpickle_block", "Index", "_new_Index", "RangeIndex", "Int64Index"),
    *("StringDtype", "StringArray", "ArrowStringArray", "ArrowStringArrayNumpySemantics", "NA", "_NA", "NAType"),
    "__pyx_unpickle_NDArrayBacked",
)
_STAND_INS: dict[str, dict[str, Callable[..., Any]]] = {
    r"pandas(\.\w+)*": dict.fromkeys(_PANDAS, _Part),
    "functools": {"partial": _Part},
    r"numpy(\._?core\.(multiarray|numeric))?": {
        **{"ndarray": _Array, "_reconstruct": _Array, "dtype": _Dtype},
        **{"_frombuffer": _from_buffer, "scalar": lambda dtype, content: dtype.numbers(content)[0]},
    },
    "builtins|__builtin__": {"slice": slice, "bytearray": bytearray, "object": object},
    "_codecs": {"encode": lambda text, *_: text.encode("latin-1")},  # bytes in protocols 0 to 2
    "copyreg|copy_reg": {"_reconstructor": lambda *_: _Part()},  # an object in protocols 0 and 1
}
