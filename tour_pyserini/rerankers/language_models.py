"""Language models that answer whether a passage is relevant: the log-odds of two answers is the score.

Causal models such as Qwen3-Reranker or mxbai-rerank-v2 answer after a prompt; sequence-to-sequence models such as
monoT5 (Nogueira et al., 2020) answer "true" or "false". Most causal models are published without their prompt: it
stands in the authors' documentation or code only. The prompts of such families are in `prompts.toml`, word for word.
"""

import inspect
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.local_reranker import (
    PROBES,
    SHORTEST_INPUT,
    Checkpoint,
    Kind,
    LocalReranker,
    Options,
    cut_pair,
)
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.model_files import Row, is_checkpoint, read_json

TEMPLATE = ("Query: {query}", "Document: {passage}", "Relevant:")
"""What monoT5 reads."""
QUERY, PASSAGE = "{query}", "{passage}"
BOS = "{bos}"
"""Stands for the tokenizer's own first token, if it has one."""
PAIR = "pair"
"""The name for "no prompt": query and passage as the tokenizer's pair of texts."""
FIELDS = ("prompt", "yes", "no")
"""What a file with a prompt holds."""

_FIELD = re.compile(f"{re.escape(QUERY)}|{re.escape(PASSAGE)}")


class _Prompt(NamedTuple):
    """The text that a model reads for a pair, in parts that are tokenised one by one, and its answers.

    Attributes:
        before: parts before query and passage.
        body: parts with `{query}` and `{passage}`; the last one ends with `{passage}`, so that its end can be cut.
        after: parts after the passage; they are never cut.
        yes: the answer that means "relevant"; a single token.
        no: the answer that means "not relevant"; None if the logit of `yes` alone is the score.
    """

    before: tuple[str, ...]
    body: tuple[str, ...]
    after: tuple[str, ...]
    yes: str
    no: str | None


FAMILIES: Mapping[str, tuple[_Prompt, str, str]] = {
    name: (
        _Prompt(tuple(of["before"]), tuple(of["body"]), tuple(of["after"]), of["yes"], of.get("no")),
        of["model_type"],
        of["names"],
    )
    for name, of in tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8")).items()
}
"""By the name that the option `prompt` takes: the prompt, and the architecture and the names of its models."""


def choose_prompt(folder: Path, wanted: str | None, *, name: str) -> _Prompt | None:
    """The prompt of a model, or None if no prompt is known for it or none is wanted.

    Args:
        folder: the folder of the model.
        wanted: the name of a family, the path of a file with a prompt, or `PAIR`, as the user gave it, if anything.
        name: what the user called the model: the published name says which family it is.
    """
    if wanted is not None:
        known = {PAIR: None, **{family: prompt for family, (prompt, _, _) in FAMILIES.items()}}
        return known[wanted] if wanted in known else _read_prompt(Path(wanted))
    # The architecture alone does not tell: a re-ranker and the language model it was made from have the same.
    found = read_json(folder / "config.json").get("model_type")
    for prompt, model_type, pattern in FAMILIES.values():
        if model_type == found and re.search(pattern, Path(name).name, re.IGNORECASE):
            return prompt
    return None


def _read_prompt(path: Path) -> _Prompt:
    """Read a prompt from a JSON file with `prompt` (a text with `{query}` before `{passage}`), `yes` and, if any, `no`.

    The text up to the passage and the text after it are tokenised separately.
    """
    content = read_json(path)
    text, yes, no = (content.get(field) for field in FIELDS)
    if not set(content) <= set(FIELDS) or not isinstance(text, str) or not isinstance(yes, str):
        known = ", ".join([PAIR, *FAMILIES])
        example = '{"prompt": "{query} ... {passage} ...", "yes": "yes", "no": "no"}'
        raise TourError(f"{path} is neither one of the prompts {known} nor a JSON file such as {example}.")
    query, _, rest = text.partition(QUERY)
    body, found, after = rest.partition(PASSAGE)
    if not found or QUERY in rest or PASSAGE in query + after:
        raise TourError(f"the prompt in {path} must have {QUERY} once, and then {PASSAGE} once; correct it.")
    return _Prompt((), (query + QUERY + body + PASSAGE,), (after,) if after else (), yes, no)


def _answer_tokens(prompt: _Prompt, tokenizer: Any, *, name: str) -> list[int]:
    """The token ids of the answers, `yes` first; each must be a single token."""
    answers = [prompt.yes, *([prompt.no] if prompt.no is not None else [])]
    tokens = [tokenizer(answer, add_special_tokens=False)["input_ids"] for answer in answers]
    if not all(len(ids) == 1 for ids in tokens):
        raise TourError(f"not each answer {answers} is one token of {name}; give its own prompt (--reranker-prompt).")
    return [ids[0] for ids in tokens]


class PromptTokens:
    """Tokenises pairs as parts of a prompt, each part on its own, as the authors of such models do.

    If an input is too long, the end of the passage is cut. A query that leaves no room for the passage is cut too, to
    half of the room if need be; what the prompt says between the two stays.

    Args:
        tokenizer: of transformers.
        prompt: what stands around query and passage.
        max_length: tokens per input, prompt included.
        name: the name of the model, for messages.
    """

    def __init__(self, tokenizer: Any, prompt: _Prompt, *, max_length: int, name: str) -> None:
        self._tokenizer, self._body = tokenizer, prompt.body
        self._start, self._middle = "".join(prompt.body).removesuffix(PASSAGE).split(QUERY)
        self._before = self._ids([part.replace(BOS, tokenizer.bos_token or "") for part in prompt.before])
        self._after = self._ids(prompt.after)
        self._room = max_length - len(self._before) - len(self._after)
        fixed = len(self._ids(_fill(self._body, ("", ""))))
        if self._room < fixed + SHORTEST_INPUT:
            raise prompt_too_long(name, max_length - self._room + fixed, max_length)

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        ids = [[*self._before, *self._body_ids(pair), *self._after] for pair in pairs]
        return [{"input_ids": row, "attention_mask": [1] * len(row)} for row in ids]

    def _body_ids(self, pair: Pair) -> list[int]:
        body = self._ids(_fill(self._body, pair))
        if len(body) <= self._room:
            return body
        if len(self._ids(_fill(self._body, (pair[0], "")))) < self._room:
            return body[: self._room]
        start, query, middle, passage = (self._ids([text]) for text in (self._start, pair[0], self._middle, pair[1]))
        query, passage = cut_pair(query, passage, self._room - len(start) - len(middle))
        return start + query + middle + passage

    def _ids(self, parts: Sequence[str]) -> list[int]:
        """The token ids of all parts, one after the other."""
        ids = self._tokenizer(list(parts), add_special_tokens=False, verbose=False)["input_ids"] if parts else []
        return [token for part in ids for token in part]


def prompt_too_long(name: str, tokens: int, max_length: int) -> TourError:
    """The error for a prompt that leaves no room for a pair."""
    room = f"takes {tokens} tokens, which leaves no room for a pair in {max_length}"
    return TourError(f"the prompt of {name} {room}; give a greater maximum length (--reranker-max-length).")


def _fill(parts: Sequence[str], pair: Pair) -> list[str]:
    """Replace the fields of each part in one go: a query may contain the word {passage}."""
    return [_FIELD.sub(lambda field: pair[0] if field[0] == QUERY else pair[1], part) for part in parts]


def _is_causal(folder: Path) -> bool:
    """Whether a folder holds a language model that predicts the next token."""
    return is_checkpoint(folder) and any(head.endswith("ForCausalLM") for head in _heads(folder))


def _load_causal(folder: Path, options: Options, *, name: str) -> LocalReranker:
    """Load a language model that predicts the next token.

    The score of a pair is the logit of the answer that means "relevant" minus the logit of the other answer, at the
    position after the prompt: the log-odds of the two answers. Families without a second answer use the first logit.
    """
    from tour_pyserini.rerankers.torch_runner import TorchRunner

    prompt = choose_prompt(folder, options.prompt, name=name)
    if prompt is None:
        raise TourError(
            f"neither the files nor the name of the language model {name} say what it reads as a re-ranker; "
            f"say it with --reranker-prompt (in Python: prompt): {', '.join(FAMILIES)}, or a file."
        )
    checkpoint = Checkpoint(folder, options)
    tokenizer = checkpoint.tokenizer
    answers = _answer_tokens(prompt, tokenizer, name=name)
    tokens = PromptTokens(tokenizer, prompt, max_length=checkpoint.length, name=name)
    model = checkpoint.read("AutoModelForCausalLM")
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
    return LocalReranker(
        name, checkpoint.identify("causal-lm", checkpoint.files, template=prompt), tokens, runner, options
    )


def _is_seq2seq(folder: Path) -> bool:
    """Whether a folder holds an encoder-decoder that generates text."""
    if not is_checkpoint(folder) or not read_json(folder / "config.json").get("is_encoder_decoder"):
        return False
    return not any(head.endswith("ForSequenceClassification") for head in _heads(folder))


def _load_seq2seq(folder: Path, options: Options, *, name: str) -> LocalReranker:
    """Load an encoder-decoder that reads "Query: q Document: d Relevant:".

    The score is the logit of "true" minus the logit of "false" at the first decoded position: the log-odds of
    "true" against "false".
    """
    import torch

    from tour_pyserini.rerankers.torch_runner import TorchRunner

    checkpoint = Checkpoint(folder, options)
    checkpoint.length = options.max_length  # positions are relative: there is no limit of the model's own
    start_token, tokenizer = checkpoint.config.decoder_start_token_id, checkpoint.tokenizer
    answers = [_token_id(tokenizer, answer, name) for answer in ("false", "true")]
    model = checkpoint.read("AutoModelForSeq2SeqLM")

    def answer_logits(inputs: dict[str, Any]) -> Any:
        """Logits [n, 2] of "false" and "true"."""
        start = torch.full((len(inputs["input_ids"]), 1), start_token, device=options.device)
        return model(**inputs, decoder_input_ids=start).logits[:, 0, answers]

    return LocalReranker(
        name,
        checkpoint.identify("seq2seq", checkpoint.files, template=TEMPLATE),
        _TemplateTokens(tokenizer, max_length=checkpoint.length),
        TorchRunner(model, options, answer_logits, fill={"input_ids": tokenizer.pad_token_id or 0}),
        options,
    )


class _TemplateTokens:
    """Tokenises pairs in monoT5's template. If the input is too long, the passage is cut, never "Relevant:"."""

    def __init__(self, tokenizer: Any, *, max_length: int) -> None:
        self._tokenizer, self._length = tokenizer, max_length

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length."""
        ids = [self._row(*pair) for pair in pairs]
        return [{"input_ids": row, "attention_mask": [1] * len(row)} for row in ids]

    def _row(self, query: str, passage: str) -> list[int]:
        before, between, ending = TEMPLATE
        before, between = before.format(query=query), between.format(passage=passage)
        whole = self._ids(f"{before} {between} {ending}", end=True)
        if len(whole) <= self._length:
            return whole
        after = self._ids(ending, end=True)
        first, second = cut_pair(self._ids(before), self._ids(between), self._length - len(after))
        return first + second + after

    def _ids(self, text: str, *, end: bool = False) -> list[int]:
        return self._tokenizer(text, add_special_tokens=end, verbose=False)["input_ids"]


def _heads(folder: Path) -> Sequence[str]:
    return read_json(folder / "config.json").get("architectures") or ()


def _token_id(tokenizer: Any, answer: str, name: str) -> int:
    """The id of the single token for an answer: `▁true` in T5's vocabulary, `true` in others."""
    for token in (f"▁{answer}", answer):
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id is not None and token_id != tokenizer.unk_token_id:
            return token_id
    raise TourError(f"the tokenizer of {name} has no token for {answer!r}; choose a monoT5-like re-ranker.")


CAUSAL = Kind(_is_causal, _load_causal, TAKES_PROMPT=True)
SEQ2SEQ = Kind(_is_seq2seq, _load_seq2seq)
