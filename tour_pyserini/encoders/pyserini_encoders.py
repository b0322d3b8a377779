"""Pyserini's own encoder classes (DPR, ANCE, TCT-ColBERT, ...), by their names."""

import logging
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tour_pyserini.encoders.sentence_model import ModelOptions, encoder_folder, is_modular
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.model_files import DEFAULT, read_json
from tour_pyserini.support.packages import import_optional
from tour_pyserini.support.pyserini import ensure_java

log = logging.getLogger(__name__)

_OWN_NAMES = (None, "auto", "sentence", "sentence-transformers")
"""Class names that stand for a model that is run as its own files say, by this package."""
_RUNS_CODE = ("qwen3", "dse", "mmeb")
"""Classes that run Python code which a model brings along."""

_ARCHITECTURES = {"DPRQuestionEncoder": "dpr", "DPRContextEncoder": "dpr", "AnceEncoder": "ance"}
# Words in a name on the model hub by which Pyserini chooses a class, in its order.
_IN_NAMES = ("dkrr", "cosdpr", "dpr", "bpr", "tct_colbert", "ance", "m?contriever", "aggretriever", "unicoil", "splade")


def pyserini_class(
    spec: str | os.PathLike[str], encoder_class: str | None, trust_remote_code: bool = False
) -> str | None:
    """The Pyserini class of an encoder; None if it is run as its own files say.

    Args:
        spec: a folder or a name.
        encoder_class: the class that was asked for, if any. Without it, and without `modules.json`, a folder has the
            class of the architecture in its configuration, and a name on the model hub the one that Pyserini chooses
            for this name. The name of a folder says nothing: Pyserini would find "ance" in /home/lance.
        trust_remote_code: whether Python code that the model brings along may be run.

    Raises:
        TourError: if the class would run code that may not be run.
    """
    if encoder_class in _RUNS_CODE and not trust_remote_code:
        raise TourError(
            f"Pyserini's encoder class {encoder_class} runs Python code that the model brings along; leave "
            "--encoder-class out to run the model as its own files say, or add --trust-remote-code."
        )
    if encoder_class not in _OWN_NAMES:
        return encoder_class
    if encoder_class is not None or spec == DEFAULT:
        return None
    if isinstance(spec, os.PathLike) or Path(spec).is_dir():
        named = read_json(Path(spec) / "config.json").get("architectures") or [None]
        return None if is_modular(Path(spec)) else _ARCHITECTURES.get(named[0])
    words = (re.search(rf"(?<![a-z])({word})(?![a-z])", spec.lower()) for word in _IN_NAMES)
    found = next((match[1] for match in words if match), None)
    if found is None or _hub_has_modules(spec):
        return None
    return found.removeprefix("m") if found.endswith("contriever") else found


def _hub_has_modules(name: str) -> bool:
    """Whether a model on the hub says how its vectors are made (`modules.json`); no if it cannot be asked."""
    hub = import_optional("huggingface_hub")
    known = hub.try_to_load_from_cache(name, "modules.json")
    if known is not None:
        return isinstance(known, str)  # otherwise it is known that there is no such file
    try:
        return bool(hub.file_exists(name, "modules.json"))
    except Exception:  # no connection, or not a name of a model
        return False


def load_pyserini_encoder(
    spec: str | os.PathLike[str],
    role: str,
    encoder_class: str,
    options: ModelOptions,
    *,
    prefix: str | None,
    max_length: int = 256,
) -> Any:
    """One of Pyserini's encoders, of queries or documents (`role`)."""
    ensure_java()
    make: Callable[..., Any]
    if role == "query":
        from pyserini.encode import query_encoder_class_map as classes
        from pyserini.search.faiss.__main__ import init_query_encoder

        given = {"tokenizer_name": options.tokenizer, "topics_name": None, "encoded_queries": None}
        make = partial(init_query_encoder, **given, max_length=max_length)
    else:
        from pyserini.encode import document_encoder_class_map as classes
        from pyserini.encode.__main__ import init_encoder

        if options.tokenizer:
            raise TourError("Pyserini's document encoders use the tokenizer of the model; do not give another one.")
        make = partial(init_encoder, multimodal=False, explicit_truncate=False)
    if encoder_class not in classes:
        raise TourError(f"unknown encoder class {encoder_class!r}; choose one of {', '.join(sorted(classes))}.")
    if options.truncate_dim is not None or options.dtype not in ("auto", "float32"):
        raise TourError(f"Pyserini's encoder class {encoder_class} has neither --truncate-dim nor --dtype.")
    name = _name(spec, options)
    try:
        _prepare_transformers()
        encoder = make(
            encoder=name,
            encoder_class=encoder_class,
            device=options.device,
            pooling=options.pooling or "cls",
            l2_norm=bool(options.l2_norm),
            prefix=prefix,
        )
    except Exception as error:  # damaged files of a model cause exceptions of many types
        raise TourError(f"cannot load the encoder {name}: {first_line(error).rstrip('.:')}.") from error
    if hasattr(getattr(encoder, "model", None), "requires_grad_"):
        encoder.model.requires_grad_(False)  # Pyserini leaves gradients on
    if prefix and getattr(encoder, "prefix", None) != prefix:
        log.warning("%s ignores the prefix %r; only the class auto uses it", type(encoder).__name__, prefix)
    return encoder


def _name(spec: str | os.PathLike[str], options: ModelOptions) -> str:
    """A folder whose code may be run, or a name on the model hub."""
    if spec == DEFAULT or isinstance(spec, os.PathLike) or Path(spec).is_dir() or spec.startswith((".", "/")):
        return str(encoder_folder(spec, trust_remote_code=options.trust_remote_code))
    return spec


def _prepare_transformers() -> None:
    """Let transformers show no progress bar, and refuse code of a model instead of asking on the terminal about it.

    Most of Pyserini's classes do not say whether code may be run; transformers then asks, and waits for an answer.
    """
    from transformers import dynamic_module_utils
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # seconds
