"""The search command on a phrase index: a run over passages, answers beside it, measures of both."""

import json

import pytest
from tiny_phrases import DOCUMENTS, save_encoder, save_reranker, write_corpus

from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.index import main as index
from tour_pyserini.search import main as search

QUESTIONS = [("q1", "who got the first prize", ["Wilhelm Röntgen"]), ("q2", "which river", ["Rhine", "the Rhine"])]
TEXTS = {one["_id"]: one["text"] for one in DOCUMENTS}


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.encoder = save_encoder(folder / "encoder", pooling="mean")
        self.corpus = write_corpus(folder / "corpus.jsonl")
        self.index = folder / "index"
        paths = ["--corpus", self.corpus, "--encoder", self.encoder, "--index", self.index, "--threads", 1]
        index([str(word) for word in ["--phrases", *paths]])
        lines = [{"_id": qid, "text": text, "answers": gold} for qid, text, gold in QUESTIONS]
        self.topics = folder / "topics.jsonl"
        self.topics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        save_reranker(folder / "reranker")

    def search(self, output, *more):
        words = ["--topics", self.topics, "--index", self.index, "--corpus", self.corpus, "--output", output]
        words += ["--reranker", self.folder / "reranker", "--hits", 6, "--no-cache", "--reranker-threads", 1]
        search([str(word) for word in [*words, *more]])
        return output


@pytest.fixture(scope="module")
def case(tmp_path_factory, one_thread):
    return Case(tmp_path_factory.mktemp("search-phrases"))


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("method", ["dense", "rocchio", "rerank", "hard", "soft"])
def test_every_method_gives_a_run_and_answers(case, tmp_path, method):
    depth = [] if method == "dense" else ["--depth", 4]  # dense search labels nothing
    run = case.search(tmp_path / "a.trec", "--method", method, *depth)
    rows = [line.split() for line in run.read_text().splitlines()]
    predicted = read(tmp_path / "a.trec.answers.jsonl")
    for qid, _, _ in QUESTIONS:
        passages = [row[2] for row in rows if row[0] == qid]
        assert sorted(passages) == ["a", "b", "c", "d"]  # the empty one has no phrase
        own = [line for line in predicted if line["qid"] == qid]
        assert len(own) == 6
        assert passages[0] == own[0]["passage"]
        assert [line["score"] for line in own] == sorted((line["score"] for line in own), reverse=True)
        for line in own:
            begin, end = line["span"]
            assert TEXTS[line["passage"]][begin:end] == line["answer"] != ""
    record = json.loads((tmp_path / "a.trec.json").read_text())
    assert record["costs"]["queries"] == 2
    assert (record["costs"]["pairs"] > 0) == (method in ("rerank", "hard", "soft"))


def test_the_same_inputs_give_the_same_bytes_and_a_trace_names_phrases(case, tmp_path):
    first = case.search(tmp_path / "a.trec", "--method", "hard", "--trace", tmp_path / "trace.jsonl")
    second = case.search(tmp_path / "b.trec", "--method", "hard", "--predictions", tmp_path / "b.jsonl")
    assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "a.trec.answers.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert not (tmp_path / "b.trec.answers.jsonl").exists()
    dense = [case.search(tmp_path / size, "--method", "dense", "--batch-size", size).read_text() for size in "12"]
    assert dense[0] == dense[1]
    docid, span = read(tmp_path / "trace.jsonl")[0]["docids"][0].split(":")
    begin, end = map(int, span.split("-"))
    assert TEXTS[docid][begin:end]


def test_context_and_unit_change_the_run(case, tmp_path):
    outputs = {
        name: case.search(tmp_path / name, "--method", "rerank", *more).read_text()
        for name, more in {
            "trained": [],
            "1": ["--context", "1"],
            "paragraph": ["--context", "paragraph"],
            "no-title": ["--no-title"],
            "passages": ["--unit", "passage", "--context", "passage"],
        }.items()
    }
    assert outputs["trained"] == outputs["1"]
    assert len({*outputs.values()}) == 4
    short = case.search(tmp_path / "short", "--method", "dense", "--max-words", 1)
    assert all(" " not in line["answer"] for line in read(tmp_path / "short.answers.jsonl"))
    assert short.exists()
    assert len({line["passage"] for line in read(tmp_path / "passages.answers.jsonl") if line["qid"] == "q1"}) == 4


def test_encoded_queries_can_search_phrases(case, tmp_path):
    from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder

    vectors = load_phrase_encoder(case.encoder).encode_batch([text for _, text, _ in QUESTIONS])
    write_encoded_queries(tmp_path / "vectors", ["q1", "q2"], [text for _, text, _ in QUESTIONS], vectors)
    first = case.search(tmp_path / "a", "--method", "dense").read_text()
    assert (
        case.search(tmp_path / "b", "--method", "dense", "--encoded-queries", tmp_path / "vectors").read_text() == first
    )


def test_flags_that_do_not_fit_the_index_are_refused(case, tmp_path):
    for more, message in [
        (["--vectors", "encode"], "--vectors cannot be used: .* is a phrase index"),
        (["--remove-query"], "--remove-query cannot be used"),
        (["--no-l2-norm"], "--l2-norm cannot be used"),
        (["--max-length", 256], "--max-length cannot be used"),
        (["--context", "passage", "--separator", " "], "--separator cannot be used with --context passage"),
        (["--nprobe", 2], "--nprobe is for inverted files"),
        (["--predictions", tmp_path / "a.trec"], "cannot share a.trec"),
        (["--predictions", case.topics], "would overwrite the input"),
    ]:
        with pytest.raises(TourError, match=message):
            case.search(tmp_path / "a.trec", *more)
    with pytest.raises(TourError, match="--corpus is missing: a phrase index"):
        search([str(w) for w in ["--topics", case.topics, "--index", case.index, "--method", "dense"]])
    for more in (["--unit", "phrase"], ["--no-title"]):
        with pytest.raises(TourError, match=rf"{more[0].replace('no-', '')} cannot be used: .* is not a phrase index"):
            search([str(w) for w in ["--topics", case.topics, "--index", tmp_path, *more]])
    assert not list(tmp_path.iterdir())


def test_a_corpus_that_the_index_was_not_built_from_is_refused(case, tmp_path):
    other = tmp_path / "corpus.jsonl"
    other.write_text(case.corpus.read_text().replace(".", ". More.", 1))
    with pytest.raises(TourError, match="was made from another corpus than"):
        case.search(tmp_path / "a.trec", "--corpus", other, "--method", "dense")
