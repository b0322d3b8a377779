"""How good a phrase encoder is on questions that it is not trained on."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tour_pyserini.data.documents import Document, Passage
from tour_pyserini.data.token_rows import ENDS, STARTS, Rows
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.evaluation.answer_measures import MEASURES
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex
from tour_pyserini.stores.phrases.phrase_index_writing import build_token_index
from tour_pyserini.training.training_examples import Example, answer_spans


def answer_means(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean of each measure over questions: `EM`, then `F1`.

    Example:
        >>> answer_means(["The Beatles", "1902"], [["Beatles"], ["1901"]])
        {'EM': 0.5, 'F1': 0.5}
    """
    pairs = list(zip(predicted, answers, strict=True))
    return {name: float(np.mean([measure(*pair) for pair in pairs])) for name, measure in MEASURES.items()}


class PhraseValidation:
    """Retrieves the best phrase from all validation passages, and finds the threshold of the filter.

    The threshold becomes the lowest logit among the share `recall` of the answers' starts and ends that the filter
    likes best; it is put into the encoder's settings.
    """

    def __init__(self, examples: Sequence[Example], *, recall: float = 0.98) -> None:
        self._examples, self._recall = examples, recall
        self._documents = {one.docid: Document(one.docid, one.title, one.text) for one in examples}

    def __call__(self, encoder: PhraseEncoder) -> dict[str, float]:
        """Exact match and F1 of the first phrase."""
        tokens = encoder.passages(list(self._documents.values()), threshold=-np.inf)
        rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
        norm = float(np.linalg.norm(vectors, axis=1).max())
        index = PhraseIndex(rows, vectors, build_token_index(vectors), list(self._documents), True, norm)
        texts = {docid: Passage(document.title, document.text) for docid, document in self._documents.items()}
        ids = [str(number) for number in range(len(self._examples))]
        found = PhraseSearcher(index, encoder, texts).batch_search([one.question for one in self._examples], ids, k=1)
        self._set_threshold(encoder, rows, vectors)
        best = [found[id_][0].text if found[id_] else "" for id_ in ids]
        return answer_means(best, [one.answers for one in self._examples])

    def _set_threshold(self, encoder: PhraseEncoder, rows: Rows, vectors: np.ndarray) -> None:
        linear = encoder.model.filter_linear
        weight, bias = (value.detach().cpu().numpy() for value in (linear.weight, linear.bias))
        logits = vectors @ weight.T + bias
        gold = [logits[found, side] for side, found in enumerate(self._gold(rows))]
        lowest = float(np.quantile(np.concatenate(gold), 1 - self._recall, method="lower"))
        # Logits above the threshold are kept, and this one is to be.
        threshold = float(np.nextafter(np.float32(lowest), np.float32(-np.inf)))
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=threshold)

    def _gold(self, rows: Rows) -> tuple[list[int], list[int]]:
        """The rows at which the answers begin, and those at which they end."""
        numbers = {docid: number for number, docid in enumerate(self._documents)}
        places = [
            {(int(row["passage"]), int(row[edge])): at for at, row in enumerate(rows) if row["roles"] & role}
            for edge, role in (("begin", STARTS), ("end", ENDS))
        ]
        found: tuple[list[int], list[int]] = ([], [])
        for one in self._examples:
            for span in answer_spans(one.text, one.answers):
                for side, character in enumerate(span):
                    if (numbers[one.docid], character) in places[side]:
                        found[side].append(places[side][numbers[one.docid], character])
        return found
