"""Read a pickle as a description: plain values, and names of what it would call. Nothing is called or imported.

Python's own reader runs whatever a pickle names. An allow-list of names is not enough: some harmless functions crash
the process when their arguments lie, such as those that make NumPy's and Arrow's arrays from a length and a buffer. So
the operations of a pickle are carried out here on numbers, texts, lists, tuples and dicts alone, and a call becomes a
`Made`: its name, its arguments, and its state, which the caller interprets. The work is linear in the size of the file.
"""

import pickletools
from collections.abc import Collection
from typing import Any, NamedTuple

_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_IGNORED = {"PROTO", "FRAME", "READONLY_BUFFER"}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Name(NamedTuple):
    """A class or function by its module and name; it is not imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Made:
    """What a pickle would make: `name(*arguments)`, to which it would then give a state; it is not made."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: Name, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments, self.state = name, arguments, None


def pickle_values(raw: bytes, allowed: Collection[Name]) -> Any:
    """The value of a pickle, with a `Made` for every object.

    Args:
        raw: the content of a pickle file.
        allowed: the names that it may use.

    Raises:
        ValueError: if the pickle is damaged, or uses another name or an operation that data does not need.
    """
    reader = _Reader(allowed)
    for operation, argument, _ in pickletools.genops(raw):
        if operation.name == "STOP":
            return reader.pop()
        reader.carry_out(operation.name, argument)
    raise ValueError("the pickle has no end")


class _Reader:
    """A stack of values, the stacks below it that a mark separates, and the values that were put into the memo."""

    def __init__(self, allowed: Collection[Name]) -> None:
        self._allowed = allowed
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        if not self._stack:
            raise ValueError("the pickle takes a value that it did not give")
        return self._stack.pop()

    def carry_out(self, operation: str, argument: Any) -> None:
        if operation in _CONSTANTS:
            self._stack.append(_CONSTANTS[operation])
        elif operation in _LITERALS:
            self._stack.append(argument)
        elif operation in _TUPLES:
            self._stack.append(tuple([self.pop() for _ in range(_TUPLES[operation])][::-1]))
        elif operation not in _IGNORED:
            method = getattr(self, f"_{operation.lower()}", None)
            if method is None:
                raise ValueError(f"the pickle has the operation {operation}, which no table of vectors needs")
            method(argument)

    # --- marks ---

    def _mark(self, _: None) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        if not self._below:
            raise ValueError("the pickle goes back to a mark that it did not set")
        values, self._stack = self._stack, self._below.pop()
        return values

    def _pop_mark(self, _: None) -> None:
        self._since_mark()

    def _pop(self, _: None) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _dup(self, _: None) -> None:
        value = self.pop()
        self._stack += [value, value]

    # --- lists, tuples and dicts ---

    def _tuple(self, _: None) -> None:
        values = self._since_mark()
        self._stack.append(tuple(values))

    def _empty_list(self, _: None) -> None:
        self._stack.append([])

    def _list(self, _: None) -> None:
        values = self._since_mark()
        self._stack.append(values)

    def _append(self, _: None) -> None:
        self._extend([self.pop()])

    def _appends(self, _: None) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        self._top(list).extend(values)

    def _empty_dict(self, _: None) -> None:
        self._stack.append({})

    def _dict(self, _: None) -> None:
        values = self._since_mark()
        self._stack.append({})
        self._update(values)

    def _setitem(self, _: None) -> None:
        value, key = self.pop(), self.pop()
        self._update([key, value])

    def _setitems(self, _: None) -> None:
        self._update(self._since_mark())

    def _update(self, values: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int | float | bool | None):
                raise ValueError("the pickle has a key that is neither text nor a number")
            target[key] = value

    def _top(self, kind: type) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise ValueError(f"the pickle adds to a {kind.__name__} that is not there")
        return self._stack[-1]

    # --- the memo ---

    def _memoize(self, _: None) -> None:
        self._put(len(self._memo))

    def _put(self, number: int) -> None:
        value = self.pop()
        self._stack.append(value)
        self._memo[number] = value

    _binput = _long_binput = _put

    def _get(self, number: int) -> None:
        if number not in self._memo:
            raise ValueError("the pickle takes a value that it did not keep")
        self._stack.append(self._memo[number])

    _binget = _long_binget = _get

    # --- objects ---

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(self._checked(module, name))

    def _stack_global(self, _: None) -> None:
        name, module = self.pop(), self.pop()
        self._stack.append(self._checked(module, name))

    def _checked(self, module: Any, name: Any) -> Name:
        found = Name(module, name)
        if not isinstance(module, str) or not isinstance(name, str) or found not in self._allowed:
            raise ValueError(f"it asks for {found!s:.100}, which no table of vectors needs")
        return found

    def _reduce(self, _: None) -> None:
        arguments, name = self.pop(), self.pop()
        if isinstance(name, Made) and name.name.name == "partial" and name.arguments:
            name = name.arguments[0]
        if not isinstance(name, Name) or not isinstance(arguments, tuple):
            raise ValueError("the pickle calls something that is not a name")
        if name.name == "_reconstructor" and arguments and isinstance(arguments[0], Name):
            name, arguments = arguments[0], ()  # how protocols 0 and 1 write a new object
        self._stack.append(Made(name, arguments))

    _newobj = _reduce

    def _build(self, _: None) -> None:
        state = self.pop()
        self._top(Made).state = state
