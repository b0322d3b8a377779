"""The search command on a phrase index: a run over passages, answers beside it, measures of both."""

import json

import pytest
from tiny_phrases import DOCUMENTS, build_phrases, save_encoder, save_reranker, write_corpus

from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
from tour_pyserini.search import main

QUESTIONS = [("q1", "who got the first prize", ["Wilhelm Röntgen"]), ("q2", "which river", ["Rhine", "the Rhine"])]
TEXTS = {one["_id"]: one["text"] for one in DOCUMENTS}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search-phrases")
    encoder, corpus = save_encoder(folder / "encoder", pooling="mean"), write_corpus(folder / "corpus.jsonl")
    build_phrases(encoder, corpus, folder / "index")
    lines = [{"_id": qid, "text": text, "answers": gold} for qid, text, gold in QUESTIONS]
    (folder / "topics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    save_reranker(folder / "reranker")
    return folder


def search(folder, output, words="", **more):
    flags = {"topics": folder / "topics.jsonl", "index": folder / "index", "corpus": folder / "corpus.jsonl"}
    flags |= {"output": output, "reranker": folder / "reranker", "hits": 6, "reranker-threads": 1, **more}
    main([*(f"--{name}={value}" for name, value in flags.items()), "--no-cache", *words.split()])
    return output


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("method", ["dense", "rocchio", "rerank", "hard", "soft"])
def test_every_method_gives_a_run_and_answers(folder, tmp_path, method):
    depth = "" if method == "dense" else "--depth 4"  # dense search labels nothing
    run = search(folder, tmp_path / "a.trec", depth, method=method)
    rows = [line.split() for line in run.read_text().splitlines()]
    predicted = read(tmp_path / "a.trec.answers.jsonl")
    for qid, _, _ in QUESTIONS:
        passages = [row[2] for row in rows if row[0] == qid]
        assert sorted(passages) == ["a", "b", "c", "d"]  # the empty one has no phrase
        own = [line for line in predicted if line["qid"] == qid]
        assert len(own) == 6 and passages[0] == own[0]["passage"]
        assert [line["score"] for line in own] == sorted((line["score"] for line in own), reverse=True)
        assert all(TEXTS[line["passage"]][slice(*line["span"])] == line["answer"] != "" for line in own)
    costs = json.loads((tmp_path / "a.trec.json").read_text())["costs"]
    assert costs["queries"] == 2 and (costs["pairs"] > 0) == (method in ("rerank", "hard", "soft"))


def test_the_same_inputs_give_the_same_bytes_and_a_trace_names_phrases(folder, tmp_path):
    first = search(folder, tmp_path / "a.trec", method="hard", trace=tmp_path / "trace.jsonl")
    second = search(folder, tmp_path / "b.trec", method="hard", predictions=tmp_path / "b.jsonl")
    assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "a.trec.answers.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert not (tmp_path / "b.trec.answers.jsonl").exists()
    docid, span = read(tmp_path / "trace.jsonl")[0]["docids"][0].split(":")
    assert TEXTS[docid][slice(*map(int, span.split("-")))]
    texts = [text for _, text, _ in QUESTIONS]
    vectors = load_phrase_encoder(folder / "encoder").encode_batch(texts)
    write_encoded_queries(tmp_path / "vectors", ["q1", "q2"], texts, vectors)
    ways = ("--batch-size 1", "--batch-size 2", f"--encoded-queries {tmp_path / 'vectors'}")
    assert len({search(folder, tmp_path / "c", way, method="dense").read_bytes() for way in ways}) == 1


def test_context_and_unit_change_the_run(folder, tmp_path):
    ways = ["", "--context 1", "--context paragraph", "--no-title", "--unit passage --context passage"]
    runs = [search(folder, tmp_path / str(n), way, method="rerank").read_text() for n, way in enumerate(ways)]
    assert runs[0] == runs[1] and len({*runs}) == 4  # as it was trained
    assert len({line["passage"] for line in read(tmp_path / "4.answers.jsonl") if line["qid"] == "q1"}) == 4
    search(folder, tmp_path / "short", "--max-words 1", method="dense")
    assert all(" " not in line["answer"] for line in read(tmp_path / "short.answers.jsonl"))


@pytest.mark.parametrize(
    ("words", "more", "message"),
    [
        ("--vectors encode", {}, "--vectors cannot be used: .* is a phrase index"),
        ("--nprobe 2", {}, "--nprobe is for inverted files"),
        ("--min-relevance 0.5", {}, "--min-relevance cannot be used"),
        ("--predictions {out}/a.trec", {}, "cannot share a.trec"),
        ("--predictions {folder}/topics.jsonl", {}, "would overwrite the input"),
        ("--unit phrase", {"index": "{out}"}, "--unit cannot be used: .* is not a phrase index"),
        ("--corpus {folder}/topics.jsonl", {}, "was made from another corpus than"),
    ],
)
def test_flags_that_do_not_fit_the_index_are_refused(folder, tmp_path, words, more, message):
    words, more = words.format(folder=folder, out=tmp_path), {k: v.format(out=tmp_path) for k, v in more.items()}
    with pytest.raises(TourError, match=message):
        search(folder, tmp_path / "a.trec", words, **more)
    assert not list(tmp_path.iterdir())
