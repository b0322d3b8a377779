"""Every format that the commands read: how to make a valid file, and how to read it in this process.

`READERS[name]` is a `Reader`. A test writes a valid folder once, damages `reader.file` with `mutations.mutated`, reads
it, and asks `fault` whether what happened is allowed: a result, or one `TourError` of one short sentence.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from file_commands import (
    answers_with,
    compare_with,
    measure_predictions,
    plan_experiment,
    read_index_record,
    read_settings,
    read_trace,
    report_experiment,
    run_command,
    search_phrases,
    search_with,
    train_examples,
    use_adapter,
    use_scores,
)
from valid_files import (
    write_adapter_file,
    write_archive_of_runs,
    write_collection,
    write_experiment,
    write_index_record,
    write_json_vectors,
    write_phrases,
    write_record_of_run,
    write_scores,
    write_settings,
    write_trace,
    write_training_examples,
)

from tour_pyserini.errors import TourError

LONGEST_MESSAGE = 600  # characters, with the path; what is quoted from a file has at most 200


class Reader(NamedTuple):
    """A format.

    Attributes:
        kind: what `mutations.mutated` needs to know.
        file: the file in the folder that is damaged.
        read: reads it, given the folder, through the public function or the command.
        prepare: writes what `file` needs beyond `write_collection`.
    """

    kind: str
    file: str
    read: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda folder: None


def write_valid(reader: Reader, folder: Path) -> Path:
    """Write a folder whose files are all valid; gives the path of the file to damage."""
    write_collection(folder)
    with contextlib.redirect_stderr(io.StringIO()):
        reader.prepare(folder)
    return folder / reader.file


def fault(reader: Reader, folder: Path) -> str | None:
    """Read the folder; None if it was read or refused in one sentence, otherwise what went wrong."""
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            reader.read(folder)
    except TourError as error:
        message = str(error)
        if "\n" in message:
            return f"a message of several lines: {message[:300]!r}"
        return f"a message of {len(message)} characters" if len(message) > LONGEST_MESSAGE else None
    except SystemExit as ended:
        return None if ended.code in (0, 2, None) else f"exit code {ended.code}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        logging.disable(logging.NOTSET)
    return None


READERS: dict[str, Reader] = {
    "topics tsv": Reader("lines", "topics.tsv", search_with()),
    "topics jsonl": Reader("json", "topics.jsonl", answers_with("topics.jsonl")),
    "topics dpr": Reader("lines", "dpr.csv", answers_with("dpr.csv")),
    "topics list": Reader("json", "list.json", answers_with("list.json")),
    "topics squad": Reader("json", "squad.json", answers_with("squad.json")),
    "topics results": Reader("json", "results.json", answers_with("results.json")),
    "corpus": Reader("json", "corpus.jsonl", answers_with("topics.jsonl")),
    "qrels beir": Reader("lines", "qrels.tsv", search_with(qrels="qrels.tsv")),
    "qrels trec": Reader("lines", "qrels.trec", compare_with()),
    "run": Reader("lines", "a.trec", compare_with()),
    "record of a run": Reader("json", "a.trec.json", compare_with(), write_record_of_run),
    "splits": Reader("json", "splits.jsonl", compare_with(splits="splits.jsonl")),
    "predictions": Reader("json", "predictions.jsonl", measure_predictions),
    "retrieval results": Reader(
        "json",
        "results.json",
        lambda folder: run_command("convert", "run", input=folder / "results.json", output=folder / "converted.trec"),
    ),
    "trace": Reader("json", "trace.jsonl", read_trace, write_trace),
    "settings": Reader("toml", "settings.toml", read_settings, write_settings),
    "experiment": Reader("yaml", "small.yaml", plan_experiment, write_experiment),
    "archive": Reader("xz:lines", "runs/small/toy.tiny.flat.runs.xz", report_experiment, write_archive_of_runs),
    "archive records": Reader("xz:json", "runs/small/toy.tiny.flat.runs.xz", report_experiment, write_archive_of_runs),
    "encoded queries": Reader("bytes", "encoded/embedding.pkl", search_with()),
    "docid": Reader("lines", "index/docid", search_with()),
    "record of an index": Reader("json", "index/tour-index.json", read_index_record, write_index_record),
    "vectors jsonl": Reader("json", "vectors/part.jsonl", search_with(vectors="vectors"), write_json_vectors),
    "index": Reader("bytes", "index/index", search_with(), write_index_record),  # damage is found by its checksum
    "phrases record": Reader("json", "phrases/tour-phrases.json", search_phrases, write_phrases),
    "phrases docid": Reader("lines", "phrases/docid", search_phrases, write_phrases),
    "phrases rows": Reader("bytes", "phrases/rows", search_phrases, write_phrases),
    "phrases vectors": Reader("bytes", "phrases/vectors", search_phrases, write_phrases),
    "phrases index": Reader("bytes", "phrases/index", search_phrases, write_phrases),
    "score cache": Reader("bytes", "scores.sqlite", use_scores, write_scores),
    "adapter": Reader("bytes", "a.adapter", use_adapter, write_adapter_file),
    "training examples": Reader("json", "train.jsonl", train_examples, write_training_examples),
}
