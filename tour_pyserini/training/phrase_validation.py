"""Validation of a phrase encoder on questions that it is not trained on."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tour_pyserini.data.documents import Document, Passage
from tour_pyserini.data.token_rows import ENDS, STARTS, Rows
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.evaluation.answer_measures import answer_means
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex
from tour_pyserini.stores.phrases.phrase_index_writing import build_token_index
from tour_pyserini.training.training_examples import Example, answer_spans


class PhraseValidation:
    """Measures the best phrase among all validation passages, and sets the threshold of the encoder's filter.

    The threshold is the highest one that keeps the share `recall` of the starts and ends of answers; it is put into
    the encoder's settings.
    """

    def __init__(self, examples: Sequence[Example], *, recall: float = 0.98) -> None:
        self._examples, self._recall = examples, recall
        self._documents = {example.docid: Document(example.docid, example.title, example.text) for example in examples}

    def __call__(self, encoder: PhraseEncoder) -> dict[str, float]:
        """Exact match and F1 of the first phrase for each question."""
        tokens = encoder.passages(list(self._documents.values()), threshold=-np.inf)
        rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
        norm = float(np.linalg.norm(vectors, axis=1).max())
        index = PhraseIndex(rows, vectors, build_token_index(vectors), list(self._documents), True, norm)
        texts = {docid: Passage(document.title, document.text) for docid, document in self._documents.items()}
        ids = [str(number) for number in range(len(self._examples))]
        questions = [example.question for example in self._examples]
        hits = PhraseSearcher(index, encoder, texts).batch_search(questions, ids, k=1)
        self._set_threshold(encoder, rows, vectors)
        best = [hits[id_][0].text if hits[id_] else "" for id_ in ids]
        return answer_means(best, [example.answers for example in self._examples])

    def _set_threshold(self, encoder: PhraseEncoder, rows: Rows, vectors: np.ndarray) -> None:
        linear = encoder.model.filter_linear
        weight, bias = (value.detach().cpu().numpy() for value in (linear.weight, linear.bias))
        logits = vectors @ weight.T + bias
        gold = [logits[numbers, side] for side, numbers in enumerate(self._gold(rows))]
        lowest = float(np.quantile(np.concatenate(gold), 1 - self._recall, method="lower"))
        # Only logits above the threshold are kept, and the lowest one must be kept.
        threshold = float(np.nextafter(np.float32(lowest), np.float32(-np.inf)))
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=threshold)

    def _gold(self, rows: Rows) -> tuple[list[int], list[int]]:
        """The numbers of the rows at which answers begin, and of those at which they end."""
        passage_numbers = {docid: number for number, docid in enumerate(self._documents)}
        row_at = [
            {(int(row["passage"]), int(row[edge])): number for number, row in enumerate(rows) if row["roles"] & role}
            for edge, role in (("begin", STARTS), ("end", ENDS))
        ]
        gold: tuple[list[int], list[int]] = ([], [])
        for example in self._examples:
            for span in answer_spans(example.text, example.answers):
                for side, offset in enumerate(span):
                    key = (passage_numbers[example.docid], offset)
                    if key in row_at[side]:
                        gold[side].append(row_at[side][key])
        return gold
