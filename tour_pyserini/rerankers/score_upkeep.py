"""What maintenance knows about score files, and their export."""

import json
import os
from pathlib import Path

from tour_pyserini.rerankers.score_file import KEY_BYTES, connect
from tour_pyserini.support.files import atomic_write, check_output
from tour_pyserini.support.kept_upkeep import KeptRows, damaged, open_existing

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


def export(path: Path, output: str | os.PathLike[str]) -> int:
    """Write every score as a JSON line (`model`: fingerprint or null, `key`, `logit`), sorted by key.

    Returns:
        The number of scores.
    """
    check_output(output, [path])
    count = 0
    with open_existing(SCORES, path) as connection, atomic_write(output) as file:
        rows = connection.execute(
            "SELECT fingerprint, hex(key), logit FROM scores LEFT JOIN models ON id = model ORDER BY key"
        )
        for fingerprint, key, logit in rows:
            if not isinstance(fingerprint, str | None) or not isinstance(logit, float):
                raise damaged(SCORES, path, f"the score {key:.40} is not a number of a model")
            record = {"model": fingerprint or None, "key": key.lower(), "logit": logit}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count
