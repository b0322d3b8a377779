"""What maintenance knows about kept scores: reading all of them, their export, and merging caches into one."""

import contextlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.kept_scores import open_scores
from tour_pyserini.rerankers.postgres_connection import is_server, without_password
from tour_pyserini.rerankers.postgres_upkeep import postgres_upkeep
from tour_pyserini.rerankers.score_file import KEY_BYTES, connect, score_checksum
from tour_pyserini.support.files import atomic_write, check_output
from tour_pyserini.support.kept_file import Model
from tour_pyserini.support.kept_upkeep import KeptRows, damaged, open_existing, verify

SCORES = KeptRows(
    noun="score cache",
    table="scores",
    connect=connect,
    faults={
        f"with keys that do not have {KEY_BYTES} bytes": f"typeof(key) <> 'blob' OR length(key) <> {KEY_BYTES}",
        "that are not finite": "typeof(logit) <> 'real' OR abs(logit) > 1.7976931348623157e308",
        "with a wrong checksum": "checksum IS NOT score_checksum(key, logit, model)",
    },
)
ROUNDING = 1e-3
"""The same model gives the same pair scores that differ by less, by rounding, on different machines."""
_ROWS = 10_000  # merged at a time

Location = str | os.PathLike[str]


class KeptScore(NamedTuple):
    """A score and what it is the score of; a model that was not recorded has an empty fingerprint and name."""

    model: Model
    key: bytes
    logit: float


class Merged(NamedTuple):
    """What a merge did: scores that were added, scores that were there, and the largest difference among those."""

    added: int
    present: int
    difference: float


def export(location: Location, output: str | os.PathLike[str]) -> int:
    """Write every score as a JSON line (`model`: fingerprint or null, `key`, `logit`), sorted by key.

    Returns:
        The number of scores.

    Raises:
        TourError: if one is damaged; nothing is written then.
    """
    check_output(output, [] if is_server(location) else [location])
    count = 0
    with all_scores(location) as scores, atomic_write(output) as file:
        for model, key, logit in scores:
            record = {"model": model.fingerprint or None, "key": key.hex(), "logit": logit}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def merge(sources: Sequence[Location], target: Location) -> Merged:
    """Add the scores of some caches to another one, one cache after the other; doing it again changes nothing.

    A cache is compared with the target first. A score that is there already stays; one that differs by more than
    rounding means that two models have the same fingerprint, and nothing of that cache is merged then.
    """
    for source in sources:
        if is_server(source):
            with postgres_upkeep(os.fspath(source)) as upkeep:
                upkeep.verify()
        else:
            verify(SCORES, Path(source))
            if not is_server(target) and os.path.exists(target) and os.path.samefile(source, target):
                raise TourError(f"{source} cannot be merged into itself; leave it out.")
    done = [_merge_one(source, target) for source in sources]
    added, present, differences = zip(*done, strict=True)
    return Merged(sum(added), sum(present), max(differences))


def _merge_one(source: Location, target: Location) -> Merged:
    seen, difference = 0, 0.0
    with contextlib.closing(open_scores(target)) as kept:
        before = kept.stats().scores
        for part in _parts(source):
            present = kept.get([score.key for score in part])
            for score in part:
                apart = abs(present.get(score.key, score.logit) - score.logit)
                difference = max(difference, apart)
                if apart > ROUNDING:
                    raise _conflict(source, target, score, present[score.key])
    for part in _parts(source):
        seen += len(part)
        by_model = itertools.groupby(sorted(part), key=lambda score: score.model)
        for model, scores in by_model:
            with contextlib.closing(open_scores(target, model if model.fingerprint else None)) as kept:
                kept.put({score.key: score.logit for score in scores})
    with contextlib.closing(open_scores(target)) as kept:
        for part in _parts(source):
            if len(kept.get([score.key for score in part])) < len(part):
                raise TourError(f"the scores could not be written to {_shown(target)}; see the warning, and try again.")
        added = kept.stats().scores - before
    return Merged(added, seen - added, difference)


@contextlib.contextmanager
def all_scores(location: Location) -> Iterator[Iterator[KeptScore]]:
    """Every score of a cache, sorted by key; a damaged one is an error."""
    if is_server(location):
        with postgres_upkeep(os.fspath(location)) as upkeep:
            yield (KeptScore(Model(fingerprint, name), key, logit) for fingerprint, name, key, logit in upkeep.scores())
        return
    with open_existing(SCORES, Path(location)) as connection:
        rows = connection.execute(
            "SELECT fingerprint, name, key, logit, model, scores.checksum FROM scores LEFT JOIN models ON id = model "
            "ORDER BY key"
        )
        yield (_checked(Path(location), *row) for row in rows)


def _checked(
    path: Path, fingerprint: object, name: object, key: object, logit: object, model: object, checksum: object
) -> KeptScore:
    if not isinstance(key, bytes):
        raise damaged(SCORES, path, "a key is not bytes")
    if not isinstance(fingerprint, str | None) or not isinstance(name, str | None) or not isinstance(logit, float):
        raise damaged(SCORES, path, f"the score {key.hex():.40} is not a number of a model")
    if not math.isfinite(logit) or checksum != score_checksum(key, logit, model):
        raise damaged(SCORES, path, f"the score {key.hex():.40} has a wrong checksum")
    return KeptScore(Model(fingerprint or "", name or ""), key, logit)


def _parts(source: Location) -> Iterator[list[KeptScore]]:
    """The scores of a cache, some at a time."""
    with all_scores(source) as scores:
        while part := list(itertools.islice(scores, _ROWS)):
            yield part


def _conflict(source: Location, target: Location, score: KeptScore, present: float) -> TourError:
    model = score.model.name or "unknown"
    return TourError(
        f"{_shown(source)} and {_shown(target)} have different scores of the model {model} for the pair "
        f"{score.key.hex()} ({score.logit:.6g} and {present:.6g}), so one of them is wrong; "
        "nothing of the first was merged."
    )


def _shown(location: Location) -> str:
    return without_password(os.fspath(location))
