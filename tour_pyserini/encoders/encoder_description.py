"""What a loaded encoder is and how it is run, for people who want to check it."""

import os
from pathlib import Path
from typing import Any

from tour_pyserini.encoders.model_folder import encoder_folder
from tour_pyserini.encoders.text_encoders import TextEncoder
from tour_pyserini.support.model_files import read_json, read_modules

ENGINES = {"onnx": "ONNX Runtime", "torch": "sentence-transformers (torch)"}
"""Names of the engines by the names of their back ends."""


def describe_encoder(
    spec: str | os.PathLike[str], query_encoder: Any, document_encoder: Any, *, trust_remote_code: bool = False
) -> dict[str, Any]:
    """How an encoder encodes queries and documents, by what the facts are about.

    Args:
        spec: the encoder, as `load_query_encoder` takes it.
        query_encoder: it, loaded for queries.
        document_encoder: it, loaded for documents.
        trust_remote_code: whether Python code that the model brings along may be run.
    """
    if not isinstance(query_encoder, TextEncoder) or not isinstance(document_encoder, TextEncoder):
        return {"family": f"Pyserini's {type(query_encoder).__name__} and {type(document_encoder).__name__}"}
    folder = encoder_folder(spec, trust_remote_code=trust_remote_code)
    settings = query_encoder.settings
    return {
        "family": _architecture(folder),
        "modules": _modules(folder),
        "pooling": settings.get("pooling"),
        "unit length": settings.get("l2_norm"),
        "dimensions kept": settings.get("truncate_dim") or "all",
        "query prompt": query_encoder.prompt or None,
        "document prompt": document_encoder.prompt or None,
        "engine": ENGINES.get(query_encoder.runner.backend, query_encoder.runner.backend),
        "precision": document_encoder.settings.get("precision", "fp32"),
        "dtype": settings.get("dtype"),
        "max length": f"{_tokens(query_encoder)} of a query, {_tokens(document_encoder)} of a document",
    }


def _architecture(folder: Path) -> str:
    """The architecture that a folder's configuration names; that of its first module, if it has modules."""
    for path in (folder / "config.json", *sorted(folder.glob("0_*/config.json"))):
        if architectures := read_json(path).get("architectures"):
            return str(architectures[0])
    return "no transformer"


def _modules(folder: Path) -> str:
    if not (folder / "modules.json").is_file():
        return "none declared: a transformer with Pyserini's pooling, unless another one is asked for"
    return ", ".join(module["type"].rpartition(".")[2] for module in read_modules(folder))


def _tokens(encoder: TextEncoder) -> str:
    return "all tokens" if encoder.runner.length is None else f"{encoder.runner.length} tokens"
