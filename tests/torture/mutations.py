"""Damage valid files as accidents and attackers do: seeded, pure functions from bytes to bytes.

`mutated(content, kind, random)` applies one to three mutators. The kind decides which fit: every file has bytes; a
file of lines has columns too, a JSON file values, a YAML or TOML file words. The same seed gives the same bytes.
"""

import gzip
import json
import lzma
import math
import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

Mutator = Callable[[bytes, Random], bytes]

HUGE = "9" * 400
ODD_TEXTS = (
    *("", " ", "\t", "-", "NaN", "nan", "inf", "-inf", "1e400", "-1", "0", "null", "true", HUGE, "-" + HUGE, "0x10"),
    *("\u00a0", "\u2028", "\ud800", "\x00", "a\x00b", "é", "e\u0301", "../../x", "/etc/passwd", "~", "*", "${HOME}"),
    *("(a+)+$", "[", "a" * 5000, "１２", "1_000", "'", '"', "\\", "%s", "{}", "!!python/object:os.system", "&a *a"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e308, math.inf, -math.inf),
    *(math.nan, [], {}, [[]], [None], [1, "a"], {"": None}, {"a": {"a": 1}}, *ODD_TEXTS),
)
_NESTED = 3000


def mutated(content: bytes, kind: str, random: Random) -> bytes:
    """A damaged copy.

    Args:
        content: a valid file.
        kind: one of `KINDS`; `gz:` or `xz:` before it damages what is inside a compressed file half of the time.
        random: decides everything.
    """
    packing, _, inner = kind.rpartition(":")
    if packing and random.random() < 0.5:
        unpack, pack = _PACKINGS[packing]
        return pack(mutated(unpack(content), inner, random))
    chosen = BYTES if packing else KINDS[inner]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(chosen)(content, random)
    return content


# --- bytes ---


def flip_bit(content: bytes, random: Random) -> bytes:
    """One bit."""
    if not content:
        return content
    changed = bytearray(content)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def flip_early_bit(content: bytes, random: Random) -> bytes:
    """One bit of the first 128 bytes, where headers are."""
    return flip_bit(content[:128], random) + content[128:]


def overwrite(content: bytes, random: Random) -> bytes:
    """Up to 64 bytes become random ones."""
    start, length = random.randrange(len(content) + 1), random.randint(1, 64)
    return content[:start] + random.randbytes(min(length, len(content) - start)) + content[start + length :]


def truncate(content: bytes, random: Random) -> bytes:
    """The end is missing."""
    return content[: random.randrange(len(content) + 1)]


def behead(content: bytes, random: Random) -> bytes:
    """The beginning is missing."""
    return content[random.randint(1, 64) :]


def duplicate(content: bytes, random: Random) -> bytes:
    """A part is there twice."""
    start = random.randrange(len(content) + 1)
    end = min(len(content), start + random.choice((1, 8, 100, 10_000)))
    return content[:end] + content[start:]


def cut_out(content: bytes, random: Random) -> bytes:
    """A part is missing."""
    start = random.randrange(len(content) + 1)
    return content[:start] + content[start + random.choice((1, 2, 8, 100)) :]


def insert(content: bytes, random: Random) -> bytes:
    """A few bytes that many parsers stumble over: NULs, broken UTF-8, a byte order mark, line ends, digits."""
    start = random.randrange(len(content) + 1)
    odd = (b"\x00", b"\x00" * 16, b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\x1a", b"\x85")
    return content[:start] + random.choice((*odd, HUGE.encode(), random.randbytes(5))) + content[start:]


def huge_number(content: bytes, random: Random) -> bytes:
    """A binary number of 4 or 8 bytes becomes a very large, negative or small one, or an odd float."""
    size = random.choice((4, 8))
    if len(content) < size:
        return content
    # Headers have the numbers that a reader allocates memory by.
    start = random.randrange(min(200, len(content) - size + 1) if random.random() < 0.7 else len(content) - size + 1)
    whole = random.choice((2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 0, 1, 2))
    number = random.choice((math.nan, math.inf, 1e38)) if random.random() < 0.3 else None
    raw = struct.pack("<Q", whole)[:size] if number is None else struct.pack("<f" if size == 4 else "<d", number)
    return content[:start] + raw + content[start + size :]


def nothing(content: bytes, random: Random) -> bytes:
    """An empty file, or one of blanks or zeros."""
    return random.choice((b"", b"\n", b" ", b"\x00" * len(content), b"\xef\xbb\xbf"))


BYTES: tuple[Mutator, ...] = (
    *(flip_bit, flip_bit, flip_early_bit, flip_early_bit, overwrite, truncate, truncate, behead, duplicate, cut_out),
    *(insert, insert, huge_number, huge_number, nothing),
)


# --- lines and columns ---


def odd_column(content: bytes, random: Random) -> bytes:
    """A column of a line becomes something odd."""
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    columns = re.split(rb"([\t ,])", lines[number])
    columns[random.randrange(0, len(columns), 2)] = _odd_text(random)
    lines[number] = b"".join(columns)
    return b"\n".join(lines)


def lose_column(content: bytes, random: Random) -> bytes:
    """A column of a line is missing, or there twice."""
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    columns = lines[number].split(b"\t" if b"\t" in lines[number] else b" ")
    position = random.randrange(len(columns))
    columns[position : position + 1] = columns[position : position + 1] * random.choice((0, 2))
    lines[number] = random.choice((b"\t", b" ")).join(columns)
    return b"\n".join(lines)


def move_line(content: bytes, random: Random) -> bytes:
    """A line is missing, there twice, or elsewhere; or two lines are one."""
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    line = lines.pop(number)
    for _ in range(random.choice((0, 1, 2))):
        lines.insert(random.randrange(len(lines) + 1), line)
    if random.random() < 0.2 and len(lines) > 1:
        lines[0:2] = [lines[0] + lines[1]]
    return b"\n".join(lines)


def other_line_ends(content: bytes, random: Random) -> bytes:
    """Line ends of other systems, or none at all."""
    return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x85", "\u2028".encode(), b"")))


LINES: tuple[Mutator, ...] = (
    *BYTES,
    *(odd_column, odd_column, odd_column, lose_column, lose_column, move_line, other_line_ends),
)


# --- JSON ---


def odd_json_value(content: bytes, random: Random) -> bytes:
    """A value somewhere in a JSON file, or in a line of JSON lines, becomes another one, of any type."""

    def change(holder: Any, key: Any) -> None:
        holder[key] = random.choice(ODD_VALUES)

    return _with_changed_json(content, random, change)


def lose_json_value(content: bytes, random: Random) -> bytes:
    """A key or an entry is missing, or has another name."""

    def change(holder: Any, key: Any) -> None:
        value = holder.pop(key)
        if isinstance(holder, dict) and random.random() < 0.5:
            holder[random.choice(("", "x", f"{key} ", f"{key}s"))] = value

    return _with_changed_json(content, random, change)


def swap_json_values(content: bytes, random: Random) -> bytes:
    """A value becomes a list or an object of itself, its text, or a list of many copies."""

    def change(holder: Any, key: Any) -> None:
        value = holder[key]
        holder[key] = random.choice(([value], {"x": value}, str(value), [value] * 50))

    return _with_changed_json(content, random, change)


def nest_json(content: bytes, random: Random) -> bytes:
    """A value lies in thousands of lists or objects."""
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return _replace_scalar(content, random, lambda raw: opening * _NESTED + raw + closing * _NESTED)


def odd_json_number(content: bytes, random: Random) -> bytes:
    """A scalar becomes a number that Python's parser accepts and others do not, or that is too long."""
    numbers = (HUGE.encode() * 20, b"1e999", b"-1e999", b"NaN", b"-Infinity", b"0.1" + b"0" * 5000, b"1" * 5000)
    return _replace_scalar(content, random, lambda raw: random.choice(numbers))


JSON: tuple[Mutator, ...] = (
    *BYTES,
    *(odd_json_value, odd_json_value, odd_json_value, lose_json_value, lose_json_value, swap_json_values),
    *(odd_json_value, lose_json_value, nest_json, odd_json_number),
)


# --- YAML and TOML: words of a file that is not parsed here ---


def odd_word(content: bytes, random: Random) -> bytes:
    """A word becomes something odd."""
    return _replace_word(content, random, lambda raw: _odd_text(random))


def odd_yaml(content: bytes, random: Random) -> bytes:
    """A word becomes a tag, an anchor, a date, a number in another base, or deep nesting."""
    choices = (
        *(b"!!float x", b"!!int x", b"!!binary x", b"!!timestamp x", b"!!set {a}", b"!!python/name:os.system", b"*a"),
        *(b"&a [*a]", b"2026-02-30", b"190:20:30", b"0b2", b".nan", b".inf", b"{<<: 1}", b"? a", b"- - - a", b"|"),
        *(b"[" * _NESTED, b"{a: " * _NESTED, b"- " * _NESTED, HUGE.encode() * 20, b"1." + b"0" * 5000 + b"e9"),
    )
    return _replace_word(content, random, lambda raw: random.choice(choices))


def odd_toml(content: bytes, random: Random) -> bytes:
    """A word becomes a date, a table, a number in another base, or deep nesting."""
    choices = (
        *(b"1979-05-27", b"[a]", b"[[a]]", b"{a = 1}", b"inf", b"nan", b"0x_1", b"0b2", b'"""', b"'''", b"a.b.c = 1"),
        *(b"[" * _NESTED, b"{a=" * _NESTED, b"a." * _NESTED, HUGE.encode() * 20, b"1e" + HUGE.encode(), b"[1, 2"),
    )
    return _replace_word(content, random, lambda raw: random.choice(choices))


YAML: tuple[Mutator, ...] = (*BYTES, odd_word, odd_word, odd_word, odd_yaml, odd_yaml, odd_yaml, move_line, move_line)
TOML: tuple[Mutator, ...] = (*BYTES, odd_word, odd_word, odd_word, odd_toml, odd_toml, odd_toml, move_line, move_line)

KINDS = {"bytes": BYTES, "lines": LINES, "json": JSON, "yaml": YAML, "toml": TOML}
"""The mutators that fit a kind of file."""

_PACKINGS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.decompress, lambda content: gzip.compress(content, mtime=0)),
    "xz": (lzma.decompress, lzma.compress),
}


def _odd_text(random: Random) -> bytes:
    return random.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")


def _with_changed_json(content: bytes, random: Random, change: Callable[[Any, Any], None]) -> bytes:
    """The content with one value of its JSON changed; unchanged if it is not JSON (any more)."""
    lines = content.split(b"\n")
    try:
        value = json.loads(content)
        number = None
    except (ValueError, RecursionError):
        number = random.randrange(len(lines))
        try:
            value = json.loads(lines[number])
        except (ValueError, RecursionError):
            return content
    holder = [value]
    holder_, key = random.choice(_places(holder))
    change(holder_, key)
    if not holder:
        return b""
    raw = json.dumps(holder[0], ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    if number is None:
        return raw
    lines[number] = raw
    return b"\n".join(lines)


def _places(holder: Any) -> list[tuple[Any, Any]]:
    """Every place in nested lists and objects: the holder and the key or position."""
    places = []
    waiting = [holder]
    while waiting:
        value = waiting.pop()
        for key, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
            places.append((value, key))
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return places


def _replace_scalar(content: bytes, random: Random, new: Callable[[bytes], bytes]) -> bytes:
    return _replace_match(content, random, rb'"(?:[^"\\]|\\.)*"(?!\s*:)|-?[0-9.]+|null|true|false', new)


def _replace_word(content: bytes, random: Random, new: Callable[[bytes], bytes]) -> bytes:
    return _replace_match(content, random, rb"[^\s,:=\[\]{}]+", new)


def _replace_match(content: bytes, random: Random, pattern: bytes, new: Callable[[bytes], bytes]) -> bytes:
    found = [match.span() for match in re.finditer(pattern, content)]
    if not found:
        return content
    start, end = random.choice(found)
    return content[:start] + new(content[start:end]) + content[end:]
