"""Shards: the part of the topics that one of several processes searches, and the names of what it writes.

A shard has whole batches, one after the other. A batch is then the same batch that one process would search, and the
shards' files, one after the other, are the files that it would write.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tour_pyserini.data.topics import TopicIterator, topics_of
from tour_pyserini.encoders.encoded_queries import FILE
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import sha256


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `count` parts.

    Example:
        >>> Shard.parse("2/3").name("runs/a.trec")
        'runs/a.trec.shard-2-of-3'
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/3`.

        Raises:
            TourError: if it is not a number from 1 to n, a slash and n.
        """
        match = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", text, re.ASCII)
        if not match or int(match[1]) > int(match[2]):
            raise TourError(f"--shard must be i/n with i from 1 to n, for example 2/3, not {text!r}.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def name(self, path: str | os.PathLike[str]) -> str:
        """The name of this shard of a file or folder."""
        return f"{os.fspath(path)}.shard-{self.number}-of-{self.count}"

    def part_of(self, topics: TopicIterator, batch_size: int) -> TopicIterator:
        """The topics of this shard.

        Raises:
            TourError: if there are fewer batches than shards.
        """
        batches = -(-len(topics) // batch_size)
        if batches < self.count:
            raise TourError(
                f"--shard {self} needs at least {self.count} batches, and {len(topics)} topics are {batches} of "
                f"{batch_size}; give fewer shards, or a smaller --batch-size."
            )
        first, end = (batches * number // self.count for number in (self.number - 1, self.number))
        return topics_of(topics, topics.order[first * batch_size : end * batch_size])


def whole_or_shard(shard: Shard | None, path: Any) -> Any:
    """The name of a file or folder: its own, or that of its shard; None if there is none."""
    return path if shard is None or path is None else shard.name(path)


def output_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of what a search wrote: a file, or a folder of query vectors."""
    return sha256(Path(path) / FILE if os.path.isdir(path) else path)
