"""Files of scores as earlier versions wrote them."""

import sqlite3

from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.rerankers.score_file import APPLICATION


def layout_1(path, pairs, fingerprint):
    """The file as version 1 of the layout had it."""
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID")
    old.execute(f"PRAGMA application_id = {APPLICATION}")
    old.execute("PRAGMA user_version = 1")
    rows = [(pair_key(fingerprint, *pair), float(place) * 1.5 + place % 7) for place, pair in enumerate(pairs)]
    old.execute("BEGIN")
    old.executemany("INSERT INTO scores VALUES (?, ?)", rows)
    old.execute("COMMIT")
    old.close()
    return [logit for _, logit in rows]
