# PYTHON_ARGCOMPLETE_OK
"""Train the models of phrase retrieval.

Phrase encoder, query encoders, phrase re-ranker.

An interrupted training leaves OUTPUT.partial; run the same command again to continue it. OUTPUT is created when it is
complete. Its file training.json has the settings, the SHA-256 of the data and the results of all validations.
"""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tour_pyserini.command import CommandParser, FlagParser, run
from tour_pyserini.encoders.sentence_model import encoder_folder, fingerprint
from tour_pyserini.flags import Request, add_request_flags, option
from tour_pyserini.phrases.phrase_index import read_settings
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.files import content_hash

log = logging.getLogger(__name__)

EXAMPLES = """examples:
  python -m tour_pyserini.train phrase-encoder --base default --output models/phrases \\
      --data squad/questions_answers.jsonl squad/corpus.jsonl \\
      --data nq/queries.nq-dev.jsonl nq/corpus.jsonl nq/qrels/nq-dev.tsv
  python -m tour_pyserini.train query-encoder --base models/phrases --index indexes/phrases --corpus ...
  python -m tour_pyserini.train phrase-reranker --base roberta-large --index indexes/phrases --corpus ...
"""

# Fields by the group of flags that --help shows them in.
_model, _validation, _training, _encoder, _candidates, _reranker = (
    partial(option, group=group)
    for group in ("model", "validation", "training", "phrase encoder", "candidates", "re-ranker")
)

Source = Sequence[str]
"""The files of one source of data: questions, and where they need them, a corpus and qrels."""


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Request):
    """The base, the data and the settings of a training, which together determine the trained model.

    Attributes:
        base: the model to start from: a folder or a name on the model hub.
        output: the folder of the trained model; it must be new or empty.
        data: sources to train on: any number of topics with answers, files or Pyserini's names.
        validation: sources to validate on; if empty, a part of `data` is held out.
    """

    base: str = _model(MISSING, "the model to start from: a folder or a hub name")
    output: str = _model(MISSING, "the folder of the trained model")
    device: str = _model("cpu", "cpu, cuda:0, ...")
    threads: int | None = _model(None, "most threads (default: one for each processor)", count=True)

    data: Sequence[Source] = option(MISSING)
    validation: Sequence[Source] = option(())
    validation_share: float = _validation(0.1, "share that is held out if --validation is not given")
    validation_questions: int = _validation(300, "most questions to validate on", count=True)

    epochs: int = _training(3, "passes over the training data", count=True)
    max_steps: int | None = _training(None, "most steps (default: those of --epochs)", count=True)
    batch_size: int = _training(8, "passages or questions per batch", count=True)
    learning_rate: float = _training(3e-5, "largest learning rate; it rises in a tenth of the steps, then falls to 0")
    validate_every: int | None = _training(None, "steps between validations (default: an epoch)", count=True)
    save_every: int = _training(50, "steps between checkpoints, from which a training continues", count=True)
    dropout: float = _training(0.1, "share of the activations that are dropped; dropout takes a third of the time")
    precision: str = _training("float32", "precision of matrix products", choices=("float32", "bfloat16"))
    seed: int = _training(42, "seed of all random numbers")


@dataclass(frozen=True, kw_only=True)
class PhraseEncoderRequest(TrainRequest):
    """Train a phrase encoder.

    Attributes:
        base: a folder, a name on the model hub, or `default`, the default encoder.
        data: each source has questions as JSON lines, then a corpus and qrels where they need them.
    """

    max_length: int = _encoder(256, "tokens of a passage that are read at once", count=True)


@dataclass(frozen=True, kw_only=True)
class _IndexedTrainRequest(TrainRequest):
    """Train on the phrases that an index gives for questions."""

    index: str = _candidates(MISSING, "the phrase index that candidates come from")
    corpus: str = _candidates(MISSING, "the corpus of the index")
    depth: int = _candidates(100, "phrases retrieved for each question", count=True)


@dataclass(frozen=True, kw_only=True)
class QueryEncoderRequest(_IndexedTrainRequest):
    """Train the query encoders of a phrase encoder on what they retrieve from its index, which stays valid (Eq. 3)."""


@dataclass(frozen=True, kw_only=True)
class PhraseRerankerRequest(_IndexedTrainRequest):
    """Train a cross-encoder that scores phrases in their contexts, on the phrases that a retriever finds.

    The defaults are the paper's.

    Attributes:
        positive: a phrase is right if its `context` contains an answer (the paper), or if the `phrase` is an answer.
        loss: `pairwise`, over a right and a wrong phrase together (the paper), or `pointwise`, over each phrase alone
            (the paper's published code).
    """

    epochs: int = _training(20, "passes over the training data", count=True)
    batch_size: int = _training(32, "questions per batch", count=True)
    learning_rate: float = _training(2e-5, "largest learning rate of AdamW")

    encoder: str | None = _candidates(None, "encoder of the questions (default: the one that built the index)")
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


_MODELS: dict[str, tuple[type[TrainRequest], str]] = {
    "phrase-encoder": (PhraseEncoderRequest, "token vectors of passages and [start; end] vectors of questions"),
    "query-encoder": (QueryEncoderRequest, "the query encoders of a phrase encoder, for an index that it built"),
    "phrase-reranker": (PhraseRerankerRequest, "a cross-encoder that scores phrases in their contexts"),
}


def train(request: TrainRequest, *, report: Callable[[str], object] = log.info) -> dict[str, Any]:
    """Train until the output folder holds the best model; an interrupted training goes on where it was.

    Args:
        request: what to train.
        report: is called with a line of text after each validation.

    Returns:
        The record of the training, which is written to the folder as training.json.

    Example:
        data = [["questions.jsonl", "corpus.jsonl"]]
        train(PhraseEncoderRequest(base="default", output="models/phrases", data=data))
    """
    # torch takes seconds to start, and --help does not need it
    from tour_pyserini.training.encoder_tasks import PhraseTask, QueryTask
    from tour_pyserini.training.reranker_tasks import RerankerTask
    from tour_pyserini.training.trainer import run_training

    tasks: dict[type[TrainRequest], Any] = {
        PhraseEncoderRequest: PhraseTask,
        QueryEncoderRequest: QueryTask,
        PhraseRerankerRequest: RerankerTask,
    }
    base = encoder_folder(request.base)
    # Everything that the trained model depends on.
    recorded = {item.name: getattr(request, item.name) for item in dataclasses.fields(request)}
    for name in ("output", "device", "threads"):
        del recorded[name]
    recorded |= {"data": _checksums(request.data), "validation": _checksums(request.validation)}
    recorded |= {"base_fingerprint": fingerprint(base), "what": type(request).__name__}
    if isinstance(request, _IndexedTrainRequest):
        recorded["index"] = read_settings(request.index)
    if isinstance(request, PhraseRerankerRequest) and request.encoder:
        recorded["encoder_fingerprint"] = fingerprint(encoder_folder(request.encoder))
    with torch_threads(request.threads):
        make_task = partial(tasks[type(request)], request, base)
        return run_training(make_task, request, recorded, report=report)


def _checksums(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The checksum (SHA-256) of each file, by path; None for a name that is not a file, such as Pyserini's topics."""
    return [{str(path): content_hash(path) if Path(path).is_file() else None for path in source} for source in sources]


def parse(argv: Sequence[str] | None) -> TrainRequest:
    """The request of a command line; each kind of model is a sub-command, whose flags are the fields of its request."""
    parser = CommandParser("train", description=__doc__, epilog=EXAMPLES)
    models = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=FlagParser)
    for name, (request, about) in _MODELS.items():
        index = " --index INDEX --corpus CORPUS" if issubclass(request, _IndexedTrainRequest) else ""
        usage = f"%(prog)s --data FILE ... --base BASE{index} --output OUTPUT [flags]"
        how: dict[str, Any] = {"argument_default": argparse.SUPPRESS, "usage": usage}
        model = models.add_parser(name, help=about, description=f"Train {about}.", **how)
        data = "questions with answers, in any format of topics"
        if request is PhraseEncoderRequest:
            data = "questions as JSON lines, then their corpus.jsonl, then qrels if lines have no `gold` or `context`"
        files: dict[str, Any] = {"nargs": "+", "action": "append", "metavar": "FILE"}
        group = model.add_argument_group("data")
        group.add_argument("--data", required=True, help=f"{data}; may be given several times", **files)
        group.add_argument("--validation", help="like --data, for validation only", **files)
        add_request_flags(model, request)
    flags = vars(parser.parse_args(argv))
    return _MODELS[flags.pop("what")][0].from_flags(flags)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = parse(argv)
    from transformers.utils import logging

    logging.disable_progress_bar()  # of reading and writing weights; the training has its own
    record = train(request, report=lambda line: sys.stderr.write(f"{line}\n"))
    sys.stderr.write(f"{request.output}: the best of {record['steps']} steps is {record['best_step']}\n")


if __name__ == "__main__":
    run(main)
