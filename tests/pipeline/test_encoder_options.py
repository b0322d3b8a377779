import json
import logging

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import encoder_options as module
from tour_pyserini.pipeline.encoder_options import encoder_options
from tour_pyserini.stores.index_settings import check_vectors


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "encoder_fingerprint", lambda spec: f"print of {spec}")
    settings = {
        "encoder": "models/gte",
        "encoder_fingerprint": "print of models/gte",
        "encoder_class": "AutoDocumentEncoder",
        "pooling": "mean",
        "l2_norm": True,
        "prefix": None,
        "max_length": 256,
        "fields": ["text", "title"],
    }
    (tmp_path / "tour-index.json").write_text(json.dumps({"settings": settings}))
    return tmp_path


def test_what_built_the_index_encodes_the_queries(index):
    expected = {"spec": "models/gte", "pooling": "mean", "l2_norm": True}
    assert encoder_options(index, None, pooling=None, l2_norm=None) == expected
    assert encoder_options(index, "models/gte", pooling=None, l2_norm=None) == expected


def test_what_is_said_wins(index):
    options = encoder_options(index, "models/gte", pooling="cls", l2_norm=False)
    assert options == {"spec": "models/gte", "pooling": "cls", "l2_norm": False}


def test_another_encoder_is_remarked_on_and_keeps_its_own_settings(index, caplog):
    with caplog.at_level(logging.WARNING):
        options = encoder_options(index, "models/other", pooling=None, l2_norm=None)
    assert options == {"spec": "models/other", "pooling": None, "l2_norm": None}
    assert "models/gte" in caplog.text
    assert "models/other" in caplog.text


def test_indexes_of_others_say_nothing(tmp_path):
    assert encoder_options(tmp_path, None, pooling=None, l2_norm=None)["spec"] == "default"
    assert encoder_options("wikipedia-dpr-100w.dpr-multi", "x", pooling=None, l2_norm=None)["spec"] == "x"


def test_damaged_settings_are_named(index):
    (index / "tour-index.json").write_text("{}")
    with pytest.raises(TourError, match=r"tour-index\.json"):
        encoder_options(index, None, pooling=None, l2_norm=None)


def test_vectors_of_another_encoder_are_refused(index, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    record = json.loads((index / "tour-index.json").read_text())
    (other / "tour-index.json").write_text(json.dumps(record))
    check_vectors(index, str(other))
    check_vectors(index, "a-folder-that-says-nothing")
    record["settings"] |= {"encoder": "models/bge", "encoder_fingerprint": "another"}
    (other / "tour-index.json").write_text(json.dumps(record))
    with pytest.raises(TourError, match="models/bge"):
        check_vectors(index, str(other))
    with pytest.raises(TourError, match="--vectors is empty"):
        check_vectors(index, "")
