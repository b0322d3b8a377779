"""The three training jobs: phrase encoder, phrase re-ranker and reading comprehension."""

import argparse
import dataclasses
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.cli.flags import settle
from tour_pyserini.cli.train_flags import FROM_BASE, QUERY_SIDE
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.encoders.default_encoder import verify_default_encoder
from tour_pyserini.encoders.model_folder import DEFAULT, fingerprint, read_model_folder
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.encoders.phrases.phrase_loading import find_model, load_phrase_encoder
from tour_pyserini.encoders.phrases.phrase_model import model_from_base
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.phrase_input import PhraseInput
from tour_pyserini.searchers.phrase_searcher import PhraseSearcher
from tour_pyserini.stores.phrases.phrase_index import open_phrase_index, read_settings
from tour_pyserini.stores.phrases.phrase_index_checks import check_corpus, check_encoder
from tour_pyserini.support.checkpoints import read_tokenizer
from tour_pyserini.training.phrase_task import PhraseTask, Weights
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.query_task import QueryTask
from tour_pyserini.training.reading_task import ReadingTask
from tour_pyserini.training.reranker_candidates import find_candidates
from tour_pyserini.training.reranker_task import LOSSES, RerankerTask, marked_classifier
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import Task
from tour_pyserini.training.training_examples import Example, described, read_sources, split
from tour_pyserini.training.training_run import run_training


def read_examples_for(args: argparse.Namespace, settings: TrainSettings) -> tuple[list[Example], list[Example]]:
    """Training and validation examples of --data and --validation."""
    examples = read_sources(args.data)
    if args.validation:
        return examples, read_sources(args.validation)[: args.validation_questions]
    return split(examples, share=args.validation_share, most=args.validation_questions, seed=settings.seed)


def told_by(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say about the model and the data, for the record; how fast it is done is no part of it."""
    left_out = {"output", "device", "threads", "data", "validation", "base"}
    left_out |= {field.name for field in dataclasses.fields(TrainSettings)}
    told = {name: value for name, value in vars(args).items() if name not in left_out}
    return {**told, "data": described(args.data), "validation": described(args.validation or [])}


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


def train_phrase_reranker(args: argparse.Namespace, settings: TrainSettings) -> dict[str, Any]:
    """Train on what the retriever finds for questions with answers; the training's record."""
    base = find_model(args.base)
    questions, held = _questions(args, settings)
    made = read_settings(args.index)
    check_corpus(args.index, args.corpus)
    told = {**told_by(args), "base": args.base, "base_fingerprint": fingerprint(base), "index": made}
    if args.encoder:
        told["encoder_fingerprint"] = fingerprint(find_model(args.encoder))
    # As the paper's code has it: title, the tokenizer's separator, context.
    separator = read_tokenizer(base).sep_token
    shown = PhraseInput(context=args.context, title=not args.no_title, separator=f" {separator} " if separator else " ")

    def make(folder: Path) -> RerankerTask:
        import torch

        name = args.encoder or made["encoder"]
        encoder = load_phrase_encoder(name, device=args.device)
        check_encoder(args.index, encoder, name)
        texts = open_texts(args.corpus)
        searcher = PhraseSearcher(open_phrase_index(args.index), encoder, texts)
        how = {"depth": args.depth, "positive": args.positive}
        found = find_candidates(questions, searcher, shown, file=folder / "candidates.jsonl", **how)
        held_out = find_candidates(held, searcher, shown, file=folder / "validation.jsonl", **how)
        torch.manual_seed(settings.seed)  # the head's and the marks' first weights
        model, tokenizer = marked_classifier(base, labels=LOSSES[args.loss])
        return RerankerTask(
            model,
            tokenizer,
            found,
            held_out,
            texts,
            shown,
            settings,
            loss=args.loss,
            max_length=args.max_length,
            device=args.device,
        )

    return run_training(make, settings, told, output=args.output)


def _questions(args: argparse.Namespace, settings: TrainSettings) -> tuple[list[Question], list[Question]]:
    """Questions to train on and to validate on."""
    questions = _numbered(chain.from_iterable(args.data))
    if args.validation:
        return questions, _numbered(chain.from_iterable(args.validation))[: args.validation_questions]
    if not 0 < args.validation_share < 1:
        raise TourError(f"--validation-share must lie between 0 and 1, not {args.validation_share}.")
    order = np.random.default_rng([settings.seed, 17]).permutation(len(questions)).tolist()
    count = min(args.validation_questions, max(1, round(args.validation_share * len(questions))))
    return [questions[place] for place in sorted(order[count:])], [questions[place] for place in order[:count]]


def _numbered(files: Any) -> list[Question]:
    """The questions of several files, whose ids may be the same."""
    found: Sequence[Question] = [question for file in files for question in read_questions(file)]
    return [question._replace(qid=str(number)) for number, question in enumerate(found)]


def train_reading_comprehension(args: argparse.Namespace, settings: TrainSettings) -> dict[str, Any]:
    """Train an extractive reader; the training's record."""
    base = find_model(args.base)
    examples, held = read_examples_for(args, settings)
    told = {**told_by(args), "base": args.base, "base_fingerprint": fingerprint(base)}

    def make(_: Path) -> ReadingTask:
        import torch
        from transformers import AutoModelForQuestionAnswering

        torch.manual_seed(settings.seed)  # the head's first weights
        try:
            model = AutoModelForQuestionAnswering.from_pretrained(str(base), weights_only=True, trust_remote_code=False)
        except Exception as error:
            raise TourError(f"{args.base} cannot be trained as a reader ({first_line(error)}).") from error
        options = {"max_length": args.max_length, "device": args.device}
        return ReadingTask(model.float(), read_tokenizer(base), examples, held, settings, **options)

    return run_training(make, settings, told, output=args.output)
