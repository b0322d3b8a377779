"""`python -m tour_pyserini.train phrase-encoder`."""

import argparse
from pathlib import Path
from typing import Any

from tour_pyserini.arguments import settle
from tour_pyserini.errors import TourError
from tour_pyserini.phrase_encoders import load_phrase_encoder
from tour_pyserini.phrase_encoders.encoder import PhraseEncoder
from tour_pyserini.phrase_encoders.loading import find_model
from tour_pyserini.phrase_encoders.model import model_from_base
from tour_pyserini.phrase_encoders.settings import EncoderSettings
from tour_pyserini.phrases.corpus import check_corpus, check_encoder
from tour_pyserini.phrases.index import open_phrase_index, read_settings
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.plugs.default_encoder import verify_default_encoder
from tour_pyserini.plugs.encoder_choice import DEFAULT
from tour_pyserini.plugs.model_folder import fingerprint, read_model_folder
from tour_pyserini.rerankers.checkpoint import read_tokenizer
from tour_pyserini.texts import open_texts
from tour_pyserini.train_arguments import FROM_BASE, QUERY_SIDE
from tour_pyserini.train_inputs import read_examples_for, told_by
from tour_pyserini.training.data import Example
from tour_pyserini.training.phrase_task import PhraseTask, Weights
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.query_task import QueryTask
from tour_pyserini.training.run import run_training
from tour_pyserini.training.settings import TrainSettings
from tour_pyserini.training.trainer import Task


def train_phrase_encoder(args: argparse.Namespace, settings: TrainSettings) -> dict[str, Any]:
    """Train from a base, or the query encoders of a phrase encoder on an index; the training's record."""
    _settle(args)
    base = verify_default_encoder() if args.base == DEFAULT else find_model(args.base)
    examples, held = read_examples_for(args, settings)
    told = {**told_by(args), "base": args.base, "base_fingerprint": fingerprint(base)}
    if args.query_side:
        check_corpus(args.query_side, args.corpus)
        told["index"] = read_settings(args.query_side)

        def make(_: Path) -> Task:
            return _query_task(args, settings, base, examples, held)
    else:

        def make(_: Path) -> Task:
            return _phrase_task(args, settings, base, examples, held)

    return run_training(make, settings, told, output=args.output)


def _settle(args: argparse.Namespace) -> None:
    """Fill in the defaults of one way of training, and refuse the flags of the other."""
    if not args.query_side:
        settle(args, FROM_BASE, QUERY_SIDE, why="is for --query-side alone: leave it out.")
        if not 0 < args.filter_recall <= 1:
            raise TourError(f"--filter-recall must lie above 0 and at most at 1, not {args.filter_recall}.")
        return
    settle(args, QUERY_SIDE, FROM_BASE, why="is not for --query-side: the encoder in --base stays as it is.")
    if args.corpus is None:
        raise TourError("--corpus is missing: query-side fine-tuning reads the phrases it retrieves.")


def _phrase_task(
    args: argparse.Namespace, settings: TrainSettings, base: Path, examples: list[Example], held: list[Example]
) -> PhraseTask:
    import torch

    torch.manual_seed(settings.seed)  # the filter's first weights
    declared = read_model_folder(base)
    how = EncoderSettings(
        pooling=args.pooling or declared.pooling,
        lower_case=args.lower_case,
        max_length=args.max_length,
        stride=args.max_length // 4,
    )
    model = model_from_base(declared.weights)
    encoder = PhraseEncoder(model, read_tokenizer(declared.weights), how, device=args.device)
    return PhraseTask(
        encoder,
        examples,
        PhraseValidation(held, recall=args.filter_recall),
        settings,
        weights=Weights(args.batch_weight, args.filter_weight),
        questions_per_passage=args.questions_per_passage,
        freeze_embeddings=not args.train_embeddings,
    )


def _query_task(
    args: argparse.Namespace, settings: TrainSettings, base: Path, examples: list[Example], held: list[Example]
) -> QueryTask:
    encoder = load_phrase_encoder(base, device=args.device)
    check_encoder(args.query_side, encoder, args.base)
    searcher = PhraseSearcher(open_phrase_index(args.query_side), encoder, open_texts(args.corpus))
    asked, held_out = ([(one.question, one.answers) for one in some] for some in (examples, held))
    return QueryTask(encoder, searcher, asked, held_out, settings, depth=args.depth)
