"""Every format that the commands read: how to make a valid file, and how to read it in this process.

`READERS[name]` is a `Reader`. A test writes a valid folder once, damages `reader.file` with `mutations.mutated`, reads
it, and asks `fault` whether what happened is allowed: a result, or one `TourError` of one short sentence.
"""

import contextlib
import io
import json
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
from toy_collection import DIMENSION, ToyCollection, unit

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


def write_collection(folder: Path) -> None:
    """A corpus, topics of every format, judgements, two runs with records, an index and encoded queries."""
    from tour_pyserini.encoders.encoded_queries import write_encoded_queries

    folder.mkdir(parents=True, exist_ok=True)
    toy = ToyCollection(folder)
    documents = [{"_id": docid, "title": f"title {docid}", "text": text} for docid, text in toy.texts.items()]
    _write_lines(folder / "corpus.jsonl", [json.dumps(document) for document in documents])
    pairs = list(zip(toy.q_ids, toy.queries, strict=True))
    _write_lines(folder / "topics.tsv", [f"{qid}\t{text}" for qid, text in pairs])
    answers = {qid: [f"passage d{i}", "d1"] for i, (qid, _) in enumerate(pairs)}
    records = [{"_id": qid, "question": text, "answers": answers[qid]} for qid, text in pairs]
    _write_lines(folder / "topics.jsonl", [json.dumps(record) for record in records])
    _write_lines(folder / "dpr.csv", [f"{text}\t{answers[qid]!r}" for qid, text in pairs])
    (folder / "list.json").write_text(json.dumps(records))
    answered = [{"id": qid, "question": text, "answers": [{"text": "d1", "answer_start": 0}]} for qid, text in pairs]
    (folder / "squad.json").write_text(json.dumps({"data": [{"paragraphs": [{"context": "d1", "qas": answered}]}]}))
    contexts = [{"docid": f"d{i}", "score": str(9 - i), "text": "t", "has_answer": False} for i in range(3)]
    results = {qid: {"question": text, "answers": answers[qid], "contexts": contexts} for qid, text in pairs}
    (folder / "results.json").write_text(json.dumps(results))
    _write_lines(folder / "qrels.tsv", ["query-id\tcorpus-id\tscore", *(f"{qid}\td1\t1" for qid in toy.q_ids)])
    _write_lines(folder / "qrels.trec", [f"{qid} 0 d{i} {i % 3}" for qid in toy.q_ids for i in range(4)])
    for name in ("a", "b"):
        hits = [f"{qid} Q0 d{i} {i + 1} {9 - i / 2:.6f} {name}" for qid in toy.q_ids for i in range(5)]
        _write_lines(folder / f"{name}.trec", hits)
    _write_lines(folder / "splits.jsonl", [json.dumps({"qid": qid, "labels": ["total"]}) for qid in toy.q_ids])
    predictions = [json.dumps({"qid": qid, "answer": "d1", "score": i / 2}) for qid in toy.q_ids for i in range(3)]
    _write_lines(folder / "predictions.jsonl", predictions)
    vectors = np.stack([toy.encoder.encode(query) for query in toy.queries])
    write_encoded_queries(folder / "encoded", toy.q_ids, toy.queries, vectors)


# --- commands in this process ---


def run_command(name: str, *words: object, **flags: object) -> None:
    """Run a command of the package in this process; `flags` are its flags."""
    import importlib

    main = importlib.import_module(f"tour_pyserini.{name}").main
    given = [str(word) for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]
    main([*map(str, words), *given])


def search(folder: Path, **flags: object) -> None:
    """Search with Rocchio and encoded queries, which needs no model."""
    given = {
        "topics": folder / "topics.tsv",
        "index": folder / "index",
        "encoded_queries": folder / "encoded",
        "method": "rocchio",
        "output": folder / "out" / "run.trec",
        **flags,
    }
    run_command("search", **given)
    for line in Path(str(given["output"])).read_text(encoding="utf-8").split("\n")[:-1]:
        if len(line.split()) != 6:
            raise AssertionError(f"a line of the run has not six columns: {line[:100]!r}")


def compare_with(qrels: str = "qrels.trec", **files: str) -> Callable[[Path], object]:
    """Compare the two runs; files are named in the folder."""

    def read(folder: Path) -> None:
        flags = {flag: folder / name for flag, name in files.items()}
        run_command(
            "compare", folder / qrels, folder / "a.trec", folder / "b.trec", baseline=folder / "b.trec", **flags
        )

    return read


def search_with(**files: str) -> Callable[[Path], object]:
    """Search; files are named in the folder."""
    return lambda folder: search(folder, **{flag: folder / name for flag, name in files.items()})


def answers_with(topics: str) -> Callable[[Path], object]:
    """Judge a run and the whole corpus by answers."""

    def read(folder: Path) -> None:
        for regex in ("off", "on"):
            flags = {"corpus": folder / "corpus.jsonl", "output": folder / "out.qrels", "regex": regex, "processes": 1}
            run_command("answers", topics=folder / topics, **flags)

    return read


def measure_predictions(folder: Path) -> None:
    """Measure predicted answers of one run."""
    words = ["--measures", "Success@1", "EM@1", "--predictions", folder / "predictions.jsonl"]
    run_command("compare", folder / "qrels.trec", folder / "a.trec", *words, topics=folder / "topics.jsonl")


# --- files that need more than the collection ---


def write_record_of_run(folder: Path) -> None:
    """The record beside a run, made by a search."""
    search(folder, output=folder / "a.trec")


def write_trace(folder: Path) -> None:
    """A trace."""
    search(folder, trace=folder / "trace.jsonl")


def read_trace(folder: Path) -> None:
    """The page of a trace."""
    files = {"trace": "trace.jsonl", "topics": "topics.tsv", "corpus": "corpus.jsonl", "qrels": "qrels.trec"}
    run_command("page", **{flag: folder / name for flag, name in files.items()}, output=folder / "page.html")


def write_settings(folder: Path) -> None:
    """A TOML file of settings."""
    from tour_pyserini import TourConfig

    TourConfig("rocchio").save(folder / "settings.toml")


def read_settings(folder: Path) -> None:
    """Read the settings; they are not used, because a valid number may ask for years of work."""
    from tour_pyserini import TourConfig

    TourConfig.load(folder / "settings.toml")


EXPERIMENT = """title: Small
measures: [nDCG@10, R@100]
hits: 20
collections:
  toy: {corpus: "${DATA}/corpus.jsonl", topics: "${DATA}/topics.tsv", qrels: "${DATA}/qrels.trec", limit: 4}
encoders:
  tiny: {index: {threads: 1}, search: {encoded-queries: "${DATA}/encoded"}}
indexes:
  flat: {name: exact}
rerankers:
  none: {flags: {}}
conditions:
  dense: {flags: {method: dense}}
  rocchio: {name: Rocchio, flags: {method: rocchio}, sweep: {depth: [3, 6]}, only: {indexes: [flat]}}
tables:
  main: {title: Main, conditions: [dense, rocchio-3], baselines: [dense]}
figures:
  labels: {kind: labels, curves: [rocchio], lines: [dense]}
expected:
  toy.tiny.flat: {dense: {nDCG@10: 0.25}}
"""


def write_experiment(folder: Path) -> None:
    """An experiment file, and its index."""
    (folder / "small.yaml").write_text(EXPERIMENT)


def plan_experiment(folder: Path) -> None:
    """List an experiment and plan its searches."""
    flags = {"data": folder, "runs": folder / "runs", "indexes": folder / "indexes"}
    run_command("experiment", folder / "small.yaml", "--list")
    run_command("experiment", folder / "small.yaml", "--dry-run", **flags)


def write_archive_of_runs(folder: Path) -> None:
    """An archive of the runs of the experiment."""
    from tour_pyserini.experiments.archive import write_archive, write_packed

    write_experiment(folder)
    runs = {}
    for name, run in (("dense", "a.trec"), ("rocchio-3", "b.trec")):
        output = folder / "packed" / f"{name}.trec.gz"
        costs = {"queries": 7, "pairs": 3, "seconds": {"search": 0.5}}
        write_packed((folder / run).read_bytes(), output, {"settings": name, "config": "method=dense", "costs": costs})
        runs[name] = output
    (folder / "runs" / "small").mkdir(parents=True, exist_ok=True)
    write_archive(runs, folder / "runs" / "small" / "toy.tiny.flat.runs.xz")


def report_experiment(folder: Path) -> None:
    """Report from an archive, and unpack it."""
    flags = {"data": folder, "runs": folder / "runs", "indexes": folder / "indexes"}
    run_command("experiment", folder / "small.yaml", "--report", **flags, output=folder / "report")
    run_command("experiment", folder / "small.yaml", "--unpack", **flags)


def write_index_record(folder: Path) -> None:
    """The record of an index, as the index command writes it."""
    from tour_pyserini.data.records import PASSAGE_INDEX
    from tour_pyserini.support.files import sha256

    settings = {
        **{"corpus_sha256": sha256(folder / "corpus.jsonl"), "documents": 60, "fields": ["text", "title"]},
        **{"encoder": "default", "encoder_fingerprint": "f" * 64, "encoder_class": "AutoDocumentEncoder"},
        **{
            "pooling": "mean",
            "l2_norm": True,
            "prefix": None,
            "max_length": 256,
            "dimension": DIMENSION,
            "chunk": 1024,
        },
    }
    checksums = {name: sha256(folder / "index" / name) for name in ("index", "docid")}
    record = {"settings": settings, "index": {"kind": "flat"}, "versions": {}, "sha256": checksums}
    (folder / "index" / PASSAGE_INDEX).write_text(json.dumps(record, indent=2))


def read_index_record(folder: Path) -> None:
    """Read the settings of an index, and use its vectors for a search."""
    from tour_pyserini.stores.index_settings import read_index_settings

    read_index_settings(folder / "index")
    search(folder, vectors=folder / "index")


def write_scales(folder: Path) -> None:
    """Scales beside an index."""
    from tour_pyserini.stores.index_scales import IndexScale, write_scale

    write_scale(folder / "index", IndexScale(20.0, "encoder", "reranker", 10, 100, "topics"))


def read_stored_scales(folder: Path) -> None:
    """Read the scales beside an index."""
    from tour_pyserini.stores.index_scales import read_scales

    read_scales(folder / "index")


def write_json_vectors(folder: Path) -> None:
    """Pyserini's encoded corpus as JSON lines."""
    toy = ToyCollection(folder)
    (folder / "vectors").mkdir(exist_ok=True)
    lines = [
        json.dumps({"id": docid, "vector": vector.tolist()})
        for docid, vector in zip(toy.docids, toy.vectors, strict=True)
    ]
    _write_lines(folder / "vectors" / "part.jsonl", lines)


def write_index_of_kind(name: str) -> Callable[[Path], object]:
    """An index of a kind that FAISS's factory knows."""

    def prepare(folder: Path) -> None:
        faiss.omp_set_num_threads(1)
        kind = name.removeprefix("IDMap,")
        index = faiss.index_factory(DIMENSION, kind, faiss.METRIC_INNER_PRODUCT)
        toy = ToyCollection(folder, index=index)
        if kind != name:
            mapped = faiss.IndexIDMap(faiss.IndexFlatIP(DIMENSION))
            mapped.add_with_ids(toy.vectors, np.arange(len(toy.vectors)))
            faiss.write_index(mapped, str(folder / "index" / "index"))

    return prepare


def write_phrases(folder: Path) -> None:
    """A phrase index of three passages, and encoded questions."""
    from tour_pyserini.data.records import PHRASE_INDEX
    from tour_pyserini.data.token_rows import token_rows
    from tour_pyserini.encoders.encoded_queries import write_encoded_queries
    from tour_pyserini.stores.phrases.phrase_index_writing import build_token_index
    from tour_pyserini.support.files import sha256

    target = folder / "phrases"
    target.mkdir(exist_ok=True)
    documents = {"a": "The first prize went to Wilhelm.", "b": "A river runs to the sea.", "c": "Kings of 1066."}
    lines = [json.dumps({"_id": docid, "title": "", "text": text}) for docid, text in documents.items()]
    _write_lines(folder / "passages.jsonl", lines)
    rows = [
        token_rows(text, [match.span() for match in re.finditer(r"\w+", text)], passage=number)[0]
        for number, text in enumerate(documents.values())
    ]
    together = np.concatenate(rows)
    random = np.random.default_rng(5)
    vectors = unit(random, len(together), DIMENSION)
    faiss.write_index(build_token_index(vectors), str(target / "index"))
    (target / "rows").write_bytes(together.tobytes())
    (target / "vectors").write_bytes(vectors.tobytes())
    _write_lines(target / "docid", list(documents))
    settings = {
        **{"corpus_sha256": sha256(folder / "passages.jsonl"), "documents": 3, "encoder": "none", "itemsize": 4},
        **{"encoder_fingerprint": "f", "dimension": DIMENSION, "dtype": "float32"},
    }
    built = {"rows": len(together), "largest_norm": 1.0}
    record = {"settings": settings, "index": {"kind": "flat"}, "built": built, "versions": {}}
    (target / PHRASE_INDEX).write_text(json.dumps(record))
    queries = [f"query {i}" for i in range(7)]
    write_encoded_queries(folder / "encoded", queries, queries, unit(random, len(queries), 2 * DIMENSION))


def search_phrases(folder: Path) -> None:
    """Search phrases without labels."""
    search(
        folder,
        index=folder / "phrases",
        corpus=folder / "passages.jsonl",
        method="dense",
        encoded_queries=folder / "encoded",
    )


def write_scores(folder: Path) -> None:
    """A score cache with a few scores."""
    from tour_pyserini.rerankers.score_cache import CachedReranker

    class Constant:
        fingerprint, name = "constant", "constant"

        def predict(self, pairs: list[tuple[str, str]]) -> np.ndarray:
            return np.arange(len(pairs), dtype=float)

    with contextlib.closing(CachedReranker(Constant(), folder / "scores.sqlite")) as cache:
        cache.predict([(f"query {i}", f"passage {i}") for i in range(40)])


def use_scores(folder: Path) -> None:
    """Every action on a score cache."""
    for action in ("verify", "stats"):
        with contextlib.suppress(TourError):
            run_command("cache", action, cache=folder / "scores.sqlite")
    with contextlib.suppress(TourError):
        run_command("cache", "export", cache=folder / "scores.sqlite", output=folder / "scores.jsonl")


def write_adapter_file(folder: Path) -> None:
    """An adapter of query vectors."""
    from tour_pyserini.encoders.query_adapter import PROBES, QueryAdapter, write_adapter

    random = np.random.default_rng(6)
    left, right, probes = (unit(random, *shape) for shape in [(DIMENSION, 2), (DIMENSION, 2), (len(PROBES), DIMENSION)])
    write_adapter(folder / "a.adapter", QueryAdapter(left, right, probes, {"encoder": "tiny"}))


def use_adapter(folder: Path) -> None:
    """Correct a vector with an adapter."""
    from tour_pyserini.encoders.query_adapter import read_adapter

    read_adapter(folder / "a.adapter").adapt(np.ones((1, DIMENSION), dtype=np.float32))


def train_examples(folder: Path) -> None:
    """Training examples with passages of a corpus."""
    from tour_pyserini.training.training_examples import read_examples

    read_examples(folder / "train.jsonl", folder / "corpus.jsonl", folder / "qrels.trec")


def write_training_examples(folder: Path) -> None:
    """Questions with answers, and their passage by id or as text."""
    own = {"question": "why", "answers": ["sea"], "context": "A river runs to the sea.", "title": "Rivers"}
    by_id = {"_id": "q1", "question": "what", "answers": ["passage"], "gold": "d1"}
    _write_lines(folder / "train.jsonl", [json.dumps(record) for record in (own, by_id, own, by_id)])


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


FAISS_KINDS = (
    "Flat",
    "HNSW4",
    "PQ4x4",
    "SQ8",
    "SQfp16",
    "IVF4,Flat",
    "IVF4,PQ4x4",
    "IVF4,SQ8",
    "PCA4,Flat",
    "IDMap,Flat",
)

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
        lambda folder: run_command("dpr_json", input=folder / "results.json", output=folder / "converted.trec"),
    ),
    "trace": Reader("json", "trace.jsonl", read_trace, write_trace),
    "settings": Reader("toml", "settings.toml", read_settings, write_settings),
    "experiment": Reader("yaml", "small.yaml", plan_experiment, write_experiment),
    "archive": Reader("xz:lines", "runs/small/toy.tiny.flat.runs.xz", report_experiment, write_archive_of_runs),
    "archive records": Reader("xz:json", "runs/small/toy.tiny.flat.runs.xz", report_experiment, write_archive_of_runs),
    "encoded queries": Reader("bytes", "encoded/embedding.pkl", search_with()),
    "docid": Reader("lines", "index/docid", search_with()),
    "record of an index": Reader("json", "index/tour-index.json", read_index_record, write_index_record),
    "scales": Reader("json", "index/tour-scales.json", read_stored_scales, write_scales),
    "vectors jsonl": Reader("json", "vectors/part.jsonl", search_with(vectors="vectors"), write_json_vectors),
    **{
        f"index {name}": Reader("bytes", "index/index", search_with(), write_index_of_kind(name))
        for name in FAISS_KINDS
    },
    "phrases record": Reader("json", "phrases/tour-phrases.json", search_phrases, write_phrases),
    "phrases docid": Reader("lines", "phrases/docid", search_phrases, write_phrases),
    "phrases rows": Reader("bytes", "phrases/rows", search_phrases, write_phrases),
    "phrases vectors": Reader("bytes", "phrases/vectors", search_phrases, write_phrases),
    "phrases index": Reader("bytes", "phrases/index", search_phrases, write_phrases),
    "score cache": Reader("bytes", "scores.sqlite", use_scores, write_scores),
    "adapter": Reader("bytes", "a.adapter", use_adapter, write_adapter_file),
    "training examples": Reader("json", "train.jsonl", train_examples, write_training_examples),
}
