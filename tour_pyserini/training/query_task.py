"""Query-side fine-tuning: trains query encoders on the phrases that they retrieve (the paper's Eq. 3)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.evaluation.answer_measures import answer_means, exact_match
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.training.losses import marginal_loss
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import computing_in, shuffled

QuestionAndAnswers = tuple[str, Sequence[str]]
"""A question and its answers."""


class QueryTask:
    """Trains the query encoders of a phrase encoder on the k best phrases of a whole index.

    The loss is - log sum of P_k(c | q) over those of the k best phrases c whose text is an answer. Questions without
    such a phrase are left out of the step. The phrase encoder does not change, so that the index stays valid.
    """

    def __init__(
        self,
        encoder: PhraseEncoder,
        searcher: PhraseSearcher,
        questions: Sequence[QuestionAndAnswers],
        validation: Sequence[QuestionAndAnswers],
        settings: TrainSettings,
        *,
        depth: int = 100,
    ) -> None:
        """Prepare the data.

        Args:
            encoder: its query encoders are trained in place.
            searcher: searches the index that the encoder built.
            questions: to train on.
            validation: decides which model is the best.
            settings: `batch_size` is the number of questions.
            depth: phrases retrieved for each question (k).
        """
        self.encoder, self.model = encoder, encoder.model
        self._searcher, self._questions, self._validation = searcher, questions, validation
        self._settings, self._depth = settings, depth
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith("query_") and "word_embeddings" not in name)
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Sequence[QuestionAndAnswers]) -> Any:
        """Eq. 3 as a mean over the questions with an answer among their phrases; None if there is no such question."""
        rows = self.encoder.question_rows([question for question, _ in batch])
        with computing_in(self._settings.precision, self.model):
            sides = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        queries = torch.cat(sides, dim=1).float()
        hits = self._searcher.finder.find(queries.detach().cpu().numpy(), phrases=self._depth)
        is_hit = hits.ids >= 0  # a list may be shorter than the others
        right = np.array(
            [
                [valid and self._is_answer(id_, answers) for id_, valid in zip(ids, mask, strict=True)]
                for ids, mask, (_, answers) in zip(hits.ids.tolist(), is_hit.tolist(), batch, strict=True)
            ]
        )
        useful = right.any(axis=1)
        if not useful.any():
            return None
        ids = np.where(is_hit, hits.ids, 0)[useful]
        vectors = self._searcher.finder.vectors(ids.reshape(-1)).reshape(*ids.shape, -1)
        chosen = torch.from_numpy(useful)
        logits = torch.einsum("qd,qkd->qk", queries[chosen], torch.from_numpy(vectors).to(queries))
        masks = (torch.from_numpy(mask[useful]).to(logits.device) for mask in (right, is_hit))
        return marginal_loss(logits, *masks).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the first phrase from the whole index."""
        ids = [str(number) for number in range(len(self._validation))]
        hits = self._searcher.batch_search([question for question, _ in self._validation], ids, k=1)
        best = [hits[id_][0].text if hits[id_] else "" for id_ in ids]
        return answer_means(best, [answers for _, answers in self._validation])

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)

    def _is_answer(self, id_: int, answers: Sequence[str]) -> bool:
        return exact_match(self._searcher.text(id_), answers) > 0

    def _batches(self, epoch: int) -> Sequence[Sequence[QuestionAndAnswers]]:
        order = shuffled(len(self._questions), self._settings.batch_size, [self._settings.seed, epoch])
        return [[self._questions[position] for position in group] for group in order]
