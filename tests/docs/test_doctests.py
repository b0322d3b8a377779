"""The examples in docstrings give what they say."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import tour_pyserini

ROOT = Path(tour_pyserini.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in ROOT.rglob("*.py")
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
