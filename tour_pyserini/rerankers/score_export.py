"""Scores in a form that anybody can read."""

import json
import os
from pathlib import Path

from tour_pyserini.files import check_output, written_whole
from tour_pyserini.rerankers.score_upkeep import opened


def export(path: Path, output: str | os.PathLike[str]) -> int:
    """Write every score as a JSON line (`model`: fingerprint or null, `key`, `logit`), by key; how many there were."""
    check_output(output, [path])
    count = 0
    with opened(path) as connection, written_whole(output) as file:
        rows = connection.execute(
            "SELECT fingerprint, hex(key), logit FROM scores LEFT JOIN models ON id = model ORDER BY key"
        )
        for fingerprint, key, logit in rows:
            record = {"model": fingerprint or None, "key": key.lower(), "logit": logit}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count
