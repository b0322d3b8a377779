"""Score files in earlier layouts."""

import sqlite3

from tour_pyserini.rerankers.score_cache import pair_key
from tour_pyserini.rerankers.sqlite_scores import APPLICATION_ID


def write_layout_1(path, pairs, fingerprint):
    """Write a score file in layout 1 and return its scores."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE scores (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    rows = [(pair_key(fingerprint, *pair), float(number) * 1.5 + number % 7) for number, pair in enumerate(pairs)]
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO scores VALUES (?, ?)", rows)
    connection.execute("COMMIT")
    connection.close()
    return [logit for _, logit in rows]


def write_layout_2(path, pairs, fingerprint):
    """Write a score file in layout 2, with one model, and return its scores."""
    scores = write_layout_1(path, pairs, fingerprint)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "first_used INTEGER NOT NULL, last_used INTEGER NOT NULL)"
    )
    connection.execute("INSERT INTO models VALUES (0, '', '', 5, 5), (1, ?, 'a', 6, 7)", (fingerprint,))
    connection.execute("ALTER TABLE scores ADD COLUMN model INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE scores SET model = 1")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    return scores
