import json
import shutil

import pytest

from tour_pyserini import opening
from tour_pyserini.errors import TourError
from tour_pyserini.opening import encoder_options as options_of_request
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.index_folder import check_vectors


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "gte").mkdir(parents=True)
    monkeypatch.setattr(opening, "encoder_fingerprint", lambda spec, *_, **__: f"print of {spec}")
    asked = {"pooling": "mean", "l2_norm": True}
    settings = {"encoder": "models/gte", "encoder_fingerprint": "print of models/gte", "encoder_class": None, **asked}
    settings |= {"prefix": None, "max_length": 256, "fields": ["text", "title"], "asked": asked}
    (tmp_path / "tour-index.json").write_text(json.dumps({"settings": settings}))
    return tmp_path


BUILT = {"spec": "models/gte", "encoder_class": None, "pooling": "mean", "l2_norm": True, "truncate_dim": None}


def encoder_options(index, encoder, flag="--encoder", **said):
    """The options that depend on the index."""
    request = SearchRequest(topics="t", index=index, encoder=encoder, **said)
    options = options_of_request(request, flag=flag)
    return {name: options[name] for name in BUILT}


def change(index, **settings):
    record = json.loads((index / "tour-index.json").read_text())
    record["settings"] |= settings
    (index / "tour-index.json").write_text(json.dumps(record))


def test_what_built_the_index_encodes_the_queries_with_what_was_asked_for(index):
    assert encoder_options(index, None) == encoder_options(index, "models/gte") == BUILT
    assert encoder_options(index, "models/gte", pooling="mean") == BUILT
    change(index, asked={"truncate_dim": 8}, truncate_dim=8, encoder_class="dpr")
    expected = {**BUILT, "pooling": None, "l2_norm": None, "truncate_dim": 8, "encoder_class": "dpr"}
    assert encoder_options(index, None) == expected
    assert encoder_options(index, None, encoder_class="dkrr")["encoder_class"] == "dkrr"


@pytest.mark.parametrize(
    ("said", "flag"),
    [({"pooling": "cls"}, "--pooling"), ({"l2_norm": False}, "--no-l2-norm"), ({"truncate_dim": 8}, "--truncate-dim")],
)
def test_what_contradicts_the_index_is_refused(index, said, flag):
    with pytest.raises(TourError, match=f"which {flag} contradicts"):
        encoder_options(index, "models/gte", **said)


@pytest.mark.parametrize(
    ("encoder", "fingerprint", "says"),
    [
        ("someone/qwen3", "someone/qwen3", "not a folder of this machine; if you trust it, say {} someone/qwen3"),
        ("models/gte", "of other files", "its files have changed; say {} models/gte"),
        ("models/gte", "models/gte", "its files have changed; say {} models/gte"),  # its own path is no proof
    ],
)
def test_an_encoder_that_an_index_names_is_not_trusted(index, encoder, fingerprint, says):
    change(index, encoder=encoder, encoder_fingerprint=fingerprint)
    for flag in ("--encoder", "--encoder2"):
        with pytest.raises(TourError, match=says.format(flag)):
            encoder_options(index, None, flag=flag)
    assert encoder_options(index, encoder)["spec"] == encoder
    change(index, encoder="default", encoder_fingerprint="print of default")
    assert encoder_options(index, None)["spec"] == "default"


def test_vectors_of_another_encoder_are_refused(index, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(index / "tour-index.json", other)
    check_vectors(index, str(other))
    check_vectors(index, "a-folder-that-says-nothing")
    change(other, encoder="models/bge", encoder_fingerprint="another")
    with pytest.raises(TourError, match="models/bge"):
        check_vectors(index, str(other))
