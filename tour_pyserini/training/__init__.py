"""Training of phrase encoders and phrase re-rankers, and learning of adapters: what `train` and `learn` do.

from tour_pyserini.training import LearnRequest, learn

learn(LearnRequest(topics="train.tsv", index="indexes/a", corpus="a/corpus.jsonl", output="a.adapter"))
"""

from typing import TYPE_CHECKING

from tour_pyserini.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from tour_pyserini.training.jobs import (
        train_phrase_encoder,
        train_phrase_reranker,
        train_query_encoder,
        train_reading_comprehension,
    )
    from tour_pyserini.training.learning import LearnRequest, LearnSummary, NoGain, learn
    from tour_pyserini.training.requests import (
        PhraseEncoderRequest,
        PhraseRerankerRequest,
        QueryEncoderRequest,
        ReadingComprehensionRequest,
    )
    from tour_pyserini.training.train_settings import TrainSettings

_MODULES = {
    "LearnRequest": "learning",
    "LearnSummary": "learning",
    "NoGain": "learning",
    "PhraseEncoderRequest": "requests",
    "PhraseRerankerRequest": "requests",
    "QueryEncoderRequest": "requests",
    "ReadingComprehensionRequest": "requests",
    "TrainSettings": "train_settings",
    "learn": "learning",
    "train_phrase_encoder": "jobs",
    "train_phrase_reranker": "jobs",
    "train_query_encoder": "jobs",
    "train_reading_comprehension": "jobs",
}

__all__ = [
    "LearnRequest",
    "LearnSummary",
    "NoGain",
    "PhraseEncoderRequest",
    "PhraseRerankerRequest",
    "QueryEncoderRequest",
    "ReadingComprehensionRequest",
    "TrainSettings",
    "learn",
    "train_phrase_encoder",
    "train_phrase_reranker",
    "train_query_encoder",
    "train_reading_comprehension",
]

__getattr__ = lazy_names(__name__, _MODULES)
