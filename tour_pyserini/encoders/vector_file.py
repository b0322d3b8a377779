"""The layout of the SQLite file of query vectors.

The table `vectors` holds a value for each key, a checksum of 8 bytes and then the vector as float32, and the number of
the encoder in the table `models`.
"""

import hashlib

from tour_pyserini.support.sqlite_cache import Layout

CHECK_BYTES = 8

VECTORS = Layout(
    noun="file of query vectors",
    table="vectors",
    columns="(key BLOB PRIMARY KEY, value BLOB NOT NULL, model INTEGER NOT NULL DEFAULT 0)",
    owner=0x546F7556,  # "TouV"
    version=1,
    write_ahead=False,
)


def checksum(key: bytes, content: bytes) -> bytes:
    """A checksum of a row."""
    return hashlib.blake2b(key + content, digest_size=CHECK_BYTES).digest()


def is_whole(key: object, value: object) -> bool:
    """Whether a row has its checksum."""
    if not (isinstance(key, bytes) and isinstance(value, bytes)):
        return False
    return (len(value) - CHECK_BYTES) % 4 == 0 and value[:CHECK_BYTES] == checksum(key, value[CHECK_BYTES:])
