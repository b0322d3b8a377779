"""Check the layout of a FAISS file before FAISS reads it.

FAISS allocates what a header asks for and follows the numbers in a file: one flipped bit can take all memory, loop for
minutes, or end the process. Here the file is walked as FAISS would read it. Each length is compared with the bytes that
are left, sizes with each other, and the links of a graph with the number of its vectors; numbers must be finite.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

LAYOUT_VERSION = 1
"""Raised when a check is added: files that passed older checks are then checked again."""

_BLOCK = 1 << 20  # numbers that are checked at a time
_LARGEST_DIMENSION = 1 << 16
_DEEPEST = 4  # indexes inside each other: a transform of an inverted file with a graph over its lists


class _Header(NamedTuple):
    """Dimension, number of vectors."""

    d: int
    ntotal: int


class UnknownLayoutError(ValueError):
    """A part of the file is of a kind that is not known here; what stands before it is right."""


def check_layout(path: str | os.PathLike[str]) -> None:
    """Check a FAISS file.

    Raises:
        UnknownLayoutError: if it has a part of a kind that is not known here.
        ValueError: if it is damaged; the reason, without the path.
        OSError: if it cannot be read.
    """
    size = Path(path).stat().st_size
    if not size:
        raise ValueError("it is empty")
    walk = _Walk(np.memmap(path, dtype=np.uint8, mode="r"))
    walk.index(depth=0)
    if walk.position != size:
        raise ValueError(f"it has {size} bytes where its header says {walk.position}")


class _Walk:
    """A position in the file, and what stands there."""

    def __init__(self, content: np.ndarray) -> None:
        self._content = content
        self.position = 0

    # --- numbers and vectors ---

    def take(self, count: int, code: str) -> np.ndarray:
        """The next `count` numbers of a type, as a view of the file."""
        size = count * np.dtype(code).itemsize
        if not 0 <= size <= len(self._content) - self.position:
            raise ValueError("it is shorter than its header says")
        start, self.position = self.position, self.position + size
        return self._content[start : self.position].view(code)

    def number(self, code: str) -> int:
        return int(self.take(1, code)[0])

    def vector(self, code: str, expected: int | None = None) -> np.ndarray:
        """A vector: its length, then its numbers."""
        count = self.number("<u8")
        if expected is not None and count != expected:
            raise ValueError(f"a part of it has {count} numbers instead of {expected}")
        values = self.take(count, code)
        if code in ("<f4", "<f8"):
            _check_finite(values)
        return values

    # --- indexes ---

    def index(self, depth: int) -> _Header:
        if depth > _DEEPEST:
            raise ValueError("it has too many indexes inside each other")
        kind = self.take(4, "u1").tobytes()
        if kind not in _KINDS:
            name = kind.decode("latin-1") if kind.isalnum() else "?"
            raise UnknownLayoutError(f"it is of a kind {name!r} that is not known here; known are {KNOWN}")
        header = self._header()
        _KINDS[kind](self, header, depth)
        return header

    def _header(self) -> _Header:
        d, ntotal = self.number("<i4"), self.number("<i8")
        self.take(16, "u1")
        trained, metric = self.number("u1"), self.number("<i4")
        if metric > 1:
            self.take(1, "<f4")
        if not 0 < d <= _LARGEST_DIMENSION or not 0 <= ntotal < 2**40 or not 0 <= metric < 64:
            raise ValueError(f"its header is damaged ({ntotal} vectors of {d} dimensions)")
        if trained != 1:
            raise ValueError("it is not trained")
        return _Header(d, ntotal)

    def flat(self, header: _Header, depth: int) -> None:
        self.vector("<f4", header.d * header.ntotal)

    def product(self, header: _Header, depth: int) -> None:
        code_size = self._product_quantizer(header.d)
        self.vector("u1", code_size * header.ntotal)
        self.take(9, "u1")  # search type, signs, polysemous threshold

    def scalar(self, header: _Header, depth: int) -> None:
        self.vector("u1", self._scalar_quantizer(header.d) * header.ntotal)

    def graph(self, header: _Header, depth: int) -> None:
        self.vector("<f8")  # probabilities of levels
        per_level, levels = self.vector("<i4"), self.vector("<i4", header.ntotal)
        offsets, neighbors = self.vector("<u8", header.ntotal + 1), self.vector("<i4")
        entry, top, _, _, _ = (self.number("<i4") for _ in range(5))
        _check_graph(per_level, levels, offsets, neighbors, ntotal=header.ntotal)
        if not -1 <= entry < max(header.ntotal, 1) or not -1 <= top < max(len(per_level) - 1, 1):
            raise ValueError("its graph has no valid entry point")
        if header.ntotal and (entry < 0 or top < 0 or int(levels[entry]) <= top):
            raise ValueError("its graph has no valid entry point")
        self._inner(header, depth)

    def _inner(self, header: _Header, depth: int, *, same_dimension: bool = True) -> _Header:
        """An index inside, of the same number of vectors."""
        inner = self.index(depth + 1)
        if inner.ntotal != header.ntotal or (same_dimension and inner.d != header.d):
            raise ValueError("its parts have different numbers of vectors")
        return inner

    def mapped(self, header: _Header, depth: int) -> None:
        self._inner(header, depth)
        _check_ids(self.vector("<i8", header.ntotal), header.ntotal)

    def refined(self, header: _Header, depth: int) -> None:
        self._inner(header, depth)
        self._inner(header, depth)
        self.take(1, "<f4")

    def transformed(self, header: _Header, depth: int) -> None:
        count, d = self.number("<i4"), header.d
        if not 0 <= count <= 8:
            raise ValueError(f"it has {count} transforms")
        for _ in range(count):
            d = self._transform(d)
        if self._inner(header, depth, same_dimension=False).d != d:
            raise ValueError("its transforms do not fit its vectors")

    def lists_flat(self, header: _Header, depth: int) -> None:
        nlist = self._lists_header(header, depth)
        self._lists(nlist, 4 * header.d, header.ntotal, floats=True)

    def lists_product(self, header: _Header, depth: int) -> None:
        nlist = self._lists_header(header, depth)
        self.take(1, "u1")  # whether codes are of residuals
        code_size = self.number("<u8")
        if code_size != self._product_quantizer(header.d):
            raise ValueError("its codes have another size than its quantizer makes")
        self._lists(nlist, code_size, header.ntotal)

    def lists_scalar(self, header: _Header, depth: int) -> None:
        nlist = self._lists_header(header, depth)
        code_size = self._scalar_quantizer(header.d)
        if self.number("<u8") != code_size:
            raise ValueError("its codes have another size than its quantizer makes")
        self.take(1, "u1")  # whether codes are of residuals
        self._lists(nlist, code_size, header.ntotal)

    # --- parts of indexes ---

    def _product_quantizer(self, dimension: int) -> int:
        """Bytes of a code."""
        d, parts, bits = (self.number("<u8") for _ in range(3))
        if d != dimension or not 0 < parts <= d or d % parts or not 0 < bits <= 16:
            raise ValueError("its quantizer does not fit its vectors")
        self.vector("<f4", d << bits)
        return (parts * bits + 7) // 8

    def _scalar_quantizer(self, dimension: int) -> int:
        """Bytes of a code."""
        kind = self.number("<i4")
        self.take(8, "u1")  # how ranges were found
        d, code_size = self.number("<u8"), self.number("<u8")
        trained = self.vector("<f4")
        # Numbers that a dimension needs for its range: none where a code is the number itself.
        bits, ranges = _SCALAR_KINDS.get(kind, (0, 0))
        if d != dimension or not bits or code_size != (d * bits + 7) // 8:
            raise ValueError("its quantizer does not fit its vectors")
        if len(trained) < (0, 2, 2 * d)[ranges]:
            raise ValueError("its quantizer is not trained")
        return code_size

    def _transform(self, d: int) -> int:
        """The dimension after a transform of vectors of dimension d."""
        kind = self.take(4, "u1").tobytes()
        if kind in (b"PcAm", b"Pcam", b"PCAm"):
            self.take(4 if kind == b"PCAm" else 8, "u1")  # power of eigenvalues, epsilon
            self.take(5, "u1")  # random rotation, balanced bins
            for _ in range(3):
                self.vector("<f4")
        elif kind == b"VNrm":
            self.take(1, "<f4")
        elif kind not in (b"rrot", b"LTra"):
            raise UnknownLayoutError("it has a transform that is not known here")
        weights = bias = np.empty(0, dtype=np.float32)
        if kind != b"VNrm":
            has_bias = self.number("u1")
            weights, bias = self.vector("<f4"), self.vector("<f4")
        d_in, d_out, _ = self.number("<i4"), self.number("<i4"), self.number("u1")
        fits = d_in == d and 0 < d_out <= _LARGEST_DIMENSION
        if kind == b"VNrm":
            fits &= d_out == d_in
        else:
            fits &= len(weights) == d_in * d_out and (not has_bias or len(bias) == d_out)
        if not fits:
            raise ValueError("its transforms do not fit its vectors")
        return d_out

    def _lists_header(self, header: _Header, depth: int) -> int:
        """The number of lists of an inverted file."""
        nlist, nprobe = self.number("<u8"), self.number("<u8")  # nprobe may be above nlist
        coarse = self.index(depth + 1)
        if coarse.ntotal != nlist or coarse.d != header.d or not nprobe:
            raise ValueError("its lists do not fit its centroids")
        direct = self.number("u1")
        if direct > 1:
            raise UnknownLayoutError("it has a hash table of ids, which is not known here")
        self.vector("<i8", header.ntotal if direct else 0)
        return nlist

    def _lists(self, nlist: int, code_size: int, ntotal: int, *, floats: bool = False) -> None:
        kind = self.take(4, "u1").tobytes()
        if kind != b"ilar":
            raise ValueError("its lists lie in another file, or are of a kind that is not known here")
        if self.number("<u8") != nlist or self.number("<u8") != code_size:
            raise ValueError("its lists do not fit its centroids")
        layout = self.take(4, "u1").tobytes()
        if layout == b"full":
            sizes = self.vector("<u8", nlist).tolist()
        elif layout == b"sprs":
            pairs = self.vector("<u8").tolist()
            sizes = pairs[1::2]
            if len(pairs) % 2 or any(number >= nlist for number in pairs[::2]) or pairs[::2] != sorted(set(pairs[::2])):
                raise ValueError("its lists are damaged")
        else:
            raise ValueError("its lists are damaged")
        if sum(sizes) != ntotal:
            raise ValueError(f"its lists have {sum(sizes)} vectors instead of {ntotal}")
        for count in sizes:
            codes = self.take(count * code_size, "u1")
            if floats:
                _check_finite(codes.view("<f4"))
            _check_ids(self.take(count, "<i8"), ntotal)


_KINDS: dict[bytes, Callable[[_Walk, _Header, int], None]] = {
    **dict.fromkeys((b"IxFI", b"IxF2", b"IxFl"), _Walk.flat),
    b"IxPq": _Walk.product,
    b"IxSQ": _Walk.scalar,
    **dict.fromkeys((b"IHNf", b"IHNp", b"IHNs"), _Walk.graph),
    **dict.fromkeys((b"IxMp", b"IxM2"), _Walk.mapped),
    b"IxRF": _Walk.refined,
    b"IxPT": _Walk.transformed,
    b"IwFl": _Walk.lists_flat,
    b"IwPQ": _Walk.lists_product,
    b"IwSq": _Walk.lists_scalar,
}
KNOWN = "flat, HNSW, PQ, SQ and IVF indexes, with id maps, transforms or refinement"
# Bits of a number, and what is trained: nothing, one range, or a range for each dimension.
_SCALAR_KINDS = {0: (8, 2), 1: (4, 2), 2: (8, 1), 3: (4, 1), 4: (16, 0), 5: (8, 0), 6: (6, 2), 7: (16, 0), 8: (8, 0)}


def _check_finite(values: np.ndarray) -> None:
    for start in range(0, len(values), _BLOCK):
        if not np.isfinite(values[start : start + _BLOCK]).all():
            raise ValueError("it has vectors with NaN or infinity")


def _check_ids(ids: np.ndarray, ntotal: int) -> None:
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < ntotal:
        raise ValueError(f"it has ids outside its {ntotal} vectors")


def _check_graph(
    per_level: np.ndarray, levels: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, *, ntotal: int
) -> None:
    """Each node has as many places for neighbours as its levels need, and every neighbour exists."""
    places = per_level.astype(np.int64)
    if not len(places) or places[0] != 0 or (np.diff(places) < 0).any() or places[-1] > 1 << 20:
        raise ValueError("the levels of its graph are damaged")
    if len(levels) and not 1 <= int(levels.min()) <= int(levels.max()) < len(places):
        raise ValueError("the levels of its graph are damaged")
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(neighbors):
        raise ValueError("the links of its graph are damaged")
    for start in range(0, ntotal, _BLOCK):
        part = slice(start, start + _BLOCK)
        steps = np.diff(offsets[start : start + _BLOCK + 1].astype(np.int64))
        if (steps != places[levels[part]]).any():
            raise ValueError("the links of its graph are damaged")
    for start in range(0, len(neighbors), _BLOCK):
        block = neighbors[start : start + _BLOCK]
        if not -1 <= int(block.min()) <= int(block.max()) < ntotal:
            raise ValueError("the links of its graph are damaged")
