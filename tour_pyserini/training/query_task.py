"""Query-side fine-tuning: the query encoders learn from what they retrieve (the paper's Eq. 3)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.evaluation.answer_measures import exact_match
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.training.phrase_task import marginal
from tour_pyserini.training.phrase_validation import answer_means
from tour_pyserini.training.train_settings import TrainSettings, computing_in
from tour_pyserini.training.trainer import shuffled

Asked = tuple[str, Sequence[str]]
"""A question and its answers."""


class QueryTask:
    """The query encoders of a phrase encoder, trained on the top phrases of a whole index.

    What is made likelier is that a phrase among the k best is an answer: - log sum of P_k(c | q) over the phrases
    whose text is an answer. Questions without one among them teach nothing in that step. The index stays valid.
    """

    def __init__(
        self,
        encoder: PhraseEncoder,
        searcher: PhraseSearcher,
        questions: Sequence[Asked],
        validation: Sequence[Asked],
        settings: TrainSettings,
        *,
        depth: int = 100,
    ) -> None:
        """Prepare the data.

        Args:
            encoder: its query encoders are trained in place.
            searcher: over the index that its phrase encoder made.
            questions: to learn from.
            validation: to choose the best model by.
            settings: `batch_size` counts questions.
            depth: phrases retrieved for each question (k).
        """
        self.encoder, self.model = encoder, encoder.model
        self._searcher, self._questions, self._validation = searcher, questions, validation
        self._settings, self._depth = settings, depth
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith("query_") and "word_embeddings" not in name)
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Sequence[Asked]) -> Any:
        """Eq. 3, as a mean over the questions that have an answer among their phrases."""
        rows = self.encoder.question_rows([question for question, _ in batch])
        with computing_in(self._settings.precision, self.model):
            sides = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        queries = torch.cat(sides, dim=1).float()
        hits = self._searcher.finder.find(queries.detach().cpu().numpy(), phrases=self._depth)
        there = hits.ids >= 0
        right = np.array(
            [
                [known and self._is_right(id_, answers) for id_, known in zip(ids, mask, strict=True)]
                for ids, mask, (_, answers) in zip(hits.ids.tolist(), there.tolist(), batch, strict=True)
            ]
        )
        useful = right.any(axis=1)
        if not useful.any():
            return None
        ids = np.where(there, hits.ids, 0)[useful]
        vectors = self._searcher.finder.vectors(ids.reshape(-1)).reshape(*ids.shape, -1)
        chosen = torch.from_numpy(useful)
        logits = torch.einsum("qd,qkd->qk", queries[chosen], torch.from_numpy(vectors).to(queries))
        masks = (torch.from_numpy(mask[useful]).to(logits.device) for mask in (right, there))
        return marginal(logits, *masks).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the first phrase from the whole index."""
        ids = [str(number) for number in range(len(self._validation))]
        found = self._searcher.batch_search([question for question, _ in self._validation], ids, k=1)
        best = [found[id_][0].text if found[id_] else "" for id_ in ids]
        return answer_means(best, [answers for _, answers in self._validation])

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)

    def _is_right(self, id_: int, answers: Sequence[str]) -> bool:
        return exact_match(self._searcher.text(id_), answers) > 0

    def _batches(self, epoch: int) -> Sequence[Sequence[Asked]]:
        order = shuffled(len(self._questions), self._settings.batch_size, [self._settings.seed, epoch])
        return [[self._questions[place] for place in group] for group in order]
