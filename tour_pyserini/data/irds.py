"""Data sets by name, through ir_datasets: `irds:beir/scifact/test` stands for its documents, topics or judgements.

ir_datasets downloads a data set the first time, and keeps it in the folder `IR_DATASETS_HOME`.
"""

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.data.input_files import IRDS
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import atomic_write, cache_home
from tour_pyserini.support.packages import import_optional

if TYPE_CHECKING:
    from ir_measures import Qrel

log = logging.getLogger(__name__)

_NOUNS = {"docs": "documents", "queries": "topics", "qrels": "judgements"}


@contextlib.contextmanager
def data_set(spec: str, part: str) -> Iterator[Any]:
    """The data set `irds:NAME`, which has this part; errors inside the block become one sentence."""
    name = spec.removeprefix(IRDS)
    library = import_optional("ir_datasets", extra="irds")
    try:
        found = library.load(name)
    except KeyError:
        raise TourError(f"ir_datasets knows no data set {name!r}; `ir_datasets list` prints all names.") from None
    if not found.has(part):
        raise TourError(f"the data set {spec} has no {_NOUNS[part]}; give the name of another part of it.")
    try:
        yield found
    except TourError:
        raise
    except Exception as error:  # of a download, of its file, of its licence: ir_datasets raises many types
        reason = f"({first_line(error):.200}); check the network"
        raise TourError(f"the {_NOUNS[part]} of {spec} cannot be had {reason}.") from error


def irds_topics(spec: str) -> dict[int | str, dict[str, Any]]:
    """The topics of a data set by id, in its order, with answers where it has them; ids are texts."""
    with data_set(spec, "queries") as opened:
        return {
            query.query_id: {"title": query.default_text().strip()}
            | ({"answers": list(query.answers)} if hasattr(query, "answers") else {})
            for query in opened.queries_iter()
        }


def irds_qrels(spec: str) -> list["Qrel"]:
    """The judgements of a data set."""
    from ir_measures import Qrel

    with data_set(spec, "qrels") as opened:
        return [Qrel(qrel.query_id, qrel.doc_id, qrel.relevance) for qrel in opened.qrels_iter()]


def irds_corpus(spec: str) -> Path:
    """The documents of a data set as JSON lines in the cache folder, where they are written once."""
    path = cache_home() / "irds" / f"{spec.removeprefix(IRDS).replace('/', '--')}.jsonl"
    if not path.is_file():
        with data_set(spec, "docs") as opened, atomic_write(path) as file:
            log.warning("the documents of %s are written to %s, once", spec, path)
            for docid, title, text, fields in map(irds_document, opened.docs_iter()):
                file.write(json.dumps({"_id": docid, "title": title, "text": text, **fields}) + "\n")
    return path


def irds_document(found: Any) -> tuple[str, str, str, dict[str, Any]]:
    """Docid, title, text and further fields of a document; where it has no such text, all that it says is the text."""
    text = next((getattr(found, name) for name in ("text", "body") if hasattr(found, name)), None)
    plain = {name: value for name, value in found._asdict().items() if isinstance(value, str | int | float)}
    fields = {name: value for name, value in plain.items() if name not in ("doc_id", "title", "text", "body")}
    if text is None:
        return found.doc_id, "", found.default_text(), fields
    return found.doc_id, getattr(found, "title", None) or "", text, fields
