"""Each public name can be the first that a program imports, whatever Java the system has."""

import subprocess
import sys

import pytest

import tour_pyserini


@pytest.mark.parametrize("name", ["TourPrf", "TourQueryEncoder"])
def test_a_name_can_be_imported_first(name):
    assert name in tour_pyserini.__all__
    done = subprocess.run(
        [sys.executable, "-c", f"from tour_pyserini import {name}"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
