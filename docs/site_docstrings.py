"""How the API reference reads this package's docstrings: a Griffe extension, used by mkdocs.yml."""

import ast
import re
import textwrap
from typing import Any

import griffe

# Functions that make a field, and the position of its help text among their arguments.
FIELD_MAKERS = {"setting": 1, "option": 1}
# A section `Example:` and its indented lines.
EXAMPLE = re.compile(r"^Examples?:\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)


class PlainDocstrings(griffe.Extension):
    """Shows the code of `Example:` as code, and the help text of a field as its docstring."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Mend the docstring of an object, once it was read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value + "\n").rstrip()
        elif obj.is_attribute and (text := _help_text(obj)):
            obj.docstring = griffe.Docstring(text, parent=obj)


def _fenced(match: re.Match[str]) -> str:
    code = textwrap.dedent(match[1]).replace("  # doctest: +SKIP", "").strip("\n")
    language = "pycon" if code.startswith(">>>") else "python"
    block = f"```{language}\n{code}\n```\n"
    return "Example:\n" + textwrap.indent(block, "    ") + "\n"


def _help_text(obj: griffe.Object) -> str | None:
    """The second argument of `setting(default, help, ...)` or `option(default, help, ...)`, as a sentence."""
    try:
        call = ast.parse(str(getattr(obj, "value", None)), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        text = ast.literal_eval(call.args[FIELD_MAKERS[call.func.id]])
    except (SyntaxError, ValueError, KeyError, IndexError):
        return None
    return f"{text[:1].upper()}{text[1:]}." if text else None
