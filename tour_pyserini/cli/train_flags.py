"""Flags of the train command, and the training request that they describe."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from tour_pyserini.cli.flags import positive
from tour_pyserini.cli.parser import CommandParser, Help
from tour_pyserini.errors import TourError
from tour_pyserini.training.requests import (
    RERANKER_SETTINGS,
    PhraseEncoderRequest,
    PhraseRerankerRequest,
    QueryEncoderRequest,
    ReadingComprehensionRequest,
    TrainingRequest,
    own_fields,
)
from tour_pyserini.training.train_settings import TrainSettings

ABOUT = """\
Train the models of phrase retrieval. An interrupted training leaves OUTPUT.partial; run the same command again to
continue it. OUTPUT is created when it is complete. Its file training.json has the settings, the SHA-256 of the data
and the results of all validations."""

EXAMPLES = """examples:
  python -m tour_pyserini.train phrase-encoder --base default --output models/phrases \\
      --data squad/questions_answers.jsonl squad/corpus.jsonl \\
      --data nq/queries.nq-dev.jsonl nq/corpus.jsonl nq/qrels/nq-dev.tsv
  python -m tour_pyserini.train phrase-encoder --query-side indexes/phrases --base models/phrases ...
  python -m tour_pyserini.train phrase-reranker --base roberta-large --index indexes/phrases --corpus ...
"""

DATA = "questions as JSON lines, then their corpus.jsonl, then qrels if lines have neither `gold` nor `context`"


def train_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.train`."""
    parser = CommandParser("train", description=ABOUT, epilog=EXAMPLES)
    models = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=argparse.ArgumentParser)
    _add_phrase_encoder(models)
    _add_phrase_reranker(models)
    _add_reading_comprehension(models)
    return parser


def request_from(args: argparse.Namespace) -> TrainingRequest:
    """The training request that the flags describe.

    Raises:
        TourError: if a value is out of range, or flags cannot be used together.
    """
    settings = {field.name: getattr(args, field.name) for field in dataclasses.fields(TrainSettings)}
    shared: dict[str, Any] = {
        "base": args.base,
        "output": args.output,
        "data": args.data,
        "validation": args.validation or (),
        "validation_share": args.validation_share,
        "validation_questions": args.validation_questions,
        "device": args.device,
        "settings": TrainSettings(**settings),
    }
    if args.what == "phrase-encoder":
        return _query_encoder_request(args, shared) if args.query_side else _phrase_encoder_request(args, shared)
    if args.what == "phrase-reranker":
        own = {name: getattr(args, name) for name in own_fields(PhraseRerankerRequest) if name != "title"}
        return PhraseRerankerRequest(**shared, **own, title=not args.no_title)
    return ReadingComprehensionRequest(**shared, max_length=args.max_length)


def _phrase_encoder_request(args: argparse.Namespace, shared: dict[str, Any]) -> PhraseEncoderRequest:
    for name in _given(args, QueryEncoderRequest):
        raise TourError(f"--{name.replace('_', '-')} can be used only with --query-side.")
    return PhraseEncoderRequest(**shared, **_given(args, PhraseEncoderRequest))


def _query_encoder_request(args: argparse.Namespace, shared: dict[str, Any]) -> QueryEncoderRequest:
    for name in _given(args, PhraseEncoderRequest):
        flag = f"--{name.replace('_', '-')}"
        raise TourError(f"{flag} cannot be used with --query-side: the phrase encoder in --base does not change.")
    given = _given(args, QueryEncoderRequest)
    if "corpus" not in given:
        raise TourError("--corpus is missing: --query-side needs the corpus of the index.")
    return QueryEncoderRequest(**shared, index=args.query_side, **given)


def _given(args: argparse.Namespace, request: type[TrainingRequest]) -> dict[str, Any]:
    """The fields of a request for which a flag was given."""
    values = {name: getattr(args, name, None) for name in own_fields(request)}
    return {name: value for name, value in values.items() if value is not None}


def _add_phrase_encoder(models: Any) -> None:
    parser = _add_model(models, "phrase-encoder", "token vectors of passages and [start; end] vectors of questions")
    default = PhraseEncoderRequest
    add = parser.add_argument_group("phrase encoder", "These flags cannot be used with --query-side.").add_argument
    add("--pooling", choices=["cls", "mean"], help="pooling of questions (default: what the base declares, or cls)")
    add("--lower-case", action="store_true", default=None, help="put questions in lower case")
    length = f"tokens of a passage that are read at once (default: {default.max_length})"
    add("--max-length", type=positive, metavar="N", help=length)
    questions = f"most questions of a passage, drawn again in every epoch (default: {default.questions_per_passage})"
    add("--questions-per-passage", type=positive, metavar="N", help=questions)
    weight = f"weight of the loss with in-batch negatives; in-passage: 1 (default: {default.batch_weight:g})"
    add("--batch-weight", type=float, metavar="X", help=weight)
    weight = f"weight of the filter's loss (default: {default.filter_weight:g})"
    add("--filter-weight", type=float, metavar="X", help=weight)
    recall = f"share of the answers' tokens that the filter must keep (default: {default.filter_recall})"
    add("--filter-recall", type=float, metavar="X", help=recall)
    add("--train-embeddings", action="store_true", default=None, help="train the vectors of the vocabulary too")
    add = parser.add_argument_group("query-side fine-tuning").add_argument
    add("--query-side", metavar="INDEX", help="train only the query encoders of --base, on this phrase index")
    add("--corpus", metavar="FILE", help="the corpus of the index")
    depth = f"phrases retrieved for each question (default: {QueryEncoderRequest.depth})"
    add("--depth", type=positive, metavar="N", help=depth)


def _add_phrase_reranker(models: Any) -> None:
    parser = _add_model(models, "phrase-reranker", "a cross-encoder that scores phrases in their contexts")
    default = PhraseRerankerRequest
    add = parser.add_argument_group("candidates").add_argument
    add("--index", required=True, metavar="DIR", help="the phrase index that candidates come from")
    add("--corpus", required=True, metavar="FILE", help="the corpus of the index")
    add("--encoder", metavar="NAME", help="encoder of the questions (default: the one that built the index)")
    add("--depth", type=positive, default=default.depth, metavar="N", help="phrases retrieved for each question")
    right = "a phrase is right if its context contains an answer (the paper), or if the phrase is an answer"
    add("--positive", choices=["context", "phrase"], default=default.positive, help=right)
    add = parser.add_argument_group("re-ranker").add_argument
    sentences = "sentences around a phrase that are read"
    add("--context", choices=["1", "3", "paragraph"], default=default.context, help=sentences)
    add("--no-title", action="store_true", help="do not read the title")
    losses = "over a right and a wrong phrase together (the paper), or over each phrase alone (its published code)"
    add("--loss", choices=["pairwise", "pointwise"], default=default.loss, help=losses)
    length = "tokens of a question and a context"
    add("--max-length", type=positive, default=default.max_length, metavar="N", help=length)
    parser.set_defaults(**dataclasses.asdict(RERANKER_SETTINGS))


def _add_reading_comprehension(models: Any) -> None:
    parser = _add_model(
        models, "reading-comprehension", "an extractive reader, from which a phrase re-ranker can start"
    )
    default = ReadingComprehensionRequest.max_length
    parser.add_argument(
        "--max-length", type=positive, default=default, metavar="N", help="tokens of a question and a passage"
    )


def _add_model(models: Any, name: str, about: str) -> argparse.ArgumentParser:
    """Add the subcommand of a model, with the flags that all of them have."""
    parser = models.add_parser(name, help=about, description=f"Train {about}.", formatter_class=Help)
    add = parser.add_argument_group("data").add_argument
    data = "questions with answers, in any format of topics" if name == "phrase-reranker" else DATA
    add("--data", nargs="+", action="append", required=True, metavar="FILE", help=f"{data}; may be given several times")
    add("--validation", nargs="+", action="append", metavar="FILE", help="like --data, for validation only")
    share = "share of the passages (phrase-reranker: questions) that is held out if --validation is not given"
    add("--validation-share", type=float, default=TrainingRequest.validation_share, metavar="X", help=share)
    most = TrainingRequest.validation_questions
    add("--validation-questions", type=positive, default=most, metavar="N", help="most questions to validate on")
    add = parser.add_argument_group("model").add_argument
    bases = "a folder, a name on the model hub, or `default`" if name == "phrase-encoder" else "a folder or a hub name"
    add("--base", required=True, help=f"the model to start from: {bases}")
    add("--output", type=Path, required=True, metavar="DIR", help="the folder of the trained model")
    add("--device", default=TrainingRequest.device, help="cpu, cuda:0, ...")
    add("--threads", type=positive, metavar="N", help="most threads (default: one for each processor)")
    group = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainSettings):
        flag = "--" + field.name.replace("_", "-")
        group.add_argument(
            flag, type=type(field.default), default=field.default, metavar="X", help=field.metadata["help"]
        )
    return parser
