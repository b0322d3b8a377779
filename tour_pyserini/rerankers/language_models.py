"""Language models that answer whether a passage is relevant: the log-odds of two answers is the score.

Causal models such as Qwen3-Reranker or mxbai-rerank-v2 answer after a prompt; sequence-to-sequence models such as
monoT5 (Nogueira et al., 2020) answer "true" or "false".
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.local_reranker import PROBES, LocalReranker, Options
from tour_pyserini.rerankers.prompts import FAMILIES, PAIR, PromptTokens, check_answers, choose_prompt
from tour_pyserini.rerankers.reranker import PRECISIONS_OF_DTYPES, Description, Pair
from tour_pyserini.support.model_files import (
    checkpoint_files,
    chosen_dtype,
    fingerprint,
    is_checkpoint,
    read_config,
    read_json,
    read_model,
    read_tokenizer,
    usable_length,
)
from tour_pyserini.support.tokens import Row

TEMPLATE = ("Query: {query}", "Document: {passage}", "Relevant:")
"""What monoT5 reads."""


class CausalModel:
    """A language model that predicts the next token.

    The score of a pair is the logit of the answer that means "relevant" minus the logit of the other answer, at the
    position after the prompt: the log-odds of the two answers. Families without a second answer use the first logit.
    """

    BACKENDS: tuple[str, ...] = ("torch",)
    TAKES_PROMPT = True

    def accepts(self, folder: Path) -> bool:
        """Whether the folder holds a language model that predicts the next token."""
        return is_checkpoint(folder) and any(head.endswith("ForCausalLM") for head in _heads(folder))

    def load(self, folder: Path, options: Options, *, name: str) -> LocalReranker:
        """Load the re-ranker in a checkpoint folder."""
        from tour_pyserini.rerankers.torch_runner import TorchRunner

        prompt = None if options.prompt == PAIR else choose_prompt(folder, options.prompt, name=name)
        if prompt is None:
            raise TourError(
                f"{name} is a language model, and neither its files nor its name say what it reads and answers as a "
                f"re-ranker; say it with --reranker-prompt (in Python: prompt): {', '.join(FAMILIES)}, or a file; "
                "or save the model with sentence-transformers (CrossEncoder with LogitScore)."
            )
        trusted = options.trust_remote_code
        config = read_config(folder, trust_remote_code=trusted)
        tokenizer = read_tokenizer(folder, trust_remote_code=trusted)
        answers = check_answers(prompt, tokenizer, name=name)
        length = usable_length(folder, config, tokenizer, options.max_length)
        tokens = PromptTokens(tokenizer, prompt, max_length=length, name=name)
        dtype = chosen_dtype(folder, options.wanted_dtype, options.device)
        model = read_model(
            folder, "AutoModelForCausalLM", config, device=options.device, dtype=dtype, trust_remote_code=trusted
        )
        parameters = inspect.signature(model.forward).parameters

        def answer_logits(inputs: dict[str, Any]) -> Any:
            """Logits [n]: of the first answer, minus that of the second one if there is one."""
            # Positions are counted without padding: models with absolute positions would give other logits otherwise.
            # The vocabulary is large: only the last position is needed.
            positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
            extra = {"position_ids": positions, "logits_to_keep": 1, "use_cache": False}
            taken = {name: value for name, value in extra.items() if name in parameters}
            logits = model(**inputs, **taken).logits[:, -1, answers].float()
            return logits[:, 0] - logits[:, 1] if logits.shape[1] == 2 else logits[:, 0]

        # Rows are padded on the left, so that the answer follows the last column. Padding is masked and has no answer
        # of its own, so any token will do for a tokenizer that has none for it.
        fill = {"input_ids": tokenizer.pad_token_id or 0}
        runner = TorchRunner(model, options, answer_logits, fill=fill, pad_left=True)
        runner.test_batches(tokens.rows(PROBES[:2]))
        score = " minus ".join(f"logit of {answer!r}" for answer in (prompt.yes, prompt.no) if answer is not None)
        files, half = checkpoint_files(folder, code=trusted), _half(dtype)
        return LocalReranker(
            name,
            fingerprint("causal-lm", files, max_length=length, template=prompt, **half),
            Description(type(model).__name__, score, prompt.text, "torch", PRECISIONS_OF_DTYPES[dtype], dtype, length),
            tokens,
            runner,
            options,
        )


class Seq2SeqModel:
    """An encoder-decoder that reads "Query: q Document: d Relevant:".

    The score is the logit of "true" minus the logit of "false" at the first decoded position: the log-odds of
    "true" against "false".
    """

    BACKENDS: tuple[str, ...] = ("torch",)

    def accepts(self, folder: Path) -> bool:
        """Whether the folder holds an encoder-decoder that generates text."""
        if not is_checkpoint(folder) or not read_json(folder / "config.json").get("is_encoder_decoder"):
            return False
        return not any(head.endswith("ForSequenceClassification") for head in _heads(folder))

    def load(self, folder: Path, options: Options, *, name: str) -> LocalReranker:
        """Load the re-ranker in a checkpoint folder."""
        import torch

        from tour_pyserini.rerankers.torch_runner import TorchRunner

        trusted, device, length = options.trust_remote_code, options.device, options.max_length
        config = read_config(folder, trust_remote_code=trusted)
        start_token = config.decoder_start_token_id
        if start_token is None:
            raise TourError(
                f"the configuration in {folder} has no decoder_start_token_id; choose a monoT5-like re-ranker."
            )
        tokenizer = read_tokenizer(folder, trust_remote_code=trusted)
        answers = [_token_id(tokenizer, answer, name) for answer in ("false", "true")]
        dtype = chosen_dtype(folder, options.wanted_dtype, device)
        model = read_model(
            folder, "AutoModelForSeq2SeqLM", config, device=device, dtype=dtype, trust_remote_code=trusted
        )

        def answer_logits(inputs: dict[str, Any]) -> Any:
            """Logits [n, 2] of "false" and "true"."""
            start = torch.full((len(inputs["input_ids"]), 1), start_token, device=device)
            return model(**inputs, decoder_input_ids=start).logits[:, 0, answers]

        score, files = 'logit of "true" minus logit of "false"', checkpoint_files(folder, code=trusted)
        return LocalReranker(
            name,
            fingerprint("seq2seq", files, max_length=length, template=TEMPLATE, **_half(dtype)),
            Description(
                type(model).__name__, score, " ".join(TEMPLATE), "torch", PRECISIONS_OF_DTYPES[dtype], dtype, length
            ),
            TemplateTokens(tokenizer, max_length=length),
            TorchRunner(model, options, answer_logits, fill={"input_ids": tokenizer.pad_token_id or 0}),
            options,
        )


class TemplateTokens:
    """Tokenises pairs in monoT5's template. If the input is too long, the passage is cut, never "Relevant:"."""

    def __init__(self, tokenizer: Any, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._length = max_length

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
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


def _heads(folder: Path) -> Sequence[str]:
    return read_json(folder / "config.json").get("architectures") or ()


def _half(dtype: str) -> dict[str, str]:
    """What a fingerprint says about the dtype: nothing about float32."""
    return {} if dtype == "float32" else {"dtype": dtype}


def _token_id(tokenizer: Any, answer: str, name: str) -> int:
    """The id of the single token for an answer: `▁true` in T5's vocabulary, `true` in others."""
    for token in (f"▁{answer}", answer):
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id is not None and token_id != tokenizer.unk_token_id:
            return token_id
    raise TourError(f"the tokenizer of {name} has no token for {answer!r}; choose a monoT5-like re-ranker.")
