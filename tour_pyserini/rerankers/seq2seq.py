"""Load a sequence-to-sequence re-ranker that answers "true" or "false", such as monoT5 (Nogueira et al., 2020)."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.description import PRECISIONS, Description
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.reranker import Pair, Part
from tour_pyserini.support.batching import Row
from tour_pyserini.support.checkpoints import chosen_dtype, read_config, read_model, read_tokenizer
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.model_files import checkpoint_files, fingerprint, is_checkpoint, read_json
from tour_pyserini.support.optional import import_optional

BACKENDS: tuple[str, ...] = ("torch",)
TEMPLATE = ("Query: {query}", "Document: {passage}", "Relevant:")


def accepts(folder: Path) -> bool:
    """Whether the folder holds an encoder-decoder that generates text."""
    if not is_checkpoint(folder):
        return False
    config = read_json(folder / "config.json")
    heads = config.get("architectures") or ()
    return bool(config.get("is_encoder_decoder")) and not any(
        head.endswith("ForSequenceClassification") for head in heads
    )


def load(folder: Path, options: Options, *, name: str) -> "Seq2SeqReranker":
    """Load the re-ranker in a checkpoint folder."""
    return Seq2SeqReranker(folder, options, name=name)


class Seq2SeqReranker(BatchedReranker):
    """An encoder-decoder that reads "Query: q Document: d Relevant:".

    The score is the logit of "true" minus the logit of "false" at the first decoded position: the log-odds of
    "true" against "false". If the input is too long, the passage is cut, never "Relevant:".
    """

    def __init__(self, folder: Path, options: Options, *, name: str) -> None:
        trusted = options.trust_remote_code
        config = read_config(folder, trust_remote_code=trusted)
        dtype = chosen_dtype(folder, options.wanted_dtype, options.device)
        self._model = read_model(
            folder, "AutoModelForSeq2SeqLM", config, device=options.device, dtype=dtype, trust_remote_code=trusted
        )
        self._tokenizer = read_tokenizer(folder, trust_remote_code=trusted)
        self._answers = [_token_id(self._tokenizer, answer, name) for answer in ("false", "true")]
        self._length = options.max_length
        self._device = options.device
        self._threads = options.threads
        self._start = config.decoder_start_token_id
        if self._start is None:
            raise TourError(
                f"the configuration in {folder} has no decoder_start_token_id; choose a monoT5-like re-ranker."
            )
        files = checkpoint_files(folder, code=trusted)
        half = {"dtype": dtype} if dtype != "float32" else {}
        super().__init__(
            name,
            fingerprint("seq2seq", files, max_length=self._length, template=TEMPLATE, **half),
            Description(
                type(self._model).__name__,
                'logit of "true" minus logit of "false"',
                " ".join(TEMPLATE),
                "torch",
                PRECISIONS[dtype],
                dtype,
                self._length,
            ),
            budget=options.token_budget,
            largest=1 if half and options.device == "cpu" else options.batch_size,
            fill={"input_ids": self._tokenizer.pad_token_id or 0},
        )

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute the log-odds of "true" batch by batch; higher is more relevant."""
        with torch_threads(self._threads):
            yield from super().predict_parts(pairs)

    def _encode(self, chunks: Iterable[Sequence[Pair]]) -> Iterator[Sequence[Row]]:
        return map(self._rows, chunks)

    def _rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        texts = [" ".join(TEMPLATE).format(query=query, passage=passage) for query, passage in pairs]
        rows = []
        for pair, ids in zip(pairs, self._ids(texts, end=True), strict=True):
            ids = ids if len(ids) <= self._length else self._cut(pair)
            rows.append({"input_ids": ids, "attention_mask": [1] * len(ids)})
        return rows

    def _cut(self, pair: Pair) -> list[int]:
        """Token ids of a pair that is too long: the passage is cut, or both texts if the query alone does not fit."""
        query, passage = self._ids([TEMPLATE[0].format(query=pair[0]), TEMPLATE[1].format(passage=pair[1])])
        (ending,) = self._ids(TEMPLATE[2:], end=True)
        room = self._length - len(ending)
        if len(query) >= room:
            query = query[: max(room - len(passage), room // 2)]
        return query + passage[: room - len(query)] + ending

    def _ids(self, texts: Sequence[str], *, end: bool = False) -> list[list[int]]:
        return self._tokenizer(list(texts), add_special_tokens=end, verbose=False)["input_ids"]

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        torch = import_optional("torch")
        inputs = {name: torch.from_numpy(ids).to(self._device) for name, ids in batch.items()}
        start = torch.full((len(batch["input_ids"]), 1), self._start, device=self._device)
        with torch.inference_mode():
            logits = self._model(**inputs, decoder_input_ids=start).logits[:, 0, self._answers]
        false, true = logits.double().cpu().numpy().T
        return true - false


def _token_id(tokenizer: Any, answer: str, name: str) -> int:
    """The id of the single token for an answer: `▁true` in T5's vocabulary, `true` in others."""
    for token in (f"▁{answer}", answer):
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id is not None and token_id != tokenizer.unk_token_id:
            return token_id
    raise TourError(f"the tokenizer of {name} has no token for {answer!r}; choose a monoT5-like re-ranker.")
