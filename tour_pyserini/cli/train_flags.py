"""What the train command can be told."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from tour_pyserini.cli.flags import Help, positive
from tour_pyserini.training.train_settings import TrainSettings

ABOUT = """\
Train the models of phrase retrieval. An interrupted training leaves OUTPUT.partial, and the same command goes on from
there. The folder appears when it is complete, with training.json: settings, data by SHA-256, every validation."""

EXAMPLES = """examples:
  python -m tour_pyserini.train phrase-encoder --base default --output models/phrases \\
      --data squad/questions_answers.jsonl squad/corpus.jsonl \\
      --data nq/queries.nq-dev.jsonl nq/corpus.jsonl nq/qrels/nq-dev.tsv
  python -m tour_pyserini.train phrase-encoder --query-side indexes/phrases --base models/phrases ...
  python -m tour_pyserini.train phrase-reranker --base roberta-large --index indexes/phrases --corpus ...
"""

# The flags of one way to train a phrase encoder alone, with their defaults.
FROM_BASE: dict[str, Any] = {
    "pooling": None,
    "lower_case": False,
    "max_length": 256,
    "questions_per_passage": 4,
    "batch_weight": 1.0,
    "filter_weight": 1.0,
    "filter_recall": 0.98,
    "train_embeddings": False,
}
QUERY_SIDE: dict[str, Any] = {"corpus": None, "depth": 100}

DATA = "questions as JSON lines, their corpus.jsonl, and qrels where lines have neither `gold` nor `context`"


def train_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.train`."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.train", description=ABOUT, epilog=EXAMPLES, formatter_class=Help
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    _phrase_encoder(kinds)
    _phrase_reranker(kinds)
    _reading_comprehension(kinds)
    return parser


def _phrase_encoder(kinds: Any) -> None:
    parser = _kind(kinds, "phrase-encoder", "token vectors of passages and [start; end] vectors of questions")
    about = "What --base says where only its query encoders are trained (--query-side)."
    add = parser.add_argument_group("phrase encoder", about).add_argument
    add("--pooling", choices=["cls", "mean"], help="of questions (default: what the base declares, or cls)")
    add("--lower-case", action="store_true", default=None, help="put questions in lower case")
    add("--max-length", type=positive, metavar="N", help="tokens of a passage that are read at once (default: 256)")
    add("--questions-per-passage", type=positive, metavar="N", help="drawn anew in every epoch (default: 4)")
    add("--batch-weight", type=float, metavar="X", help="of in-batch beside in-passage negatives (default: 1)")
    add("--filter-weight", type=float, metavar="X", help="of the filter's loss (default: 1)")
    recall = "answers' tokens that the filter is to keep (default: 0.98)"
    add("--filter-recall", type=float, metavar="X", help=recall)
    add("--train-embeddings", action="store_true", default=None, help="train the vectors of the vocabulary too")
    add = parser.add_argument_group("query-side fine-tuning").add_argument
    add("--query-side", metavar="INDEX", help="train the query encoders of --base alone, on this phrase index")
    add("--corpus", metavar="FILE", help="the corpus of the index")
    add("--depth", type=positive, metavar="N", help="phrases retrieved for each question (default: 100)")


def _phrase_reranker(kinds: Any) -> None:
    parser = _kind(kinds, "phrase-reranker", "a cross-encoder that scores phrases in their contexts")
    add = parser.add_argument_group("candidates").add_argument
    add("--index", required=True, metavar="DIR", help="the phrase index that candidates come from")
    add("--corpus", required=True, metavar="FILE", help="its corpus")
    add("--encoder", metavar="NAME", help="encoder of the questions (default: what built the index)")
    add("--depth", type=positive, default=100, metavar="N", help="phrases retrieved for each question")
    positive_help = "a phrase is right if its context contains an answer (the paper), or if the phrase is one"
    add("--positive", choices=["context", "phrase"], default="context", help=positive_help)
    add = parser.add_argument_group("re-ranker").add_argument
    contexts = "sentences around a phrase that are read"
    add("--context", choices=["1", "3", "paragraph"], default="3", help=contexts)
    add("--no-title", action="store_true", help="leave out the title")
    losses = "over a right and a wrong phrase together (the paper), or each by itself (its published code)"
    add("--loss", choices=["pairwise", "pointwise"], default="pairwise", help=losses)
    add("--max-length", type=positive, default=256, metavar="N", help="tokens of a question and a context")
    parser.set_defaults(epochs=20, batch_size=32, learning_rate=2e-5)  # the paper's


def _reading_comprehension(kinds: Any) -> None:
    parser = _kind(kinds, "reading-comprehension", "an extractive reader, to start a phrase re-ranker from")
    parser.add_argument("--max-length", type=positive, default=384, metavar="N", help="tokens of question and passage")


def _kind(kinds: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=about, description=f"Train {about}.", formatter_class=Help)
    add = parser.add_argument_group("data").add_argument
    data = "questions with answers, in any format of topics" if name == "phrase-reranker" else DATA
    add("--data", nargs="+", action="append", required=True, metavar="FILE", help=f"{data}; may be given again")
    add("--validation", nargs="+", action="append", metavar="FILE", help="as --data, not trained on")
    add(
        "--validation-share",
        type=float,
        default=0.1,
        metavar="X",
        help="of the passages or questions, without --validation",
    )
    add("--validation-questions", type=positive, default=300, metavar="N", help="questions to validate on, at most")
    add = parser.add_argument_group("model").add_argument
    named = "a folder, a name on the model hub, or `default`" if name == "phrase-encoder" else "a folder or a hub name"
    add("--base", required=True, help=f"what to start from: {named}")
    add("--output", type=Path, required=True, metavar="DIR", help="the folder of the trained model")
    add("--device", default="cpu", help="cpu, cuda:0, ...")
    add("--threads", type=positive, metavar="N", help="at most this many (default: all processors)")
    group = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainSettings):
        flag = "--" + field.name.replace("_", "-")
        group.add_argument(
            flag, type=type(field.default), default=field.default, metavar="X", help=field.metadata["help"]
        )
    return parser


def settings_from(args: argparse.Namespace) -> TrainSettings:
    """The training's settings that the flags describe."""
    return TrainSettings(**{field.name: getattr(args, field.name) for field in dataclasses.fields(TrainSettings)})
