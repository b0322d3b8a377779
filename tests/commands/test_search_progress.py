"""The bar of a search, on a pseudo-terminal of a given width, and its lines in a log."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import time

import numpy as np

from tour_pyserini.search import search_bar


class Scorer:
    """A re-ranker that takes its time and reports twenty pairs at once."""

    on_progress = None

    def predict(self, pairs):
        for _ in pairs[::20]:
            if self.on_progress is not None:
                time.sleep(0.12)  # the bar is drawn ten times per second at most
                self.on_progress(20)
        return np.zeros(len(pairs))


def search(reranker):
    """Three batches of two queries, which need 40 labels each and might have needed 50."""
    with search_bar(6, reranker=reranker, most_labels=50) as report:
        for done in (2, 4, 6):
            reranker.predict([("query", "passage")] * 80)
            report(done, 40 * done)


def test_labels_are_counted_on_one_line_that_fits_the_terminal(monkeypatch):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(slave, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stream)
        search(Scorer())
        output = b""
        while b"240/240" not in output:  # a busy system hands it over in parts
            output += os.read(master, 1 << 16)
    os.close(master)
    lines = [line for line in re.split(r"[\r\n]+", output.decode()) if line.strip()]
    assert lines and max(map(len, lines)) <= 40
    counts = [int(line.split("/")[0]) for line in lines]
    assert set(counts) >= {0, 80, 160, 240} and counts == sorted(counts)
    assert set(counts) - {0, 80, 160, 240}  # it moves between the ends of batches
    totals = [line.split()[0] for line in lines]
    assert totals[0] == "0/300" and "80/280" in totals and totals[-1] == "240/240"  # what is still possible


def test_a_log_has_a_line_now_and_then_and_nothing_of_a_bar(monkeypatch):
    log, reranker = io.StringIO(), Scorer()
    monkeypatch.setattr(sys, "stderr", log)
    search(reranker)
    assert log.getvalue() == "" and reranker.on_progress is None  # shorter than the time between two lines
    monkeypatch.setattr("tour_pyserini.search.LOG_EVERY", 0.0)
    search(Scorer())
    assert log.getvalue().splitlines() == [f"{n}/6 queries, {40 * n} labels" for n in (2, 4, 6)]
