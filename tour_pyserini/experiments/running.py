"""The runs of an experiment: made where they do not exist yet, with indexes and judgements, and kept in archives."""

import gzip
import json
import lzma
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.answers import AnswersRequest, judge
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.input_files import plain_file, read_json_object, read_lines
from tour_pyserini.data.json_results import read_predictions
from tour_pyserini.data.judgements import read_qrels, write_qrels
from tour_pyserini.data.run_records import PASSAGE_INDEX, PHRASE_INDEX, predictions_path, read_record, record_path
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.data.texts import corpus_file
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import answers_needed
from tour_pyserini.experiments.definition import Setup
from tour_pyserini.experiments.planning import PlannedIndex, PlannedSearch, Workspace, plan_index, plan_search
from tour_pyserini.index import IndexRequest, build_index
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.support.files import atomic_replace, atomic_write, content_hash, sha256

if TYPE_CHECKING:
    from ir_measures import ScoredDoc

# Fields of the search command's record that are kept; the others have paths of this machine or repeat the settings.
_KEPT_FIELDS = ("config", "algorithm", "versions", "models", "costs")


def steps(
    at: Workspace, chosen: Sequence[Setup], conditions: Sequence[str] = (), *, write: bool = True
) -> list[PlannedSearch]:
    """The runs of setups, whether they exist or not.

    Args:
        at: the experiment, and where everything is.
        chosen: the setups.
        conditions: names of conditions; all conditions if there are none.
        write: whether files of judgements are written for collections with a limit.
    """
    names = dict.fromkeys(setup.collection for setup in chosen)
    qrels = {name: searched_qrels(at, name, write=write) for name in names}
    return [
        plan_search(at, setup, name, qrels=qrels[setup.collection])
        for setup in chosen
        for name in at.experiment.conditions_of(setup, conditions)
    ]


def searched_qrels(at: Workspace, name: str, *, write: bool = True) -> Path | None:
    """The judgements whose topics are searched in a collection; None if all topics are searched.

    If the collection has a limit, a new file has the judgements of that many topics, evenly spaced in their order; it
    is written with `write`.
    """
    collection = at.experiment.collections[name]
    given = Path(at.expanded(collection.qrels)) if collection.qrels else None
    if collection.limit is None:
        return given
    if write:
        qrels = read_qrels(given or judge_answers(at, name))
        topics = list(dict.fromkeys(qrel.query_id for qrel in qrels))
        count = min(collection.limit, len(topics))
        chosen = {topics[number * len(topics) // count] for number in range(count)}
        write_qrels([qrel for qrel in qrels if qrel.query_id in chosen], at.qrels(name))
    return at.qrels(name)


def judge_answers(at: Workspace, name: str, runs: Sequence[Path] = ()) -> Path:
    """Judge the passages of a collection, or those that runs retrieved, by the answers that they contain."""
    collection, output = at.experiment.collections[name], at.qrels(name)
    topics, corpus = at.expanded(collection.topics), at.expanded(collection.corpus)
    judge(AnswersRequest(topics=topics, corpus=corpus, output=str(output), runs=runs), progress=True)
    return output


def commands(at: Workspace, planned: Sequence[PlannedSearch]) -> list[str]:
    """The equivalent command lines, indexes first."""
    return [*(index.command() for index in _indexes(at, planned)), *(one.command() for one in planned)]


def make_runs(at: Workspace, planned: Sequence[PlannedSearch], *, report: Callable[[str], object]) -> int:
    """Make the runs that do not exist with these settings and inputs, and the indexes that they need.

    Args:
        at: the experiment, and where everything is.
        planned: `steps` of the experiment.
        report: called with one line before and after each search.

    Returns:
        How many runs were made.
    """
    answers = answers_needed(at.experiment.measures)
    # All requests are made before the first search, so that a mistake in the last condition is reported at once.
    requests = [(one, one.request()) for one in planned]
    missing = [(one, request) for one, request in requests if not _run_exists(at, one, request.config, answers)]
    for index in [index.request() for index in _indexes(at, [one for one, _ in missing])]:
        _make_index(index)
    opener, before = Opener(), None
    for number, (one, request) in enumerate(missing, start=1):
        if before is not None and before[:2] != one.setup[:2]:
            opener = Opener()  # another collection or encoder shares nothing with the last one
        before = one.setup
        report(f"[{number}/{len(missing)}] {one.output.name}")
        summary = search(request, opener=opener, progress=True)
        report(f"{summary.output}: {summary.costs}")
        _pack_run(summary.output, one, answers=answers)
    return len(missing)


def _pack_run(run: Path, planned: PlannedSearch, *, answers: int) -> None:
    """Compress the run of a search, write its record beside it, and remove the originals.

    The record has the first predicted answers of each question, as many as the measures of the experiment need.
    """
    made = read_json_object(record_path(run))
    record: dict[str, Any] = {"settings": planned.settings, "files": _hashes(planned.inputs)}
    record |= {key: made[key] for key in _KEPT_FIELDS if key in made}
    if answers:
        record["answers_kept"] = answers
        predictions = read_predictions(predictions_path(run))
        record["answers"] = {qid: predicted[:answers] for qid, predicted in predictions.items()}
    # Without a name and a time in its header, the same content gives the same bytes.
    with (
        atomic_write(planned.output, "wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        packed.write(run.read_bytes())
    with atomic_write(record_path(planned.output)) as file:
        file.write(json.dumps({**record, "run": {"sha256": sha256(planned.output)}}, ensure_ascii=False) + "\n")
    for path in (run, record_path(run), predictions_path(run)):
        path.unlink(missing_ok=True)


def _run_exists(at: Workspace, planned: PlannedSearch, config: TourConfig, answers: int) -> bool:
    """Whether the run exists, was made with these settings, inputs and version of its method, and has the answers."""
    if planned.output.exists():
        record: Mapping[str, Any] | None = read_record(planned.output)
    else:
        record = Archive(at.archive(planned.setup)).records.get(planned.condition)
    if record is None or record.get("answers_kept", 0) < answers:
        return False
    made = [record.get(name) for name in ("settings", "algorithm", "files")]
    if made != [planned.settings, config.algorithm, _hashes(planned.inputs)]:
        return False
    try:
        # A setting that did not exist when the record was written has its default.
        return TourConfig.parse(str(record.get("config"))) == config
    except TourError:
        return False


def _hashes(inputs: Mapping[str, Path]) -> dict[str, str]:
    return {role: content_hash(path) for role, path in inputs.items()}


def _indexes(at: Workspace, planned: Sequence[PlannedSearch]) -> list[PlannedIndex]:
    """Each index that the runs need, once; an index that gives vectors to another one comes first."""
    needed: dict[Path, PlannedIndex] = {}
    for one in planned:
        for kind in (at.experiment.indexes[one.setup.index_kind].vectors, one.setup.index_kind):
            if kind and (index := plan_index(at, one.setup, kind)):
                needed.setdefault(index.folder, index)
    return list(needed.values())


def _make_index(request: IndexRequest) -> None:
    """Build an index; if it exists, check that it was built as the request describes.

    Raises:
        TourError: if the existing index was built from another corpus or with other settings.
    """
    folder = Path(request.index)
    described = folder / (PHRASE_INDEX if request.phrases else PASSAGE_INDEX)
    if not described.is_file():
        build_index(request, progress=True)
        return
    record = read_json_object(described)
    made = {**record["settings"], "index": record["index"]}
    for name, value in _expected_settings(request).items():
        if made.get(name) != value:
            what = {"corpus_sha256": "corpus", "index": "kind of index"}.get(name, name)
            raise TourError(f"{folder} was built with another {what}; remove it, or give --indexes DIR.")


def _expected_settings(request: IndexRequest) -> dict[str, Any]:
    """The settings that the request's index must have."""
    corpus = Path(str(request.corpus))
    shared = {"corpus_sha256": content_hash(plain_file(corpus_file(corpus) or corpus)), "index": request.faiss_kind()}
    # torch and Pyserini take seconds to start.
    if request.phrases:
        from tour_pyserini.phrases.phrase_index_building import phrase_settings

        settings = phrase_settings(request, request.open_corpus())
        # The path of the encoder and the number of passages per chunk do not change the index.
        return shared | {name: settings[name] for name in settings if name not in ("encoder", "chunk")}
    from tour_pyserini.encoders.loading import encoder_fingerprint

    trusted = request.trust_remote_code
    found = encoder_fingerprint(request.encoder, request.encoder_class, trust_remote_code=trusted)
    given = {name: getattr(request, name) for name in ("pooling", "l2_norm", "truncate_dim", "max_length")}
    if request.precision == "int8":  # indexes of older versions are fp32 and do not say so
        given["precision"] = request.precision
    known = {name: value for name, value in given.items() if value is not None}
    return shared | known | {"encoder_fingerprint": found, "prefix": request.prefix}


class Archive:
    """The runs of a setup: a line with their records, then lines `query<TAB>condition<TAB>docids`.

    A file that does not exist has no runs.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _content(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, list[str]]]]:
        """The records by condition, and the docids of each query, best first, by condition."""
        lines = read_lines(self.path) if self.path.is_file() else iter(())
        records = first.json_object() if (first := next(lines, None)) else {}
        docids: dict[str, dict[str, list[str]]] = {condition: {} for condition in records}
        for line in lines:
            query, condition, found = line.text.split("\t")
            docids[condition][query] = found.split()
        return records, docids

    @property
    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """The record of each condition."""
        return self._content[0]

    def stored_run(self, condition: str) -> list["ScoredDoc"]:
        """The hits of a condition; their scores only express their order."""
        from ir_measures import ScoredDoc

        return [
            ScoredDoc(query, docid, float(score))
            for query, docids in self._content[1][condition].items()
            for docid, score in zip(docids, range(len(docids), 0, -1), strict=True)
        ]

    def write(self, runs: Mapping[str, Path], *, keep: Collection[str] = ()) -> None:
        """Write the runs of conditions, and those that only the file has; the same runs give the same bytes.

        Args:
            runs: runs with their records by condition.
            keep: conditions whose runs stay in the file, if they are not given.
        """
        records, lists = ({name: part[name] for name in part if name in keep} for part in self._content)
        for condition, run in runs.items():
            record = read_record(run)
            if record is None:
                raise TourError(f"{run} does not match its record; make the run again.")
            records[condition] = {key: value for key, value in record.items() if key != "run"}
            lists[condition] = {query: [hit.doc_id for hit in hits] for query, hits in read_rankings(run).items()}
        with atomic_replace(self.path) as partial, lzma.open(partial, "wt", preset=6, encoding="utf-8") as file:
            file.write(json.dumps(records, ensure_ascii=False) + "\n")
            for query in dict.fromkeys(query for docids in lists.values() for query in docids):
                for condition, docids in lists.items():
                    if query in docids:
                        file.write(f"{query}\t{condition}\t{' '.join(docids[query])}\n")
        del self._content
