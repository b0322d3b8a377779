"""The passage re-ranker of R2-D2 (Fajcik et al., 2021), which the TouR paper uses."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row
from tour_pyserini.support.checkpoints import (
    files_of,
    fingerprint,
    is_checkpoint,
    read_config,
    read_tokenizer,
    usable_length,
)
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.optional import imported

ENCODER, HEAD = "encoder.", "vt.weight"
"""How weights are called: those of the encoder, and the row [1, hidden] that makes its pooled output a score."""


def has_weights(folder: Path) -> bool:
    """Whether there is a published checkpoint and no other, or safetensors with R2-D2's head."""
    return bool(published(folder)) or any(HEAD in _names(path) for path in folder.glob("*.safetensors"))


def published(folder: Path) -> list[Path]:
    """The files `*.ckpt`; beside weights of the usual names they are a training's left-overs and do not count."""
    return [] if is_checkpoint(folder) else sorted(folder.glob("*.ckpt"))


def read_weights(folder: Path) -> dict[str, Any]:
    """Tensors by name, the head among them."""
    files = published(folder)
    if len(files) > 1:
        raise TourError(f"{folder} holds {len(files)} files *.ckpt; leave one.")
    try:
        if files:
            weights = _tensors(files[0])
        else:
            read = imported("safetensors.torch").load_file
            weights = {name: value for path in folder.glob("*.safetensors") for name, value in read(path).items()}
    except TourError:
        raise
    except Exception as error:  # whatever a damaged file provokes
        reason = first_line(error)
        raise TourError(f"the weights in {folder} cannot be read ({reason[:200]}); fetch them again.") from error
    if HEAD not in weights:
        raise TourError(f"{folder} is no R2-D2 re-ranker: its checkpoint lacks {HEAD}.")
    return weights


def _tensors(path: Path) -> dict[str, Any]:
    """The tensors of a published checkpoint, which is pickled together with objects of its training's.

    Whatever classes it names are replaced by one that does nothing, so no code of theirs runs.
    """
    torch = imported("torch")
    named = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    with torch.serialization.safe_globals([(_Nothing, name) for name in named]):
        content = torch.load(path, map_location="cpu", weights_only=True)
    weights = content.get("model", content)
    return {name: value for name, value in weights.items() if isinstance(value, torch.Tensor)}


class _Nothing:
    """Takes what any other object would be made of, and keeps none of it."""

    def __new__(cls, *_: object) -> "_Nothing":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


def _names(path: Path) -> set[str]:
    try:
        with imported("safetensors").safe_open(path, framework="np") as file:
            return set(file.keys())
    except Exception:  # damaged: whoever loads it will say so
        return set()


TITLE, TEXT = "madeupword0001", "madeupword0000"
"""Words that RoBERTa's vocabulary holds and no text contains: they mark where title and text begin."""
TEMPLATE = f"<s> question </s> </s> {TITLE} title {TEXT} text </s>, cut at the end"
LONGEST = 256
"""Tokens of an input in the published re-ranker's training."""

BACKENDS: tuple[str, ...] = ("torch",)


def accepts(folder: Path) -> bool:
    """Whether the folder holds R2-D2's weights, published or as safetensors, and a configuration."""
    return (folder / "config.json").is_file() and has_weights(folder)


def load(folder: Path, options: Options, *, name: str) -> "R2D2Reranker":
    """The re-ranker in a folder with its weights and RoBERTa's configuration and tokenizer."""
    return R2D2Reranker(folder, options, name=name)


class R2D2Reranker(BatchedReranker):
    """RoBERTa with a linear score of its pooled output, which reads question, title and text apart.

    A passage that does not know its title is read with an empty one. What exceeds 256 tokens is cut from the text's
    end; a question that leaves no room for the passage is cut to half.
    """

    def __init__(self, folder: Path, options: Options, *, name: str) -> None:
        config = read_config(folder)
        weights = read_weights(folder)
        self._encoder = _encoder(folder, config, weights).to(options.device)
        self._head = weights[HEAD].float().to(options.device)
        self._tokenizer = read_tokenizer(folder)
        self._marks = _marks(self._tokenizer, name)
        self._length = usable_length(folder, config, self._tokenizer, min(options.max_length, LONGEST))
        self._device = options.device
        self._threads = options.threads
        files = [*files_of(folder), *published(folder)]
        super().__init__(
            name,
            fingerprint("r2d2", files, max_length=self._length, template=TEMPLATE),
            budget=options.token_budget,
            largest=options.batch_size,
            fill={"input_ids": self._tokenizer.pad_token_id or 0},
        )

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw scores, float64 [len(pairs)]; higher is more relevant."""
        with torch_threads(self._threads):
            return super().predict([(query, self.reads(passage)) for query, passage in pairs])

    @staticmethod
    def reads(passage: str) -> str:
        """What is read of a passage: its parts behind their marks."""
        title, text = passage.parts if isinstance(passage, Passage) else ("", passage)
        return f"{TITLE}{title}{TEXT}{text}"

    def _encode(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        return map(self._rows, chunks)

    def _rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        parts = [passage.removeprefix(TITLE).partition(TEXT) for _, passage in pairs]
        questions = self._ids([query for query, _ in pairs])
        titles = self._ids([title for title, _, _ in parts])
        texts = self._ids([text for _, _, text in parts])
        return [self._row(*ids) for ids in zip(questions, titles, texts, strict=True)]

    def _row(self, question: list[int], title: list[int], text: list[int]) -> Row:
        start, between, end, at_title, at_text = self._marks
        passage = [at_title, *title, at_text, *text]
        room = self._length - 4
        if len(question) >= room:
            question = question[: max(room - len(passage), room // 2)]
        whole = [start, *question, between, between, *passage]
        ids = [*whole[: self._length - 1], end]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        torch = imported("torch")
        with torch.inference_mode():
            inputs = {name: torch.from_numpy(ids).to(self._device) for name, ids in batch.items()}
            scores = self._encoder(**inputs).pooler_output @ self._head[0]
        return scores.double().cpu().numpy()


def _marks(tokenizer: Any, name: str) -> list[int]:
    """The ids of the start, the separator, the end, and the marks of title and text."""
    tokens = [tokenizer.bos_token, tokenizer.sep_token, tokenizer.eos_token, TITLE, TEXT]
    ids = [tokenizer.convert_tokens_to_ids(token) for token in tokens if token is not None]
    if len(ids) < len(tokens) or None in ids or tokenizer.unk_token_id in ids:
        raise TourError(
            f"the tokenizer of {name} lacks the marks of R2-D2's input, such as {TITLE}; use roberta-base's."
        )
    return ids


def _encoder(folder: Path, config: Any, weights: dict[str, Any]) -> Any:
    """The encoder in single precision, with every weight from the checkpoint and none left over."""
    model = imported("transformers").AutoModel.from_config(config, trust_remote_code=False).float().eval()
    if getattr(model, "pooler", None) is None:
        raise TourError(f"{folder} is no R2-D2 re-ranker: {config.model_type} has no pooled output to score.")
    # Old checkpoints hold the positions 0, 1, 2, ... too, which are no weights.
    own = {
        name.removeprefix(ENCODER): value
        for name, value in weights.items()
        if name != HEAD and not name.endswith("position_ids")
    }
    try:
        model.load_state_dict(own)
        if weights[HEAD].shape != (1, config.hidden_size):
            raise ValueError(f"{HEAD} has the shape {list(weights[HEAD].shape)}")
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise TourError(
            f"the weights in {folder} do not fit its config.json ({reason}); use roberta-base's."
        ) from error
    return model
