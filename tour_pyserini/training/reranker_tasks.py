"""The task that trains a phrase re-ranker.

Its data are the phrases that the retriever finds for questions; in every epoch, one right and one wrong phrase per
question are drawn.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softplus

from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import exact_match, matcher_for
from tour_pyserini.phrases.phrase_index import PhraseSpan, read_settings
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.phrases.reranker_input import BEGIN, END, RerankerInput
from tour_pyserini.rerankers.local_reranker import PairTokens
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.model_files import padded, read_tokenizer, usable_length
from tour_pyserini.training.examples import training_questions
from tour_pyserini.training.trainer import Task

if TYPE_CHECKING:
    from tour_pyserini.train import PhraseRerankerRequest

_LOGITS = {"pairwise": 1, "pointwise": 2}
"""The losses, and how many logits a re-ranker has for each."""
_AT_ONCE = 16  # questions that are searched together
_VALIDATED_AT_ONCE = 32  # questions

_Pair = tuple[str, PhraseSpan, PhraseSpan]
"""A question, a right and a wrong phrase."""


class _Candidates(NamedTuple):
    """A question, with the right and the wrong phrases that were retrieved for it."""

    question: str
    right: Sequence[PhraseSpan]
    wrong: Sequence[PhraseSpan]


def _marked_classifier(folder: Path, *, logits: int) -> tuple[Any, Any]:
    """The model and tokenizer in a folder, with one or two logits and with [S] and [E] as tokens.

    If the checkpoint has no head with this number of logits, the head starts with random weights. A mark that is not
    yet a token starts near the mean of all token vectors.
    """
    from transformers import AutoModelForSequenceClassification

    tokenizer = read_tokenizer(folder)
    options: dict[str, Any] = {"ignore_mismatched_sizes": True, "weights_only": True, "trust_remote_code": False}
    model = AutoModelForSequenceClassification.from_pretrained(str(folder), num_labels=logits, **options).float()
    added = tokenizer.add_tokens([BEGIN, END], special_tokens=True)
    if added:
        before = model.get_input_embeddings().weight.detach().clone()
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        vectors = model.get_input_embeddings().weight
        with torch.no_grad():
            fresh = vectors[len(tokenizer) - added : len(tokenizer)]
            fresh.copy_(before.mean(0) + 0.1 * before.std(0) * torch.randn_like(fresh))
    return model, tokenizer


class RerankerTask(Task):
    """Trains a cross-encoder to score right phrases above wrong ones.

    The pairwise loss is the paper's: the binary cross-entropy of P+ = exp(h+) / (exp(h+) + exp(h-)). The pointwise loss
    is that of the paper's published code: each phrase alone is classified as right or wrong.

    Attributes:
        candidates: the questions with their right and wrong phrases.
    """

    def __init__(self, request: "PhraseRerankerRequest", base: Path) -> None:
        """Retrieve the candidates, and read the model to start from.

        Args:
            request: `batch_size` is the number of questions; for validation, one pair per question is drawn once.
            base: the folder of the model.
        """
        torch.manual_seed(request.seed)  # for the first weights of the head and of the marks
        model, tokenizer = _marked_classifier(base, logits=_LOGITS[request.loss])
        # As in the paper's code: title, the tokenizer's separator, context.
        separator = f" {tokenizer.sep_token} " if tokenizer.sep_token else " "
        self.reranker_input = RerankerInput(context=request.context, title=not request.no_title, separator=separator)
        parts = training_questions(request)
        encoder = request.encoder or read_settings(request.index)["encoder"]
        self._searcher = PhraseSearcher.open(request.index, request.corpus, encoder, device=request.device)
        self.request, self._pairwise = request, request.loss == "pairwise"
        self.candidates = self._find(parts[0])
        self._validation = _draw_pairs(self._find(parts[1]), [request.seed])
        self.model, self._tokenizer = on_device(model, request.device), tokenizer
        self._max_length = usable_length(base, model.config, tokenizer, request.max_length)
        # Truncates and pads as search does. It works on a copy: the saved tokenizer must not depend on the last batch.
        self._pairs = PairTokens(copy.deepcopy(tokenizer), max_length=self._max_length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}

    def _find(self, questions: Sequence[Question]) -> list[_Candidates]:
        """Retrieve phrases for each question, and separate the right ones from the wrong ones.

        Questions that do not have both are left out.
        """
        from tqdm import tqdm

        useful = []
        for start in tqdm(range(0, len(questions), _AT_ONCE), desc="retrieving", disable=None):
            some = questions[start : start + _AT_ONCE]
            hits = self._searcher.batch_search([q.text for q in some], [q.qid for q in some], self.request.depth)
            for question in some:
                found: dict[bool, list[PhraseSpan]] = {True: [], False: []}
                for hit in hits[question.qid]:
                    span = PhraseSpan(hit.docid, hit.begin, hit.end)
                    found[self._holds_answer(span, question.answers)].append(span)
                if found[True] and found[False]:
                    useful.append(_Candidates(question.text, found[True], found[False]))
        if not useful:
            raise TourError(
                "no question has both right and wrong phrases among its candidates; check index and answers."
            )
        return useful

    def _holds_answer(self, span: PhraseSpan, answers: Sequence[str]) -> bool:
        """Whether a phrase is right: its context contains an answer, or, as `positive` says, it is one."""
        _, text = self._searcher.passage(span)
        if self.request.positive == "phrase":
            return exact_match(text[span.begin : span.end], answers) > 0
        first, last = self.reranker_input.context_span(text, span.begin, span.end)
        return bool(matcher_for([answers]).matches(text[first:last]))

    def batches(self, epoch: int) -> Sequence[Sequence[_Pair]]:
        """Pairs that are drawn for this epoch."""
        return self.shuffled(_draw_pairs(self.candidates, [self.request.seed, epoch, 1]), epoch, 0)

    def loss(self, batch: Sequence[_Pair]) -> Any:
        """The mean loss of pairs."""
        return self._judge(batch)[0]

    def validate(self) -> Mapping[str, float]:
        """Share of pairs whose right phrase scores higher (pointwise: of right classes), and mean log-likelihood."""
        right, losses = [], []
        with torch.inference_mode():
            for start in range(0, len(self._validation), _VALIDATED_AT_ONCE):
                batch = self._validation[start : start + _VALIDATED_AT_ONCE]
                loss, is_right = self._judge(batch)
                right.append(is_right)
                losses.append(float(loss) * len(batch))
        accuracy = float(torch.cat(right).float().mean())
        return {"accuracy": accuracy, "log_likelihood": -sum(losses) / len(self._validation)}

    def save(self, folder: Path) -> None:
        """Write the re-ranker, and the settings of its phrase input beside it."""
        self._tokenizer.model_max_length = self._max_length  # search reads as much as training did
        self.model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        self.reranker_input.save(folder)

    def _judge(self, batch: Sequence[_Pair]) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean loss of pairs, and which pairs (pointwise: which phrases, first the right ones) are right."""
        pairs = [(question, self._passage(right)) for question, right, _ in batch]
        pairs += [(question, self._passage(wrong)) for question, _, wrong in batch]
        rows = padded(self._pairs.rows(pairs), self._fill, left=self._tokenizer.padding_side == "left")
        coded = {name: torch.from_numpy(ids).to(self.request.device) for name, ids in rows.items()}
        with self.computing():
            logits = self.model(**coded).logits.float()
        if self._pairwise:
            right, wrong = logits[:, 0].chunk(2)
            return softplus(wrong - right).mean(), right > wrong
        classes = torch.tensor([1] * len(batch) + [0] * len(batch), device=self.request.device)
        return cross_entropy(logits, classes), logits.argmax(1) == classes

    def _passage(self, span: PhraseSpan) -> str:
        return self.reranker_input(*self._searcher.passage(span), span.begin, span.end)


def _draw_pairs(candidates: Sequence[_Candidates], seed: Sequence[int]) -> list[_Pair]:
    """Draw one right and one wrong phrase for each question."""
    random = np.random.default_rng(list(seed))

    def draw(spans: Sequence[PhraseSpan]) -> PhraseSpan:
        return spans[int(random.integers(len(spans)))]

    return [(question, draw(right), draw(wrong)) for question, right, wrong in candidates]
