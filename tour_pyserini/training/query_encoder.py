"""Query-side fine-tuning: trains query encoders on the phrases that they retrieve (the paper's Eq. 3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.evaluation.answer_measures import exact_match
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.training.phrase_encoder import marginal_loss, measure_first_phrases
from tour_pyserini.training.request import TrainRequest
from tour_pyserini.training.trainer import computing_in, shuffle_batches

QuestionAndAnswers = tuple[str, Sequence[str]]
"""A question and its answers."""


class QueryTask:
    """Trains the query encoders of a phrase encoder on the k best phrases of a whole index.

    The loss is - log sum of P_k(c | q) over those of the k best phrases c whose text is an answer. Questions without
    such a phrase are left out of the step. The phrase encoder does not change, so that the index stays valid.
    """

    def __init__(
        self,
        searcher: PhraseSearcher,
        questions: Sequence[QuestionAndAnswers],
        validation: Sequence[QuestionAndAnswers],
        request: TrainRequest,
        *,
        depth: int = 100,
    ) -> None:
        """Prepare the data.

        Args:
            searcher: searches an index with the phrase encoder that built it, whose query encoders are trained in
                place.
            questions: to train on.
            validation: decides which model is the best.
            request: `batch_size` is the number of questions.
            depth: phrases retrieved for each question (k).
        """
        self.encoder, self.model = searcher.query_encoder, searcher.query_encoder.model
        self._searcher, self._questions, self._validation = searcher, questions, validation
        self._request, self._depth = request, depth
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith("query_") and "word_embeddings" not in name)

    def batches(self, epoch: int) -> Sequence[Sequence[QuestionAndAnswers]]:
        """Questions in random order."""
        return shuffle_batches(self._questions, self._request.batch_size, [self._request.seed, epoch])

    def loss(self, batch: Sequence[QuestionAndAnswers]) -> Any:
        """Eq. 3 as a mean over the questions with an answer among their phrases; None if there is no such question."""
        rows = self.encoder.question_rows([question for question, _ in batch])
        with computing_in(self._request.precision, self.model):
            sides = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        queries = torch.cat(sides, dim=1).float()
        hits = self._searcher.finder.find(queries.detach().cpu().numpy(), phrases=self._depth)
        is_hit = hits.ids >= 0  # a list may be shorter than the others
        right = np.array(
            [
                [id_ >= 0 and exact_match(self._searcher.text(id_), answers) > 0 for id_ in ids]
                for ids, (_, answers) in zip(hits.ids.tolist(), batch, strict=True)
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
        return measure_first_phrases(self._searcher, self._validation)

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)
