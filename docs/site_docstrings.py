"""How the API reference reads this package's docstrings: a Griffe extension, used by mkdocs.yml."""

import ast
import dataclasses
import importlib
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import griffe

# Functions that make a field: `setting(default, help, ...)` and `option(default, help, ...)`.
FIELD_MAKERS = ("setting", "option", "_option")
# ... and those that take it from another request, whose source does not show it.
FIELD_COPIERS = ("same_option", "_same")
REQUIRED = "dataclasses.MISSING"
# A section `Example:` and its indented lines.
EXAMPLE = re.compile(r"^Examples?:\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)


class PlainDocstrings(griffe.Extension):
    """Shows the code of `Example:` as code, and a field's default and help text instead of the call that made it."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Mend an object, once it was read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value + "\n").rstrip()
        value = getattr(obj, "value", None)
        if isinstance(obj, griffe.Attribute) and isinstance(value, griffe.ExprCall):
            if str(value.function) in FIELD_MAKERS:
                _mend_field(obj, value.arguments)
            elif str(value.function) in FIELD_COPIERS:
                _mend_copy(obj)


def _mend_field(field: griffe.Attribute, arguments: Sequence[str | griffe.Expr]) -> None:
    plain = [argument for argument in arguments if not isinstance(argument, griffe.ExprKeyword)]
    field.value = plain[0] if plain and str(plain[0]) != REQUIRED else None
    if len(plain) > 1 and not field.docstring and (text := _text(str(plain[1]))):
        field.docstring = griffe.Docstring(f"{text[:1].upper()}{text[1:]}.", parent=field)


def _mend_copy(field: griffe.Attribute) -> None:
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


def _text(source: str) -> str:
    """The text of a string in source code; names in an f-string stay names."""
    node = ast.parse(source, mode="eval").body
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else ast.unparse(getattr(part, "value", part))
        for part in parts
    )
