"""One line of a BEIR corpus."""

import json
from typing import Any, NamedTuple

ID_FIELDS = ("_id", "id", "docid")
TEXT_FIELDS = ("text", "contents")


class Document(NamedTuple):
    """A document as the corpus gives it; title and text may be empty."""

    docid: str
    title: str
    text: str


def parse_document(line: bytes) -> Document:
    """The document on one line (UTF-8 JSON, with or without its line end).

    Raises:
        ValueError: with the reason alone; the caller knows file and line.
    """
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    docid = _first(record, ID_FIELDS)
    if isinstance(docid, bool) or not isinstance(docid, str | int) or docid == "":
        raise ValueError(f"has no id (expected one of {', '.join(ID_FIELDS)})")
    text = _first(record, TEXT_FIELDS)
    if not isinstance(text, str):
        raise ValueError(f"has no text (expected one of {', '.join(TEXT_FIELDS)})")
    title = record.get("title")
    if not isinstance(title, str | None):
        raise ValueError("has a title that is not a string")
    document = Document(str(docid), title or "", text)
    # JSON can escape half of a surrogate pair, which no tokenizer takes; only such lines pay for the repair.
    return Document(*map(_whole, document)) if b"\\ud" in line.lower() else document


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
