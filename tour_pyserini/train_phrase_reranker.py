"""`python -m tour_pyserini.train phrase-reranker`."""

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.phrase_encoders import load_phrase_encoder
from tour_pyserini.phrase_encoders.loading import find_model
from tour_pyserini.phrases.corpus import check_corpus, check_encoder
from tour_pyserini.phrases.index import open_phrase_index, read_settings
from tour_pyserini.phrases.marking import PhraseInput
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.plugs.model_folder import fingerprint
from tour_pyserini.rerankers.checkpoint import read_tokenizer
from tour_pyserini.texts import open_texts
from tour_pyserini.topics.questions import Question, read_questions
from tour_pyserini.train_inputs import told_by
from tour_pyserini.training.candidates import find_candidates
from tour_pyserini.training.reranker_model import marked_classifier
from tour_pyserini.training.reranker_task import LOSSES, RerankerTask
from tour_pyserini.training.run import run_training
from tour_pyserini.training.settings import TrainSettings


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
