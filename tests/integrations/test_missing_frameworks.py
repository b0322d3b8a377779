"""Where a framework is not installed, the error names the extra that installs it."""

import importlib
import sys

import pytest

from tour_pyserini import TourError


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("terrier_transformers", "pyterrier", "pyterrier"),
        ("langchain_retriever", "langchain_core", "langchain"),
        ("llamaindex_retriever", "llama_index.core", "llama-index"),
        ("haystack_component", "haystack", "haystack"),
        ("mteb_model", "mteb", "mteb"),
    ],
)
def test_the_extra_is_named(monkeypatch, module, package, extra):
    name = f"tour_pyserini.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # its import fails
    with pytest.raises(TourError, match=rf'pip install "tour_pyserini\[{extra}\]"'):
        importlib.import_module(name)
