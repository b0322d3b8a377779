# PYTHON_ARGCOMPLETE_OK
"""Train the models of phrase retrieval.

Phrase encoder, query encoders, phrase re-ranker.

An interrupted training leaves OUTPUT.partial; run the same command again to continue it. OUTPUT is created when it is
complete. Its file training.json has the settings, the SHA-256 of the data and the results of all validations.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.encoders.model_folder import encoder_folder, fingerprint
from tour_pyserini.errors import TourError
from tour_pyserini.flags import Request, add_request_flags, flag_name, option
from tour_pyserini.phrases.phrase_index import read_settings
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.files import content_hash

if TYPE_CHECKING:
    from tour_pyserini.training.trainer import Report, Task

EXAMPLES = """examples:
  python -m tour_pyserini.train phrase-encoder --base default --output models/phrases \\
      --data squad/questions_answers.jsonl squad/corpus.jsonl \\
      --data nq/queries.nq-dev.jsonl nq/corpus.jsonl nq/qrels/nq-dev.tsv
  python -m tour_pyserini.train phrase-encoder --query-side indexes/phrases --base models/phrases ...
  python -m tour_pyserini.train phrase-reranker --base roberta-large --index indexes/phrases --corpus ...
"""
DATA = "questions as JSON lines, then their corpus.jsonl, then qrels if lines have neither `gold` nor `context`"

# Fields by the group of flags that --help shows them in.
_model, _validation, _training = (partial(option, group=group) for group in ("model", "validation", "training"))
_encoder, _query_side, _candidates, _reranker = (
    partial(option, group=group)
    for group in ("phrase encoder: not with --query-side", "query-side fine-tuning", "candidates", "re-ranker")
)

Source = Sequence[str]
"""The files of one source of data: questions, and where they need them, a corpus and qrels."""


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Request):
    """The base, the data and the settings of a training, which together determine the trained model.

    Attributes:
        base: the model to start from: a folder or a name on the model hub.
        output: the folder of the trained model; it must be new or empty.
        data: sources to train on; `read_examples` says what the files of a source are.
        validation: sources to validate on; if empty, a part of `data` is held out.
    """

    base: str = _model(MISSING, "the model to start from: a folder or a hub name")
    output: str = _model(MISSING, "the folder of the trained model", metavar="DIR")
    device: str = _model("cpu", "cpu, cuda:0, ...")
    threads: int | None = _model(None, "most threads (default: one for each processor)", count=True)

    data: Sequence[Source] = option(MISSING)
    validation: Sequence[Source] = option(())
    validation_share: float = _validation(
        0.1, "share of the passages that is held out if --validation is not given", metavar="X"
    )
    validation_questions: int = _validation(300, "most questions to validate on", count=True)

    epochs: int = _training(3, "passes over the training data", count=True)
    max_steps: int = _training(0, "most steps; 0 means that --epochs decides", metavar="X")
    batch_size: int = _training(8, "passages or questions per batch", count=True)
    accumulate: int = _training(1, "batches whose gradients are added up for one step", count=True)
    learning_rate: float = _training(3e-5, "largest learning rate of AdamW", metavar="X")
    warmup: float = _training(
        0.1, "share of the steps in which the learning rate rises; then it falls linearly to 0", metavar="X"
    )
    validate_every: int = _training(0, "steps between validations; 0 validates after each epoch", metavar="X")
    save_every: int = _training(
        50, "steps between checkpoints from which an interrupted training continues", count=True
    )
    dropout: float = _training(
        0.1, "share of the activations that are dropped; dropout takes a third of the time", metavar="X"
    )
    precision: str = _training("float32", "precision of matrix products", choices=("float32", "bfloat16"))
    seed: int = _training(42, "seed of all random numbers", metavar="X")

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative = ("max_steps", "validate_every", "learning_rate", "seed")
        fits = {
            **{name: getattr(self, name) >= 0 for name in not_negative},
            **{name: 0 <= getattr(self, name) < 1 for name in ("dropout", "warmup")},
            "validation_share": 0 < self.validation_share < 1,
        }
        for name in (name for name, right in fits.items() if not right):
            raise TourError(f"{flag_name(name)} cannot be {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class PhraseEncoderRequest(TrainRequest):
    """Train a phrase encoder from a base, or only the query encoders of one on what they retrieve from an index.

    Attributes:
        base: a folder, a name on the model hub, or `default`, the default encoder.
        query_side: a phrase index that the base built, which stays valid: query-side fine-tuning.
    """

    base: str = _model(MISSING, "the model to start from: a folder, a name on the model hub, or `default`")
    pooling: str | None = _encoder(
        None, "pooling of questions (default: what the base declares, or cls)", choices=("cls", "mean")
    )
    lower_case: bool = _encoder(False, "put questions in lower case")
    max_length: int = _encoder(256, "tokens of a passage that are read at once", count=True)
    query_side: str | None = _query_side(
        None, "train only the query encoders of --base, on this phrase index", metavar="INDEX"
    )
    corpus: str | None = _query_side(None, "the corpus of the index", metavar="FILE")
    depth: int = _query_side(100, "phrases retrieved for each question", count=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query_side and not self.corpus:
            raise TourError("--corpus is missing: --query-side needs the corpus of the index.")
        for item in self.unused():
            if getattr(self, item.name) != item.default:
                how = "cannot be used with" if self.query_side else "can be used only with"
                raise TourError(f"{flag_name(item.name)} {how} --query-side.")

    def unused(self) -> list[dataclasses.Field[Any]]:
        """The fields of the other way to train: from a base, or on an index."""
        group = (_encoder if self.query_side else _query_side).keywords["group"]
        return [
            item for item in dataclasses.fields(self) if item.metadata["group"] == group and item.name != "query_side"
        ]


@dataclass(frozen=True, kw_only=True)
class PhraseRerankerRequest(TrainRequest):
    """Train a cross-encoder that scores phrases in their contexts, on the phrases that a retriever finds.

    Here a source of data is any number of topics with answers: files or Pyserini's names. The defaults are the paper's.

    Attributes:
        positive: a phrase is right if its `context` contains an answer (the paper), or if the `phrase` is an answer.
        loss: `pairwise`, over a right and a wrong phrase together (the paper), or `pointwise`, over each phrase alone
            (the paper's published code).
    """

    epochs: int = _training(20, "passes over the training data", count=True)
    batch_size: int = _training(32, "questions per batch", count=True)
    learning_rate: float = _training(2e-5, "largest learning rate of AdamW", metavar="X")

    index: str = _candidates(MISSING, "the phrase index that candidates come from", metavar="DIR")
    corpus: str = _candidates(MISSING, "the corpus of the index", metavar="FILE")
    encoder: str | None = _candidates(
        None, "encoder of the questions (default: the one that built the index)", metavar="NAME"
    )
    depth: int = _candidates(100, "phrases retrieved for each question", count=True)
    positive: str = _candidates(
        "context",
        "a phrase is right if its context contains an answer (the paper), or if the phrase is an answer",
        choices=("context", "phrase"),
    )
    context: str = _reranker("3", "sentences around a phrase that are read", choices=("1", "3", "paragraph"))
    no_title: bool = _reranker(False, "do not read the title")
    loss: str = _reranker(
        "pairwise",
        "over a right and a wrong phrase together (the paper), or over each phrase alone (its published code)",
        choices=("pairwise", "pointwise"),
    )
    max_length: int = _reranker(256, "tokens of a question and a context", count=True)


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
    from tour_pyserini.training.encoder_tasks import PhraseTask, QueryTask
    from tour_pyserini.training.reranker_tasks import RerankerTask
    from tour_pyserini.training.trainer import log, run_training

    def make_task(folder: Path) -> "Task":
        match request:
            case PhraseRerankerRequest():
                return RerankerTask(request, base, folder)
            case PhraseEncoderRequest():
                return QueryTask(request, base) if request.query_side else PhraseTask(request, base)
        raise TypeError(request)

    base = encoder_folder(request.base)
    # Everything that the trained model depends on.
    recorded = {item.name: getattr(request, item.name) for item in dataclasses.fields(request)}
    for name in ("output", "device", "threads"):
        del recorded[name]
    recorded |= {"data": _checksums(request.data), "validation": _checksums(request.validation)}
    recorded |= {"base_fingerprint": fingerprint(base), "what": _MODELS[type(request)][0]}
    if isinstance(request, PhraseEncoderRequest):
        recorded |= dict.fromkeys(item.name for item in request.unused())
    if index := getattr(request, "query_side", None) or getattr(request, "index", None):
        recorded["index"] = read_settings(index)
    if encoder := getattr(request, "encoder", None):
        recorded["encoder_fingerprint"] = fingerprint(encoder_folder(encoder))
    with torch_threads(request.threads):
        return run_training(make_task, request, recorded, report=report or log.info)


def _checksums(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The checksum (SHA-256) of each file, by path; None for a name that is not a file, such as Pyserini's topics."""
    return [{str(path): content_hash(path) if Path(path).is_file() else None for path in source} for source in sources]


_MODELS: dict[type[TrainRequest], tuple[str, str]] = {
    PhraseEncoderRequest: (
        "phrase-encoder",
        "token vectors of passages and [start; end] vectors of questions",
    ),
    PhraseRerankerRequest: ("phrase-reranker", "a cross-encoder that scores phrases in their contexts"),
}


def parse(argv: Sequence[str] | None) -> TrainRequest:
    """The request of a command line; each kind of model is a sub-command, whose flags are the fields of its request."""
    parser = CommandParser("train", description=__doc__, epilog=EXAMPLES)
    models = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=FlagParser)
    for request, (name, about) in _MODELS.items():
        usage = "%(prog)s --data FILE ... --base BASE --output DIR [flags]"
        how: dict[str, Any] = {"argument_default": argparse.SUPPRESS, "usage": usage}
        model = models.add_parser(name, help=about, description=f"Train {about}.", **how)
        model.set_defaults(request=request)
        data = "questions with answers, in any format of topics" if request is PhraseRerankerRequest else DATA
        add = model.add_argument_group("data").add_argument
        files: dict[str, Any] = {"nargs": "+", "action": "append", "metavar": "FILE"}
        add("--data", required=True, help=f"{data}; may be given several times", **files)
        add("--validation", help="like --data, for validation only", **files)
        add_request_flags(model, request)
    flags = vars(parser.parse_args(argv))
    return flags["request"].from_flags({name: flags[name] for name in flags if name not in ("what", "request")})


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = parse(argv)
    from transformers.utils import logging

    logging.disable_progress_bar()  # of reading and writing weights; the training has its own
    record = train(request, report=lambda line: sys.stderr.write(f"{line}\n"))
    sys.stderr.write(f"{request.output}: the best of {record['steps']} steps is {record['best_step']}\n")


if __name__ == "__main__":
    run(main)
