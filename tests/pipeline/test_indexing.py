"""`build_index` from Python: a request gives an index that Pyserini reads."""

import json

import faiss
import numpy as np
import pytest

from tour_pyserini import FaissSearcher, TourError
from tour_pyserini.index import IndexRequest, build_index
from tour_pyserini.index import main as index_command

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def request_(tmp_path, encoder):
    records = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(["a b c", "d e", "f", "a j"])]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return IndexRequest(corpus=tmp_path / "corpus.jsonl", index=tmp_path / "index", encoder=encoder, threads=1)


def test_an_index_holds_one_vector_per_document(request_, tmp_path):
    summary = build_index(request_)
    assert summary.index == tmp_path / "index"
    assert (summary.documents, summary.vectors, summary.encoded_before) == (4, 4, 0)
    assert summary.seconds > 0 and summary.per_second > 0
    searcher = FaissSearcher(request_.index, None)
    assert searcher.docids == ["d0", "d1", "d2", "d3"]
    assert (searcher.num_docs, searcher.dimension) == (4, 16)
    assert not (tmp_path / "index.partial").exists()


def test_python_and_the_command_line_build_the_same_index(request_, tmp_path):
    build_index(request_)
    flags = ["--corpus", request_.corpus, "--encoder", request_.encoder, "--index", str(tmp_path / "other")]
    index_command([*flags, "--threads", "1"])
    for name in ("index", "docid", "tour-index.json"):
        assert (tmp_path / "index" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_vectors_of_another_index_are_used_for_a_new_kind(request_, tmp_path):
    build_index(request_)
    hnsw = IndexRequest(
        corpus=request_.corpus,
        index=tmp_path / "hnsw",
        encoder=request_.encoder,
        vectors=request_.index,
        hnsw=True,
        M=4,
        efC=8,
        threads=1,
    )
    build_index(hnsw)
    flat, graph = (faiss.read_index(str(tmp_path / name / "index")) for name in ("index", "hnsw"))
    assert isinstance(graph, faiss.IndexHNSWFlat)
    assert np.array_equal(flat.reconstruct_n(0, 4), graph.reconstruct_n(0, 4))


def test_an_index_is_not_overwritten_by_chance(request_, tmp_path):
    build_index(request_)
    with pytest.raises(TourError, match="already contains an index; add --overwrite"):
        build_index(request_)
    with pytest.raises(TourError, match=r"there is no corpus .*nowhere"):
        build_index(IndexRequest(corpus=tmp_path / "nowhere", index=tmp_path / "i"))
