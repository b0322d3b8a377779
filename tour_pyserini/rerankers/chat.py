"""A language model behind an OpenAI-compatible chat endpoint as a re-ranker: one request labels one pair."""

import json
import logging
import math
import os
import re
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.rerankers.remote import FIRST_RETRIES, REQUESTS, refuse_options, split_address
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker
from tour_pyserini.support.files import read_memo, write_memo
from tour_pyserini.support.http_client import JsonService, RefusedError, for_each, from_background
from tour_pyserini.support.model_files import encodable, fingerprint

log = logging.getLogger(__name__)

SCHEME = "chat:"
"""A re-ranker's name that begins like this is the address of a chat endpoint."""
KEY_VARIABLE, OPENAI_KEY_VARIABLE = "TOUR_CHAT_KEY", "OPENAI_API_KEY"
OPENAI = "api.openai.com"
"""The only host that is sent the key in OPENAI_API_KEY."""
ENDPOINT = "/chat/completions"
YES_NO, GRADES = "yes_no", "grades"
"""How a model answers: the tables of the prompt."""
LOWEST = -30.0
"""Log-probabilities are cut here: servers write -9999 or minus infinity for what is impossible."""
_NEGLIGIBLE = 0.01
"""Where yes and no together are so much less probable than another first token, such as <think>, no answer is told."""

_DEFAULT = Path(__file__).with_name("chat.toml")
_PROBE = ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")


class ChatReranker(PartsReranker):
    """A chat model that answers whether a document is relevant, asked about several pairs at a time.

    Where the server gives log-probabilities, the label is log p(yes) - log p(no) of the first token of the answer.
    Where it gives none, the model answers with a grade g, whose label is the logit of
    (g - least + 1/2) / (most - least + 1). Which of the two it is, is asked once and remembered, unless
    `?answer=yes_no` or `?answer=grades` in the address says it.

    Args:
        spec: `chat:http://HOST/v1#MODEL`; `?deadline=SECONDS&retries=N` may stand before the `#`.
        options: `threads` is the number of requests at a time, `prompt` a file as `chat.toml`, `instruction` the task.

    Attributes:
        name: the address and the model, for messages.
        fingerprint: of the model, what it is asked and how it answers, but not of the host.
        identity: what a record says about the model.

    Raises:
        TourError: if the address or the prompt is wrong, or the service does not answer.
    """

    def __init__(self, spec: str, options: Options) -> None:
        address, _, self._model = spec.removeprefix(SCHEME).partition("#")
        base, said = split_address(address, {"answer": (YES_NO, GRADES)})
        if not self._model:
            raise TourError(f"{SCHEME}{base} does not name a model; give chat:http://HOST/v1#MODEL.")
        refuse_options(options, ("max_length", "backend", "precision"), base)
        self.name, self._requests = f"{base}#{self._model}", options.threads or REQUESTS
        self._prompt = _read_prompt(options.prompt, options.instruction)
        self._price = self._prompt.pop("price", {})
        limits = {"deadline": said["deadline"], "retries": said["retries"], "connections": self._requests}
        self._service = JsonService(base, key_variable=_key_variable(base), **limits)
        self._spent: dict[str, int] = {}
        self._answer = said.get("answer") or self._find_answer()
        asked = {name: value for name, value in self._prompt.items() if name not in (YES_NO, GRADES)}
        self.identity = {"model": self._model, "answer": self._answer, "instruction": asked["instruction"]}
        self.fingerprint = fingerprint("chat", [], model=self._model, **asked, answer=self._prompt[self._answer])

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Ask for labels, and yield each as soon as it arrives.

        Raises:
            TourError: if the service is away or refuses a request, or at an answer that is none.
        """
        return from_background(partial(self._label_all, pairs))

    def spent(self) -> dict[str, float]:
        """The requests and tokens since the last call of this, and their cost if the prompt has prices."""
        counted, self._spent = self._spent, {}
        spent: dict[str, float] = dict(counted)
        if self._price and "prompt tokens" in spent:  # otherwise the service does not tell
            tokens = {name: spent.get(f"{name} tokens", 0) for name in ("prompt", "answer")}
            spent[self._price["currency"]] = sum(tokens[name] * self._price[name] for name in tokens) / 1e6
        return spent

    async def _label_all(self, pairs: Sequence[Pair], hand_over: Callable[[Part], None]) -> None:
        read, scale = _yes_no_label if self._answer == YES_NO else _grade_label, self._prompt[self._answer]

        answers, unread = 0, list[str]()

        async def label(position: int) -> None:
            nonlocal answers
            choice = await self._ask(pairs[position], self._answer)
            answers += 1
            try:
                logit = read(choice, scale)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                query, document = (text[:80] for text in pairs[position])
                pair = f"to the query {query!r} and the document {document!r}"
                unread.append(f"{str(choice.get('message'))[:120]} {pair} ({first_line(error)})")
                raise TourError(unread[0]) from error  # nothing more is asked
            hand_over((np.array([position]), np.array([logit])))

        try:
            await for_each(range(len(pairs)), label, at_once=self._requests)
        except TourError as error:
            if not unread:
                raise
            raise TourError(
                f"{len(unread)} of {answers} answers of {self.name} are no labels, such as {unread[0]}; change the "
                "prompt (--reranker-prompt) or the model."
            ) from error

    async def _ask(self, pair: Pair, answer: str, retries: int | None = None) -> dict[str, Any]:
        """The first choice of the answer about a pair."""
        scale = self._prompt[answer]
        document = encodable(str(pair[1]))[: self._prompt["max_characters"]]
        texts = {
            "instruction": self._prompt["instruction"],
            "query": _between_marks("query", encodable(pair[0])),
            "document": _between_marks("document", document),
            "question": scale["question"],
        }
        # In one go: a query may contain the word {document}.
        user = re.sub(r"\{(\w+)\}", lambda field: texts.get(field[1], field[0]), self._prompt["user"])
        body = {
            "model": self._model,
            "messages": [{"role": "system", "content": self._prompt["system"]}, {"role": "user", "content": user}],
            **self._prompt["request"],
        }
        if answer == YES_NO:
            body |= {"logprobs": True, "top_logprobs": scale["top_logprobs"]}
        reply = await self._service.ask(ENDPOINT, body, retries=retries)
        with suppress(TypeError, KeyError, IndexError):
            choice = reply["choices"][0]
            if isinstance(choice, dict):
                self._count(reply.get("usage"))
                return choice
        raise TourError(f"{self.name} gave an answer without choices, which is none of a chat; check the address.")

    def _count(self, usage: Any) -> None:
        used = usage if isinstance(usage, dict) else {}
        tokens = {"prompt tokens": used.get("prompt_tokens"), "answer tokens": used.get("completion_tokens")}
        for name, count in {"requests": 1, **tokens}.items():
            if type(count) is int and count >= 0:
                self._spent[name] = self._spent.get(name, 0) + count

    def _find_answer(self) -> str:
        """Whether the service gives log-probabilities, from the memo or from one request."""
        state = [self._model, json.dumps(self._prompt["request"], sort_keys=True)]
        answer = read_memo("chat", self.name, state)
        if answer is None:
            (answer,) = from_background(self._try_answers)
            write_memo("chat", self.name, state, answer)
        if answer == GRADES:
            log.warning("%s gives no log-probabilities: labels are grades", self.name)
        return answer

    async def _try_answers(self, hand_over: Callable[[str], None]) -> None:
        found = False
        try:
            choice = await self._ask(_PROBE, YES_NO, retries=FIRST_RETRIES)
            with suppress(TypeError, KeyError, IndexError):
                found = bool(choice["logprobs"]["content"][0]["top_logprobs"])
        except RefusedError as error:
            if error.status not in (400, 422):  # what servers say that do not know the field
                raise
        hand_over(YES_NO if found else GRADES)


def _read_prompt(path: str | None, instruction: str | None) -> dict[str, Any]:
    """What a model is asked: the fields of `chat.toml`, those of a file instead, and an instruction instead of that."""
    prompt = tomllib.loads(_DEFAULT.read_text(encoding="utf-8"))
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError) as error:
        raise TourError(f"the prompt {path} cannot be read as TOML ({first_line(error)}); correct it.") from error
    if unknown := sorted(set(given) - {*prompt, "price"}):
        raise TourError(f"{path} has no field {unknown[0]!r} as a prompt; the fields are {', '.join(prompt)}, price.")
    for name, value in given.items():
        if not isinstance(value, type(prompt.get(name, {}))):
            raise TourError(f"the field {name} in {path} is not a {type(prompt.get(name, {})).__name__}; correct it.")
        prompt[name] = prompt[name] | value if name in (YES_NO, GRADES) else value
    for name in ("query", "document", "question"):
        if f"{{{name}}}" not in prompt["user"]:
            raise TourError(f"the prompt in {path} has no {{{name}}} in its field user; add it.")
    price = prompt.get("price", {"currency": "", "prompt": 0, "answer": 0})
    if "currency" not in price or not all(isinstance(price.get(name), int | float) for name in ("prompt", "answer")):
        raise TourError(f"the price in {path} needs currency, prompt and answer (for a million tokens).")
    if instruction is not None:
        prompt["instruction"] = instruction
    return prompt


def _between_marks(name: str, text: str) -> str:
    """A text between marks that it cannot close, so that what follows it in the prompt is not part of it."""
    inside = re.sub(f"<(/?{name})", r"< \1", text, flags=re.IGNORECASE)
    return f"<{name}>\n{inside}\n</{name}>"


def _yes_no_label(choice: Mapping[str, Any], scale: Mapping[str, Any]) -> float:
    """Compute log p(yes) - log p(no) of the first token of the answer, each over all ways to write it.

    An answer that is not among the listed tokens is at most as probable as the last of them, and counts as that.
    """
    if not choice.get("logprobs"):
        raise ValueError("it has no log-probabilities; try ?answer=grades in the address")
    # Pairs, not a dict: servers write `yes` and ` yes`, two tokens, in the same way.
    listed = [(str(one["token"]), float(one["logprob"])) for one in choice["logprobs"]["content"][0]["top_logprobs"]]
    if not listed or not all(value <= 0.01 for _, value in listed):
        raise ValueError("its log-probabilities are none")
    logs = {}
    for answer in ("yes", "no"):
        found = [value for token, value in listed if token.strip().lower() == scale[answer].lower()]
        logs[answer] = math.log(sum(map(math.exp, found))) if found and max(found) > LOWEST else None
    likeliest, most = max(listed, key=lambda one: one[1])
    if sum(math.exp(value) for value in logs.values() if value is not None) < _NEGLIGIBLE * math.exp(most):
        raise ValueError(f"it begins with {likeliest!r}, and hardly ever with {scale['yes']!r} or {scale['no']!r}")
    least = max(min(value for _, value in listed), LOWEST)
    yes, no = (least if value is None else value for value in (logs["yes"], logs["no"]))
    return yes - no


def _grade_label(choice: Mapping[str, Any], scale: Mapping[str, Any]) -> float:
    """The logit of a grade, which must be the whole answer: (g - least + 1/2) / (most - least + 1)."""
    said = str(choice["message"]["content"]).strip()
    grade = int(said) if re.fullmatch(r"-?[0-9]{1,9}", said) else None
    least, most = scale["least"], scale["most"]
    if grade is None or not least <= grade <= most:
        raise ValueError(f"it is no number from {least} to {most}")
    share = (grade - least + 0.5) / (most - least + 1)
    return math.log(share / (1 - share))


def _key_variable(base: str) -> str:
    """The environment variable with the key: OpenAI's own is sent to OpenAI alone."""
    theirs = urlsplit(base).hostname == OPENAI and not os.environ.get(KEY_VARIABLE)
    return OPENAI_KEY_VARIABLE if theirs else KEY_VARIABLE
