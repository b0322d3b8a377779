"""The indexes of an experiment: build them, or check those that exist."""

from pathlib import Path
from typing import Any

from tour_pyserini.data.lines import read_json_object
from tour_pyserini.data.records import PASSAGE_INDEX, PHRASE_INDEX
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.experiments.archive import digests
from tour_pyserini.pipeline.index_request import IndexRequest
from tour_pyserini.pipeline.indexing import build_index
from tour_pyserini.stores.phrases.phrase_index import read_settings


def make_index(request: IndexRequest) -> None:
    """Build an index; if it exists, check that it was built as the request describes.

    Raises:
        TourError: if the existing index was built from another corpus or with other settings.
    """
    folder = Path(request.index)
    if not (folder / (PHRASE_INDEX if request.phrases else PASSAGE_INDEX)).is_file():
        build_index(request, progress=True)
        return
    made = read_settings(folder) if request.phrases else _passage_settings(folder)
    if made["corpus_sha256"] != digests({"corpus": Path(request.corpus)})["corpus"]:
        raise TourError(
            f"{folder} was built from another corpus than {request.corpus}; remove it, or give --indexes DIR."
        )
    for name, value in _expected_settings(request).items():
        if made.get(name) != value:
            what = "kind of index" if name == "index" else name
            raise TourError(f"{folder} was built with another {what}; remove it, or give --indexes DIR.")


def _passage_settings(folder: Path) -> dict[str, Any]:
    path = folder / PASSAGE_INDEX
    try:
        made = read_json_object(path)
        settings = {**made["settings"], "index": made["index"]}
        return {**settings, "corpus_sha256": settings["corpus_sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TourError(f"{path} does not describe an index ({first_line(error)}); remove the folder.") from error


def _expected_settings(request: IndexRequest) -> dict[str, Any]:
    """The settings that the request's index must have."""
    # torch and Pyserini take seconds to start.
    if request.phrases:
        from tour_pyserini.pipeline.phrase_indexing import phrase_index_encoder, phrase_settings

        settings = phrase_settings(request, request.open_corpus(), phrase_index_encoder(request))
        # The path of the encoder and the number of passages per chunk do not change the index.
        wanted = {name: value for name, value in settings.items() if name not in ("encoder", "chunk")}
    else:
        from tour_pyserini.encoders.loading import encoder_fingerprint

        trusted = request.trust_remote_code
        found = encoder_fingerprint(request.encoder, request.encoder_class, trust_remote_code=trusted)
        wanted = {"encoder_fingerprint": found, "prefix": request.prefix}
        given = {name: getattr(request, name) for name in ("pooling", "l2_norm", "truncate_dim", "max_length")}
        if request.precision == "int8":  # indexes of older versions are fp32 and do not say so
            given["precision"] = request.precision
        wanted |= {name: value for name, value in given.items() if value is not None}
    return {**wanted, "index": request.faiss_kind()}
