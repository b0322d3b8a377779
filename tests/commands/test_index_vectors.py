"""An index from the vectors of another."""

import pytest
from index_commands import flags, write_corpus

from tour_pyserini import index
from tour_pyserini import index as indexing
from tour_pyserini.errors import TourError

PQ = ["--pq", "--pq-m", 4, "--pq-nbits", 4]


def test_vectors_of_another_index_give_the_same_index_without_encoding(tiny, tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 1100)  # more than one chunk
    index.main(flags(tiny, corpus, tmp_path / "flat"))
    index.main(flags(tiny, corpus, tmp_path / "encoded", *PQ))
    monkeypatch.setattr(indexing, "_encode", None)
    index.main(flags(tiny, corpus, tmp_path / "copied", *PQ, "--vectors", tmp_path / "flat"))
    for path in (tmp_path / "encoded").iterdir():
        assert (tmp_path / "copied" / path.name).read_bytes() == path.read_bytes()


def test_vectors_of_other_settings_or_of_no_index_are_refused(tiny, tmp_path):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    index.main(flags(tiny, corpus, tmp_path / "flat", "--fields", "text"))
    with pytest.raises(TourError, match="another fields"):
        index.main(flags(tiny, corpus, tmp_path / "new", "--vectors", tmp_path / "flat"))
    with pytest.raises(TourError, match="not an index that this command made"):
        index.main(flags(tiny, corpus, tmp_path / "new", "--vectors", tmp_path))
    assert not (tmp_path / "new").exists()
