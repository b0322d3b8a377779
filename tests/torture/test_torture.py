"""A short run of the campaign; `make torture` runs all of it."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_a_short_campaign_has_no_failure():
    command = [sys.executable, str(Path(__file__).parent), "--seed", "7", "--share", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    total = next(line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    assert int(total[1]) > 100 and total[2] == "0"
