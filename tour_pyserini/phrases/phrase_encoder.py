"""The phrase encoder: vectors [start; end] of questions, and vectors of the tokens of passages (Lee et al., 2021).

A passage is read as title and text; a long text in overlapping windows.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from tour_pyserini.core.arrays import Floats
from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.texts import Document
from tour_pyserini.encoders.sentence_model import encoder_folder
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import Rows, token_rows
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.model_files import (
    Row,
    is_checkpoint,
    length_sorted_batches,
    padded,
    quiet_reading,
    read_config,
    read_tokenizer,
    usable_length,
)

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_FILE = "tour-phrase-encoder.json"
_TITLE_SHARE = 4  # a title takes at most a quarter of the tokens
_QUESTION_TOKENS = 64  # of a question that are read, as in DensePhrases
_BATCH_TOKENS = 4096  # tokens of a batch at most, with padding
_TOKENIZER = "SpanBERT/spanbert-base-cased"
"""The tokenizer of DensePhrases, for its published folders that contain none."""
_SAFE, _OLD = "model.safetensors", "pytorch_model.bin"
# Names of the parts in earlier checkpoints of DensePhrases.
_RENAMED = {"bert_start": "phrase_encoder", "bert_q_start": "query_start_encoder", "bert_q_end": "query_end_encoder"}


class PhraseModel(nn.Module):
    """One transformer computes a vector for each token of a passage; two compute the vector [start; end] of a question.

    A linear filter computes two logits for each token of a passage: whether an answer begins with it, and whether one
    ends with it. A checkpoint that has only query encoders has no phrase encoder and no filter.
    """

    def __init__(self, config: "PretrainedConfig", *, phrases: bool = True) -> None:
        """Build the model of a configuration, with random weights; without `phrases`, the query encoders alone."""
        from transformers import AutoModel

        super().__init__()
        self.config = config
        self.phrase_encoder: Any = AutoModel.from_config(config) if phrases else None
        self.query_start_encoder = AutoModel.from_config(config)
        self.query_end_encoder = AutoModel.from_config(config)
        self.filter_linear: Any = nn.Linear(config.hidden_size, 2) if phrases else None

    @classmethod
    def from_base(cls, folder: Path) -> Self:
        """A model to train: three copies of the transformer in a folder, and a filter with random weights."""
        from transformers import AutoModel

        config = read_config(folder)
        model = cls(config)
        base = AutoModel.from_pretrained(str(folder), config=config, weights_only=True, trust_remote_code=False)
        for part in (model.phrase_encoder, model.query_start_encoder, model.query_end_encoder):
            part.load_state_dict(base.state_dict())
        return model.float()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the model in a folder.

        Raises:
            TourError: if weights are missing (they would be random).
        """
        state = _read_weights(folder)
        model = cls(read_config(folder), phrases=any(name.startswith("phrase_encoder.") for name in state))
        model = model.float()  # the configuration may ask for half precision
        missing, _ = model.load_state_dict(state, strict=False)
        # Poolers are not used, and some checkpoints lack them. Random ones would change the fingerprint each time.
        for name in missing:
            if ".pooler." not in name:
                raise TourError(f"{folder} lacks weights, such as {name}; download the folder again.")
            model.get_parameter(name).data.zero_()
        return model.eval()

    def tokens(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Vectors [b, t, d] of the tokens of passages, and their filter logits [b, t, 2]."""
        hidden = self.phrase_encoder(**inputs).last_hidden_state
        return hidden, self.filter_linear(hidden)

    def questions(self, inputs: dict[str, Tensor], pooling: str) -> tuple[Tensor, Tensor]:
        """The start vectors [b, d] and end vectors [b, d] of questions."""
        mask = inputs["attention_mask"].unsqueeze(-1)
        encoders = (self.query_start_encoder, self.query_end_encoder)
        outputs = [encoder(**inputs).last_hidden_state for encoder in encoders]
        if pooling == "cls":
            return outputs[0][:, 0], outputs[1][:, 0]
        start, end = ((hidden * mask).sum(dim=1) / mask.sum(dim=1) for hidden in outputs)
        return start, end

    def save(self, folder: Path) -> None:
        """Write the configuration and the weights, with the names of DensePhrases."""
        from safetensors.torch import save_file

        self.config.save_pretrained(folder)
        state = {name: value.cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(state, folder / _SAFE, metadata={"format": "pt"})


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint by their names in `PhraseModel`, and others, such as a teacher's."""
    from safetensors.torch import load_file

    with quiet_reading(folder, "the weights"):
        safe = (folder / _SAFE).is_file()
        read = load_file(folder / _SAFE) if safe else torch.load(folder / _OLD, map_location="cpu", weights_only=True)
    weights = {}
    for name, value in read.items():
        part, _, rest = name.removeprefix("module.").partition(".")
        weights[f"{_RENAMED.get(part, part)}.{rest}"] = value
    if not {"query_start_encoder", "query_end_encoder"} <= {name.partition(".")[0] for name in weights}:
        raise TourError(
            f"{folder} is not a phrase encoder: its checkpoint has no query_start_encoder and query_end_encoder; "
            "train one with python -m tour_pyserini.train phrase-encoder."
        )
    return weights


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How a phrase encoder reads questions and passages; the defaults are those of DensePhrases' published checkpoints.

    Attributes:
        pooling: how token vectors of a question become one vector: `cls` (the first one) or `mean` (of all).
        max_length: tokens of a window: title, text and special tokens.
        stride: tokens of the text that two neighbouring windows of a long passage share; at most half of the window.
        filter_threshold: the filter keeps a token if its logit is above this number.
    """

    pooling: str = "cls"
    max_length: int = 384
    stride: int = 128
    filter_threshold: float = -2.0

    def __post_init__(self) -> None:
        if self.pooling not in ("cls", "mean"):
            raise TourError(f"a phrase encoder's pooling is cls or mean, not {self.pooling!r}.")

    def save(self, folder: Path) -> None:
        """Write the settings to a model folder."""
        (folder / _FILE).write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the settings in a model folder; without a settings file, the defaults of DensePhrases."""
        path = folder / _FILE
        return cls(**read_json_object(path)) if path.is_file() else cls()


class Window(NamedTuple):
    """A part of a passage that the model reads at once.

    Attributes:
        passage: position of the passage in the list of passages.
        inputs: the model's inputs by name.
        tokens: [k] positions, in the inputs, of the tokens whose vectors are taken from this window.
        offsets: [k, 2] begin and end of these tokens in the passage's text, in characters.
    """

    passage: int
    inputs: Row
    tokens: np.ndarray
    offsets: np.ndarray


class PhraseEncoder:
    """A phrase model with its tokenizer.

    Attributes:
        model: the `PhraseModel`.
        tokenizer: a fast tokenizer of Hugging Face.
        settings: how questions and passages are read; `max_length` is lowered to the model's limit.
        dimension: d of a token's vector; a question's vector has 2 d.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: EncoderSettings, *, device: str = "cpu") -> None:
        self.model, self.tokenizer = on_device(model, device), tokenizer
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, settings.max_length)
        self.settings = dataclasses.replace(settings, max_length=length, stride=min(settings.stride, length // 2))
        self.dimension: int = model.config.hidden_size
        self._device = device

    def encode(self, question: str, **_: Any) -> Floats:
        """The vector [start; end] of a question, float32 [2 d]."""
        with torch.inference_mode():
            return torch.cat(self.question_sides([question]), dim=1)[0].float().cpu().numpy()

    def encode_batch(self, questions: Sequence[str]) -> Floats:
        """The vectors [start; end] of questions, float32 [n, 2 d]."""
        # One by one: in a batch, the rounding of a vector would depend on the other questions.
        vectors = [self.encode(question) for question in questions]
        return np.array(vectors, dtype=np.float32).reshape(-1, 2 * self.dimension)

    def question_sides(self, questions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The start vectors [b, d] and end vectors [b, d] of questions that are read together."""
        texts = [question.strip().removesuffix("?").rstrip() for question in questions]  # as DensePhrases was trained
        options: dict[str, Any] = {"truncation": True, "padding": True, "return_tensors": "pt"}
        coded = self.tokenizer(texts, max_length=_QUESTION_TOKENS, **options)
        return self.model.questions(coded.to(self._device), self.settings.pooling)

    def passages(
        self, documents: Sequence[Document], *, first: int = 0, threshold: float | None = None, dtype: Any = np.float32
    ) -> tuple[Rows, Floats]:
        """The rows [r] and vectors [r, d] of the tokens of documents, after the filter.

        Args:
            documents: documents with their original texts.
            first: position of the first document in the corpus.
            threshold: threshold of the filter; None: the one in the encoder's settings.
            dtype: type of the vectors.
        """
        threshold = self.settings.filter_threshold if threshold is None else threshold
        if self.model.phrase_encoder is None:
            raise TourError(
                "this checkpoint has only query encoders; encode passages with the encoder that it was trained from."
            )
        windows = self.windows([(document.title, document.text) for document in documents])
        outputs = self._run(windows)
        parts: list[list[tuple[np.ndarray, ...]]] = [[] for _ in documents]
        for window, (hidden, logits) in zip(windows, outputs, strict=True):
            parts[window.passage].append((window.offsets, hidden[window.tokens], logits[window.tokens]))
        result = []
        for position, document in enumerate(documents):
            offsets, hidden, logits = (np.concatenate(arrays) for arrays in zip(*parts[position], strict=True))
            kept: dict[str, Any] = {"logits": logits, "threshold": threshold}
            rows, tokens = token_rows(document.text, offsets, passage=first + position, **kept)
            result.append((rows, hidden[tokens].astype(dtype)))
        all_rows, all_vectors = (np.concatenate(arrays) for arrays in zip(*result, strict=True))
        return all_rows, all_vectors

    def windows(self, passages: Sequence[tuple[str, str]]) -> list[Window]:
        """Split passages, given as (title, text), into windows; each token of a text is taken from exactly one window.

        Of the tokens that two neighbouring windows share, each window gives the half that is nearer to its middle.
        """
        tokenizer, settings = self.tokenizer, self.settings
        titles = [_truncated(title, tokenizer, settings.max_length // _TITLE_SHARE) for title, _ in passages]
        coded = tokenizer(
            titles,
            [text for _, text in passages],
            truncation="only_second",
            max_length=settings.max_length,
            stride=settings.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        names = [name for name in tokenizer.model_input_names if name in coded]
        owners = coded["overflow_to_sample_mapping"]
        windows = []
        for i, owner in enumerate(owners):
            tokens = np.flatnonzero([sequence == 1 for sequence in coded.sequence_ids(i)])
            skipped_first = settings.stride // 2 if i and owners[i - 1] == owner else 0
            has_next = i + 1 < len(owners) and owners[i + 1] == owner
            skipped_last = settings.stride - settings.stride // 2 if has_next else 0
            tokens = tokens[skipped_first : len(tokens) - skipped_last]
            offsets = np.array(coded["offset_mapping"][i], dtype=np.int64).reshape(-1, 2)[tokens]
            windows.append(Window(owner, {name: coded[name][i] for name in names}, tokens, offsets))
        return windows

    def _run(self, windows: list[Window]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The vectors [t, d] and filter logits [t, 2] of each window."""
        outputs: list[Any] = [None] * len(windows)
        lengths = [len(window.inputs["input_ids"]) for window in windows]
        with torch.inference_mode():
            for batch in length_sorted_batches(lengths, budget=_BATCH_TOKENS):
                hidden, logits = self.model.tokens(self.tensors([windows[i].inputs for i in batch]))
                for i, vectors, filter_ in zip(batch, hidden.float().cpu(), logits.float().cpu(), strict=True):
                    outputs[i] = vectors.numpy(), filter_.numpy()
        return outputs

    def has_built(self, settings: Mapping[str, Any]) -> bool:
        """Whether it built the index with these settings; a checkpoint with only query encoders fits every index."""
        return self.fingerprint() in (None, settings["encoder_fingerprint"])

    def tensors(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The model's inputs [b, t], padded, on its device."""
        fill = {"input_ids": self.tokenizer.pad_token_id or 0, "token_type_ids": self.tokenizer.pad_token_type_id}
        return {name: torch.from_numpy(ids).to(self._device) for name, ids in padded(rows, fill).items()}

    def save(self, folder: Path) -> None:
        """Write weights, tokenizer and settings to a folder that `load_phrase_encoder` can load."""
        self.model.save(folder)
        self.tokenizer.save_pretrained(folder)
        self.settings.save(folder)

    def fingerprint(self) -> str | None:
        """A hash of the weights that encode passages; None for a checkpoint that has only query encoders.

        Fine-tuning only the query encoders does not change it, because their queries still fit an existing index.
        """
        if self.model.phrase_encoder is None:
            return None
        digest = hashlib.sha256()
        for part in (self.model.phrase_encoder, self.model.filter_linear):
            for name, value in sorted(part.state_dict().items()):
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def _truncated(title: str, tokenizer: Any, limit: int) -> str:
    """The beginning of a title that has at most `limit` tokens."""
    offsets = tokenizer(title, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return title[: offsets[limit - 1][1]] if len(offsets) > limit else title


def load_phrase_encoder(
    spec: str | os.PathLike[str], *, device: str = "cpu", tokenizer: str | None = None, **changes: Any
) -> PhraseEncoder:
    """Load a phrase encoder.

    Args:
        spec: a folder made by `python -m tour_pyserini.train phrase-encoder`, or a checkpoint of DensePhrases: its
            folder, or its name on the model hub (`princeton-nlp/densephrases-multi-query-multi`).
        device: `cpu`, `cuda:0`, ...
        tokenizer: folder or name of the tokenizer, if the model's folder has none.
        changes: fields of `EncoderSettings` that replace those of the folder, unless they are None.

    Example:
        load_phrase_encoder("models/phrases").encode("who wrote hamlet")  # float32 [768]
    """
    folder = encoder_folder(spec)
    if not is_checkpoint(folder):
        raise TourError(f"{folder} is not a phrase encoder: config.json or the weights are missing.")
    own = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"))
    tokens = read_tokenizer(encoder_folder(tokenizer or (folder if own else _TOKENIZER)))
    changes = {name: value for name, value in changes.items() if value is not None}
    settings = dataclasses.replace(EncoderSettings.read(folder), **changes)
    return PhraseEncoder(PhraseModel.read(folder), tokens, settings, device=device)
