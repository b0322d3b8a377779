# PYTHON_ARGCOMPLETE_OK
"""Train the models of phrase retrieval.

Phrase encoder, query encoders, phrase re-ranker, extractive reader.

An interrupted training leaves OUTPUT.partial; run the same command again to continue it. OUTPUT is created when it is
complete. Its file training.json has the settings, the SHA-256 of the data and the results of all validations.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.command import CommandParser, Help, run
from tour_pyserini.data.texts import open_texts
from tour_pyserini.encoders.model_folder import DEFAULT, fingerprint, read_model_folder, verify_default_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.flags import add_request_flags, flag_name, option
from tour_pyserini.phrases.phrase_index import check_corpus, is_built_with, open_phrase_index, read_settings
from tour_pyserini.phrases.phrase_input import PhraseInput
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.training.request import TrainRequest

if TYPE_CHECKING:
    from tour_pyserini.training.trainer import Report, Task

Job = tuple[dict[str, Any], "Callable[[Path], Task]"]
"""What a training's result depends on, and a function that builds its task; it may keep files in a folder."""

EXAMPLES = """examples:
  python -m tour_pyserini.train phrase-encoder --base default --output models/phrases \\
      --data squad/questions_answers.jsonl squad/corpus.jsonl \\
      --data nq/queries.nq-dev.jsonl nq/corpus.jsonl nq/qrels/nq-dev.tsv
  python -m tour_pyserini.train phrase-encoder --query-side indexes/phrases --base models/phrases ...
  python -m tour_pyserini.train phrase-reranker --base roberta-large --index indexes/phrases --corpus ...
"""
DATA = "questions as JSON lines, then their corpus.jsonl, then qrels if lines have neither `gold` nor `context`"

# Groups of flags in --help.
_ENCODER = "phrase encoder: not with --query-side"
_QUERY_SIDE, _CANDIDATES, _RERANKER = "query-side fine-tuning", "candidates", "re-ranker"

# Flags of one way to train a phrase encoder only, with their defaults.
_FROM_BASE: dict[str, Any] = {
    **{"pooling": None, "lower_case": False, "max_length": 256, "questions_per_passage": 4, "batch_weight": 1.0},
    **{"filter_weight": 1.0, "filter_recall": 0.98, "train_embeddings": False},
}
_ON_INDEX: dict[str, Any] = {"corpus": None, "depth": 100}


@dataclass(frozen=True, kw_only=True)
class PhraseEncoderRequest(TrainRequest):
    """Train a phrase encoder from a base, or only the query encoders of one on what they retrieve from an index.

    Attributes:
        base: a folder, a name on the model hub, or `default`, the default encoder.
        query_side: a phrase index that the base built, which stays valid: query-side fine-tuning.
    """

    base: str = option(
        dataclasses.MISSING, "the model to start from: a folder, a name on the model hub, or `default`", group="model"
    )
    pooling: str | None = option(
        None, "pooling of questions (default: what the base declares, or cls)", group=_ENCODER, choices=("cls", "mean")
    )
    lower_case: bool | None = option(None, "put questions in lower case", group=_ENCODER)
    max_length: int | None = option(
        None, "tokens of a passage that are read at once (default: 256)", group=_ENCODER, count=True
    )
    questions_per_passage: int | None = option(
        None, "most questions of a passage, drawn again in every epoch (default: 4)", group=_ENCODER, count=True
    )
    batch_weight: float | None = option(
        None, "weight of the loss with in-batch negatives; in-passage: 1 (default: 1)", group=_ENCODER, metavar="X"
    )
    filter_weight: float | None = option(None, "weight of the filter's loss (default: 1)", group=_ENCODER, metavar="X")
    filter_recall: float | None = option(
        None, "share of the answers' tokens that the filter must keep (default: 0.98)", group=_ENCODER, metavar="X"
    )
    train_embeddings: bool | None = option(None, "train the vectors of the vocabulary too", group=_ENCODER)

    query_side: str | None = option(
        None, "train only the query encoders of --base, on this phrase index", group=_QUERY_SIDE, metavar="INDEX"
    )
    corpus: str | None = option(None, "the corpus of the index", group=_QUERY_SIDE, metavar="FILE")
    depth: int | None = option(
        None, "phrases retrieved for each question (default: 100)", group=_QUERY_SIDE, count=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        own, others, refusal = _FROM_BASE, _ON_INDEX, "can be used only with --query-side."
        if self.query_side:
            own, others, refusal = _ON_INDEX, _FROM_BASE, "cannot be used with --query-side: the base decides it."
            if not self.corpus:
                raise TourError("--corpus is missing: --query-side needs the corpus of the index.")
        for name in others:
            if getattr(self, name) is not None:
                raise TourError(f"{flag_name(name)} {refusal}")
        for name, default in own.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if self.filter_recall is not None and not 0 < self.filter_recall <= 1:
            raise TourError(f"--filter-recall must be above 0 and at most 1, not {self.filter_recall}.")


@dataclass(frozen=True, kw_only=True)
class PhraseRerankerRequest(TrainRequest):
    """Train a cross-encoder that scores phrases in their contexts, on the phrases that a retriever finds.

    Here a source of data is any number of topics with answers: files or Pyserini's names. The defaults are the paper's.

    Attributes:
        positive: a phrase is right if its `context` contains an answer (the paper), or if the `phrase` is an answer.
        loss: `pairwise`, over a right and a wrong phrase together (the paper), or `pointwise`, over each phrase alone
            (the paper's published code).
    """

    epochs: int = option(20, "passes over the training data", group="training", count=True)
    batch_size: int = option(32, "questions per batch", group="training", count=True)
    learning_rate: float = option(2e-5, "largest learning rate of AdamW", group="training", metavar="X")

    index: str = option(
        dataclasses.MISSING, "the phrase index that candidates come from", group=_CANDIDATES, metavar="DIR"
    )
    corpus: str = option(dataclasses.MISSING, "the corpus of the index", group=_CANDIDATES, metavar="FILE")
    encoder: str | None = option(
        None, "encoder of the questions (default: the one that built the index)", group=_CANDIDATES, metavar="NAME"
    )
    depth: int = option(100, "phrases retrieved for each question", group=_CANDIDATES, count=True)
    positive: str = option(
        "context",
        "a phrase is right if its context contains an answer (the paper), or if the phrase is an answer",
        group=_CANDIDATES,
        choices=("context", "phrase"),
    )
    context: str = option(
        "3", "sentences around a phrase that are read", group=_RERANKER, choices=("1", "3", "paragraph")
    )
    no_title: bool = option(False, "do not read the title", group=_RERANKER)
    loss: str = option(
        "pairwise",
        "over a right and a wrong phrase together (the paper), or over each phrase alone (its published code)",
        group=_RERANKER,
        choices=("pairwise", "pointwise"),
    )
    max_length: int = option(256, "tokens of a question and a context", group=_RERANKER, count=True)


@dataclass(frozen=True, kw_only=True)
class ReadingComprehensionRequest(TrainRequest):
    """Train an extractive reader; its folder can be the base of a phrase re-ranker."""

    max_length: int = option(384, "tokens of a question and a passage", group="reader", count=True)


def train(request: TrainRequest, *, report: "Report | None" = None) -> dict[str, Any]:
    """Train until the output folder holds the best model; an interrupted training goes on where it was.

    Args:
        request: what to train.
        report: is called with a line of text after each validation; without it, the lines are logged.

    Returns:
        The record of the training, which is written to the folder as training.json.

    Example:
        data = [["questions.jsonl", "corpus.jsonl"]]
        train(PhraseEncoderRequest(base="default", output="models/phrases", data=data))
    """
    # torch takes seconds to start, and --help does not need it
    from tour_pyserini.training.examples import source_checksums
    from tour_pyserini.training.trainer import check_new, log, run_training

    check_new(Path(request.output))
    with torch_threads(request.threads):
        base = _find_model(request.base)
        own, make_task = _JOBS[type(request)](request, base)
        recorded = {item.name: getattr(request, item.name) for item in dataclasses.fields(request)}
        for name in ("output", "device", "threads"):  # they do not change the trained model
            del recorded[name]
        recorded |= {"data": source_checksums(request.data), "validation": source_checksums(request.validation)}
        recorded |= {"base_fingerprint": fingerprint(base), **own}
        return run_training(make_task, request, recorded, report=report or log.info)


def _phrase_encoder(request: PhraseEncoderRequest, base: Path) -> Job:
    import torch

    from tour_pyserini.phrases.phrase_encoder import EncoderSettings, PhraseEncoder
    from tour_pyserini.phrases.phrase_model import model_from_base
    from tour_pyserini.support.model_files import read_tokenizer
    from tour_pyserini.training.encoder_tasks import PhraseTask, PhraseValidation
    from tour_pyserini.training.examples import training_examples

    if request.query_side:
        return _query_encoder(request, base)
    examples, held_out = training_examples(request)

    def make_task(_: Path) -> PhraseTask:
        torch.manual_seed(request.seed)  # for the filter's first weights
        weights, pooling = read_model_folder(base)
        assert request.max_length and request.filter_recall and request.questions_per_passage
        assert request.batch_weight is not None and request.filter_weight is not None
        settings = EncoderSettings(
            pooling=request.pooling or pooling,
            lower_case=bool(request.lower_case),
            max_length=request.max_length,
            stride=request.max_length // 4,
        )
        tokenizer, model = read_tokenizer(weights), model_from_base(weights)
        return PhraseTask(
            PhraseEncoder(model, tokenizer, settings, device=request.device),
            examples,
            PhraseValidation(held_out, recall=request.filter_recall),
            request,
            batch_weight=request.batch_weight,
            filter_weight=request.filter_weight,
            questions_per_passage=request.questions_per_passage,
            freeze_embeddings=not request.train_embeddings,
        )

    return {"what": "phrase-encoder"}, make_task


def _query_encoder(request: PhraseEncoderRequest, base: Path) -> Job:
    from tour_pyserini.training.encoder_tasks import QueryTask
    from tour_pyserini.training.examples import training_examples

    assert request.query_side and request.corpus and request.depth
    index, corpus, depth = request.query_side, request.corpus, request.depth
    questions, held_out = ([(one.question, one.answers) for one in part] for part in training_examples(request))
    check_corpus(index, corpus)

    def make_task(_: Path) -> QueryTask:
        searcher = _open_searcher(index, corpus, base, request)
        return QueryTask(searcher, questions, held_out, request, depth=depth)

    return {"what": "phrase-encoder", "index": read_settings(index)}, make_task


def _phrase_reranker(request: PhraseRerankerRequest, base: Path) -> Job:
    from tour_pyserini.support.model_files import read_tokenizer
    from tour_pyserini.training.examples import training_questions
    from tour_pyserini.training.reranker_tasks import RerankerTask, find_candidates

    questions, held_out = training_questions(request)
    settings = read_settings(request.index)
    check_corpus(request.index, request.corpus)
    own = {"what": "phrase-reranker", "index": settings}
    if request.encoder:
        own["encoder_fingerprint"] = fingerprint(_find_model(request.encoder))
    # As in the paper's code: title, the tokenizer's separator, context.
    mark = read_tokenizer(base).sep_token
    shown = PhraseInput(context=request.context, title=not request.no_title, separator=f" {mark} " if mark else " ")

    def make_task(folder: Path) -> RerankerTask:
        searcher = _open_searcher(request.index, request.corpus, request.encoder or settings["encoder"], request)
        candidates, validation = (
            find_candidates(part, searcher, shown, depth=request.depth, positive=request.positive, file=folder / file)
            for part, file in ((questions, "candidates.jsonl"), (held_out, "validation.jsonl"))
        )
        options: dict[str, Any] = {"loss": request.loss, "max_length": request.max_length}
        return RerankerTask(base, candidates, validation, searcher.texts, shown, request, **options)

    return own, make_task


def _reading_comprehension(request: ReadingComprehensionRequest, base: Path) -> Job:
    from tour_pyserini.training.examples import training_examples
    from tour_pyserini.training.reranker_tasks import ReadingTask

    examples, held_out = training_examples(request)
    return {"what": "reading-comprehension"}, lambda _: ReadingTask(
        base, examples, held_out, request, max_length=request.max_length
    )


_JOBS: dict[type[TrainRequest], Callable[[Any, Path], Job]] = {
    PhraseEncoderRequest: _phrase_encoder,
    PhraseRerankerRequest: _phrase_reranker,
    ReadingComprehensionRequest: _reading_comprehension,
}


def _find_model(name: str) -> Path:
    from tour_pyserini.phrases.phrase_encoder import find_model

    return verify_default_encoder() if name == DEFAULT else find_model(name)


def _open_searcher(index: str, corpus: str, encoder: str | os.PathLike[str], request: TrainRequest) -> PhraseSearcher:
    """An index, searched with the encoder that built it."""
    from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder

    loaded = load_phrase_encoder(encoder, device=request.device)
    if not is_built_with(index, loaded):
        raise TourError(f"{index} was not built with {encoder}; give the encoder that built it.")
    return PhraseSearcher(open_phrase_index(index), loaded, open_texts(corpus))


def train_parser() -> CommandParser:
    """The parser of the command; each kind of model is a sub-command, whose flags are the fields of its request."""
    parser = CommandParser("train", description=__doc__, epilog=EXAMPLES)
    models = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=argparse.ArgumentParser)
    for name, request, about in (
        ("phrase-encoder", PhraseEncoderRequest, "token vectors of passages and [start; end] vectors of questions"),
        ("phrase-reranker", PhraseRerankerRequest, "a cross-encoder that scores phrases in their contexts"),
        (
            "reading-comprehension",
            ReadingComprehensionRequest,
            "an extractive reader, from which a phrase re-ranker can start",
        ),
    ):
        model = models.add_parser(
            name,
            help=about,
            description=f"Train {about}.",
            formatter_class=Help,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        model.set_defaults(request=request)
        data = "questions with answers, in any format of topics" if request is PhraseRerankerRequest else DATA
        add = model.add_argument_group("data").add_argument
        files: dict[str, Any] = {"nargs": "+", "action": "append", "metavar": "FILE"}
        add("--data", required=True, help=f"{data}; may be given several times", **files)
        add("--validation", help="like --data, for validation only", **files)
        add_request_flags(model, request)
    return parser


def request_of(flags: argparse.Namespace) -> TrainRequest:
    """The request that parsed flags describe."""
    given = {name: value for name, value in vars(flags).items() if name not in ("what", "request")}
    return flags.request.from_flags(given)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = request_of(train_parser().parse_args(argv))
    from transformers.utils import logging

    logging.disable_progress_bar()  # of reading and writing weights; the training has its own
    record = train(request, report=lambda line: sys.stderr.write(f"{line}\n"))
    sys.stderr.write(f"{request.output}: the best of {record['steps']} steps is {record['best_step']}\n")


if __name__ == "__main__":
    run(main)
