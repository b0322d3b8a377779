import json

import pytest
from index_commands import flags, write_corpus

from tour_pyserini import index
from tour_pyserini.data.run_records import PASSAGE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.index import IndexRequest
from tour_pyserini.opening import encoder_options
from tour_pyserini.search_request import SearchRequest


def test_pyserini_reads_the_index(tiny, tmp_path, capsys):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 40)
    index.main(flags(tiny, corpus, tmp_path / "index"))
    written = capsys.readouterr()
    assert written.out == "" and "40 documents (0 were encoded before) in " in written.err
    from tour_pyserini import FaissSearcher
    from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder

    searcher = FaissSearcher(str(tmp_path / "index"), load_query_encoder(tiny))
    assert searcher.docids == [f"d{i}" for i in range(40)]
    encoder = load_document_encoder(tiny)
    records = [json.loads(line) for line in corpus.read_text().splitlines()]
    for i in (0, 1, 38):  # without and with a title
        text = f"{records[i]['title']} {records[i]['text']}".strip()
        assert searcher.index.reconstruct(i) == pytest.approx(encoder.encode(texts=[text])[0], abs=1e-5)
    assert len(searcher.search("a b c", k=5)) == 5

    record = json.loads((tmp_path / "index" / PASSAGE_INDEX).read_text())
    assert (record["settings"]["documents"], record["settings"]["dimension"]) == (40, 16)
    assert record["index"] == {"kind": "flat"} and record["versions"]["pyserini"]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        (["--hnsw", "--M", 4, "--efC", 20], {"kind": "hnsw", "hnsw_m": 4, "ef_construction": 20}),
        (["--factory", "PQ4x4"], {"kind": "factory", "factory": "PQ4x4"}),
        (["--factory", "IVF4,SQ8", "--nprobe", 3], {"kind": "factory", "factory": "IVF4,SQ8", "nprobe": 3}),
    ],
)
def test_other_kinds_of_index(tiny, tmp_path, more, kind):
    import faiss

    corpus = write_corpus(tmp_path / "corpus.jsonl", 300)
    index.main(flags(tiny, corpus, tmp_path / "index", *more))
    found = faiss.read_index(str(tmp_path / "index" / "index"))
    assert (found.ntotal, found.d, found.metric_type) == (300, 16, faiss.METRIC_INNER_PRODUCT)
    if kind.get("nprobe"):
        assert faiss.extract_index_ivf(found).nprobe == kind["nprobe"]
    types = {"hnsw": "IndexHNSWFlat", "PQ4x4": "IndexPQ", "IVF4,SQ8": "IndexIVFScalarQuantizer"}
    assert type(found).__name__ == types[kind.get("factory", kind["kind"])]
    assert json.loads((tmp_path / "index" / PASSAGE_INDEX).read_text())["index"] == kind


def test_an_index_finds_its_encoder_from_every_folder(tiny, tmp_path, monkeypatch, no_build):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    monkeypatch.chdir(tiny.parent)
    with no_build:
        index.main(flags(f"./{tiny.name}", corpus, tmp_path / "index"))
    monkeypatch.chdir(tiny)
    index.main(flags(".", corpus, tmp_path / "index"))  # the same encoder, so it goes on
    monkeypatch.chdir(tmp_path)
    assert encoder_options(SearchRequest(topics="t", index="index"))["spec"] == str(tiny)
    (tmp_path / "default").mkdir()  # the word wins over a folder
    for name in ("default", "some/name-on-the-hub"):
        assert IndexRequest(corpus="c", index="i", encoder=name).encoder_location() == name


PQ = ["--factory", "PQ4x4"]


def test_vectors_of_another_index_give_the_same_index_without_encoding(tiny, tmp_path, encoded):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 1100)  # more than one chunk
    index.main(flags(tiny, corpus, tmp_path / "flat"))
    index.main(flags(tiny, corpus, tmp_path / "encoded", *PQ))
    encoded.clear()
    index.main(flags(tiny, corpus, tmp_path / "copied", *PQ, "--vectors", tmp_path / "flat"))
    assert encoded == [1]  # the probe
    for path in (tmp_path / "encoded").iterdir():
        assert (tmp_path / "copied" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("more", "line", "message"),
    [
        ("--factory PQ5x8", "", "PQ5x8"),
        ("--factory PQ4x10", "", "1024 centroids"),
        ("--hnsw --M 1", "", "--M 2"),
        ("--max-length 100000", "", "reads at most 512 tokens, not 100000"),
        ("--max-length 1", "", "needs at least 3 tokens, not 1"),
        ("--vectors flat", "", "another fields"),
        ("--vectors .", "", "not an index that this command made"),
        ("--vectors damaged", "", r"damaged.*choose other --vectors"),
        ("", "{", "line 31 is not JSON"),
        ("", '{"_id": "d1", "text": "x"}', "the id 'd1' twice"),
        ("", '{"_id": "d 9", "text": "x"}', "white space in the document id 'd 9'"),
    ],
)
def test_refusals_come_before_encoding_and_nothing_is_written(
    tiny, tmp_path, monkeypatch, encoded, more, line, message
):
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus(tmp_path / "corpus.jsonl", 30)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / PASSAGE_INDEX).write_text("{")
    if more == "--vectors flat":
        index.main(flags(tiny, corpus, "flat", "--fields", "text"))
    with open(corpus, "a") as file:
        file.write(line)
    before = {path.name for path in tmp_path.iterdir()}
    encoded.clear()
    with pytest.raises(TourError, match=message):
        index.main(flags(tiny, corpus, tmp_path / "index", *more.split()))
    assert sum(encoded) <= 1  # the probe
    assert {path.name for path in tmp_path.iterdir()} == before
