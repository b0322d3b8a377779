"""What to train: one frozen value for each training job of `tour_pyserini.training.jobs`.

It does not load torch, so that commands start fast.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.request import check_names
from tour_pyserini.training.train_settings import TrainSettings

Source = Sequence[str | os.PathLike[str]]
"""The files of one source of data."""

RERANKER_SETTINGS = TrainSettings(epochs=20, batch_size=32, learning_rate=2e-5)
"""The paper's settings of phrase re-rankers."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """What all training jobs need.

    Attributes:
        base: the model to start from: a folder or a name on the model hub.
        output: the folder of the trained model; it must be new or empty.
        data: sources to train on. A source is a file of questions (JSON lines), and where they need them, a corpus and
            qrels, as `read_examples` takes them.
        validation: sources to validate on; if empty, a part of `data` is held out.
        validation_share: the share of the passages (for a re-ranker: of the questions) that is held out.
        validation_questions: most questions to validate on.
        device: of the model, such as `cpu` or `cuda:0`.
        settings: of the training.
    """

    base: str
    output: Path
    data: Sequence[Source]
    validation: Sequence[Source] = ()
    validation_share: float = 0.1
    validation_questions: int = 300
    device: str = "cpu"
    settings: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        check_names(self)
        if not self.validation and not 0 < self.validation_share < 1:
            raise TourError(f"validation_share must be above 0 and below 1, not {self.validation_share}.")


@dataclass(frozen=True, kw_only=True)
class PhraseEncoderRequest(TrainingRequest):
    """Train a phrase encoder: token vectors of passages, and [start; end] vectors of questions.

    The base may also be `default`, the default encoder.

    Attributes:
        pooling: of questions: `cls` or `mean`; None takes what the base declares.
        lower_case: whether questions are put in lower case.
        max_length: tokens of a passage that are read at once.
        questions_per_passage: most questions of a passage in an epoch; drawn again in every epoch.
        batch_weight: weight of the loss with in-batch negatives; that with in-passage negatives has weight 1.
        filter_weight: weight of the filter's loss.
        filter_recall: share of the answers' tokens that the filter must keep.
        train_embeddings: whether the vectors of the vocabulary are trained too.
    """

    pooling: str | None = None
    lower_case: bool = False
    max_length: int = 256
    questions_per_passage: int = 4
    batch_weight: float = 1.0
    filter_weight: float = 1.0
    filter_recall: float = 0.98
    train_embeddings: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.filter_recall <= 1:
            raise TourError(f"filter_recall must be above 0 and at most 1, not {self.filter_recall}.")


@dataclass(frozen=True, kw_only=True)
class QueryEncoderRequest(TrainingRequest):
    """Train only the query encoders of a phrase encoder, on what they retrieve from an index (query-side fine-tuning).

    Attributes:
        index: a phrase index that the base built; it stays valid.
        corpus: the corpus of the index.
        depth: phrases retrieved for each question.
    """

    index: str | os.PathLike[str]
    corpus: str | os.PathLike[str]
    depth: int = 100


@dataclass(frozen=True, kw_only=True)
class PhraseRerankerRequest(TrainingRequest):
    """Train a cross-encoder that scores phrases in their contexts, on the phrases that a retriever finds.

    Here a source of data is any number of topics with answers: files or Pyserini's names. The default settings are
    the paper's.

    Attributes:
        index: the phrase index that candidates come from.
        corpus: the corpus of the index.
        encoder: encoder of the questions; None takes the one that built the index.
        depth: phrases retrieved for each question.
        positive: a phrase is right if its `context` contains an answer (the paper), or if the `phrase` is an answer.
        context: sentences around a phrase that are read: `1`, `3` or `paragraph`.
        title: whether the title is read.
        loss: `pairwise`, over a right and a wrong phrase together (the paper), or `pointwise`, over each phrase alone
            (the paper's published code).
        max_length: tokens of a question and a context.
    """

    index: str | os.PathLike[str]
    corpus: str | os.PathLike[str]
    encoder: str | None = None
    depth: int = 100
    positive: str = "context"
    context: str = "3"
    title: bool = True
    loss: str = "pairwise"
    max_length: int = 256
    settings: TrainSettings = RERANKER_SETTINGS


@dataclass(frozen=True, kw_only=True)
class ReadingComprehensionRequest(TrainingRequest):
    """Train an extractive reader; its folder can be the base of a phrase re-ranker.

    Attributes:
        max_length: tokens of a question and a passage.
    """

    max_length: int = 384


def own_fields(request: type[TrainingRequest]) -> list[str]:
    """The names of the fields that a request has beside those of `TrainingRequest`."""
    shared = {item.name for item in fields(TrainingRequest)}
    return [item.name for item in fields(request) if item.name not in shared]
