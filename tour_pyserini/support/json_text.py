"""Parsing JSON that may come from anybody."""

import json
import re
from typing import Any

_DEEPEST = 500  # levels of lists and objects in JSON
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{])|([\]}])', re.DOTALL)


def parse_json(text: str) -> Any:
    """The value, as `json.loads` gives it.

    Raises:
        ValueError: if it is not JSON.
        RecursionError: if it is nested deeply. Python does not always notice that by itself: where Java runs, the stack
            is smaller, and 3.13's parser ends the process.
    """
    if text.count("[") + text.count("{") > _DEEPEST:  # else it cannot be that deep
        depth = 0
        for bracket in _BRACKETS.finditer(text):
            depth += (bracket[1] is not None) - (bracket[2] is not None)
            if depth > _DEEPEST:
                raise RecursionError("JSON is nested too deeply")
    return json.loads(text)
