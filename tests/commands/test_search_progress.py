"""The bar of a search, on a pseudo-terminal of a given width."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import threading
import time

import numpy as np
import pytest

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


def search(reranker, *, queries=6, batch=2, most=50, labels=40):
    """Batches of queries that need fewer labels than they might."""
    done = bought = 0
    with search_bar(queries, reranker=reranker, most_labels=most) as report:
        while done < queries:
            if reranker is not None:
                reranker.predict([("query", "passage")] * batch * labels)
                bought += batch * labels
            done += batch
            report(done, bought)


@pytest.fixture
def terminal(monkeypatch):
    """Run a function with standard error on a terminal of a width, and give what the terminal showed, line by line."""

    def shown(columns, function):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        output = []

        def read():
            try:
                while data := os.read(master, 4096):
                    output.append(data)
            except OSError:
                pass  # the other end is closed

        reader = threading.Thread(target=read)
        reader.start()
        with open(slave, "w") as stream, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            function()
        reader.join(timeout=10)
        os.close(master)
        return [line for line in re.split(r"[\r\n]+", b"".join(output).decode()) if line.strip()]

    return shown


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_the_line_fits_the_terminal(terminal, columns):
    lines = terminal(columns, lambda: search(Scorer()))
    assert lines and max(map(len, lines)) <= columns


def test_labels_are_counted_while_the_reranker_works(terminal):
    lines = terminal(40, lambda: search(Scorer()))
    counts = [int(line.split("/")[0]) for line in lines]
    assert set(counts) > {0, 80, 160, 240}, "it moves between the ends of batches"
    assert counts == sorted(counts)
    assert lines[0].startswith("0/300 labels, 0/6 queries ")
    assert any(line.startswith("80/280 labels, 2/6 queries ") for line in lines), "the total is what is still possible"
    assert lines[-1].startswith("240/240 labels, 6/6 queries ")


def test_a_log_has_a_line_now_and_then_and_nothing_of_a_bar(monkeypatch):
    log, reranker = io.StringIO(), Scorer()
    monkeypatch.setattr(sys, "stderr", log)
    search(reranker)
    assert log.getvalue() == "" and reranker.on_progress is None  # shorter than the time between two lines
    monkeypatch.setattr("tour_pyserini.search.LOG_EVERY", 0.0)
    search(Scorer())
    assert log.getvalue().splitlines() == [f"{n}/6 queries, {40 * n} labels" for n in (2, 4, 6)]
