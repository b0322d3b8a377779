"""How the API reference reads this package's docstrings: a Griffe extension, used by mkdocs.yml."""

import dataclasses
import importlib
import re
import textwrap
from typing import Any

import griffe

# Functions that make a field of settings or of a request.
FIELD_MAKERS = {
    *("setting", "option", "_option"),
    *("_input", "_encoder", "_index", "_phrase", "_paired", "_texts"),
    *("_model", "_validation", "_training", "_query_side", "_candidates", "_reranker"),
}
# A section `Example:` and its indented lines.
EXAMPLE = re.compile(r"^Examples?:\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)


class PlainDocstrings(griffe.Extension):
    """Shows the code of `Example:` as code, and a field's default and help text instead of the call that made it."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Mend an object, once it was read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value + "\n").rstrip()
        value = getattr(obj, "value", None)
        is_call = isinstance(obj, griffe.Attribute) and isinstance(value, griffe.ExprCall)
        if is_call and str(value.function) in FIELD_MAKERS:
            _mend_field(obj)


def _mend_field(field: griffe.Attribute) -> None:
    assert field.parent is not None
    request = getattr(importlib.import_module(field.module.path), field.parent.name)
    (made,) = (item for item in dataclasses.fields(request) if item.name == field.name)
    field.value = None if made.default is dataclasses.MISSING else repr(made.default)
    text = made.metadata["help"]
    field.docstring = field.docstring or griffe.Docstring(f"{text[:1].upper()}{text[1:]}.", parent=field)


def _fenced(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[1]).replace("  # doctest: +SKIP", "").strip("\n")
    language = "pycon" if code.startswith(">>>") else "python"
    block = f"```{language}\n{code}\n```\n"
    return "Example:\n" + textwrap.indent(block, "    ") + "\n"
