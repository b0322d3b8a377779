"""The training jobs: phrase encoder, query encoder, phrase re-ranker and reading comprehension.

Each job takes a request, trains until the folder `request.output` holds the best model, and returns the record that is
written there as training.json. An interrupted job continues when it is called again with the same request.

Example:
    data = [["questions.jsonl", "corpus.jsonl"]]
    request = PhraseEncoderRequest(base="default", output=Path("models/phrases"), data=data)
    record = train_phrase_encoder(request)
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import Question, read_questions
from tour_pyserini.encoders.model_folder import DEFAULT, fingerprint, read_model_folder, verify_default_encoder
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
from tour_pyserini.training.phrase_task import LossWeights, PhraseTask
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.query_task import QueryTask
from tour_pyserini.training.reading_task import ReadingTask
from tour_pyserini.training.requests import (
    PhraseEncoderRequest,
    PhraseRerankerRequest,
    QueryEncoderRequest,
    ReadingComprehensionRequest,
    Source,
    TrainingRequest,
    own_fields,
)
from tour_pyserini.training.reranker_candidates import find_candidates
from tour_pyserini.training.reranker_task import LOSSES, RerankerTask, marked_classifier
from tour_pyserini.training.trainer import Report, log_report
from tour_pyserini.training.training_examples import Example, read_sources, source_checksums, split_by_passage
from tour_pyserini.training.training_run import check_new, run_training

# Fields of a request that are recorded in another form, or that do not change the trained model.
_NOT_RECORDED = {"base", "output", "data", "validation", "device", "settings"}


def train_phrase_encoder(request: PhraseEncoderRequest, *, report: Report = log_report) -> dict[str, Any]:
    """Train a phrase encoder from a base.

    Args:
        request: what to train.
        report: is called with a line of text after each validation.

    Returns:
        The training's record.
    """
    check_new(request.output)
    base = _find_base(request)
    examples, held_out = _read_examples(request)
    # The record names the settings of query-side fine-tuning too: both are `train phrase-encoder`.
    recorded = _recorded(request, "phrase-encoder", base, query_side=None, corpus=None, depth=None)

    def make_task(_: Path) -> PhraseTask:
        torch.manual_seed(request.settings.seed)  # for the filter's first weights
        declared = read_model_folder(base)
        encoder_settings = EncoderSettings(
            pooling=request.pooling or declared.pooling,
            lower_case=request.lower_case,
            max_length=request.max_length,
            stride=request.max_length // 4,
        )
        tokenizer = read_tokenizer(declared.weights)
        model = model_from_base(declared.weights)
        return PhraseTask(
            PhraseEncoder(model, tokenizer, encoder_settings, device=request.device),
            examples,
            PhraseValidation(held_out, recall=request.filter_recall),
            request.settings,
            weights=LossWeights(request.batch_weight, request.filter_weight),
            questions_per_passage=request.questions_per_passage,
            freeze_embeddings=not request.train_embeddings,
        )

    return run_training(make_task, request.settings, recorded, output=request.output, report=report)


def train_query_encoder(request: QueryEncoderRequest, *, report: Report = log_report) -> dict[str, Any]:
    """Train only the query encoders of a phrase encoder, on what they retrieve from an index.

    Args:
        request: what to train.
        report: is called with a line of text after each validation.

    Returns:
        The training's record.
    """
    check_new(request.output)
    base = _find_base(request)
    examples, held_out = _read_examples(request)
    check_corpus(request.index, request.corpus)
    # The record names the settings of training from a base too: both are `train phrase-encoder`.
    recorded = _recorded(request, "phrase-encoder", base, **dict.fromkeys(own_fields(PhraseEncoderRequest)))
    recorded |= {"query_side": recorded["index"], "index": read_settings(request.index)}

    def make_task(_: Path) -> QueryTask:
        searcher = _open_searcher(request, base, named=request.base)
        questions, validation = ([(one.question, one.answers) for one in part] for part in (examples, held_out))
        return QueryTask(searcher.query_encoder, searcher, questions, validation, request.settings, depth=request.depth)

    return run_training(make_task, request.settings, recorded, output=request.output, report=report)


def train_phrase_reranker(request: PhraseRerankerRequest, *, report: Report = log_report) -> dict[str, Any]:
    """Train a phrase re-ranker on the phrases that the retriever finds for questions with answers.

    Args:
        request: what to train.
        report: is called with a line of text after each validation.

    Returns:
        The training's record.
    """
    check_new(request.output)
    base = find_model(request.base)
    questions, held_out = _read_questions(request)
    index_settings = read_settings(request.index)
    check_corpus(request.index, request.corpus)
    recorded = _recorded(request, "phrase-reranker", base)
    recorded |= {"index": index_settings, "no_title": not recorded.pop("title")}
    if request.encoder:
        recorded["encoder_fingerprint"] = fingerprint(find_model(request.encoder))
    # As in the paper's code: title, the tokenizer's separator, context.
    separator = read_tokenizer(base).sep_token
    phrase_input = PhraseInput(
        context=request.context, title=request.title, separator=f" {separator} " if separator else " "
    )

    def make_task(folder: Path) -> RerankerTask:
        name = request.encoder or index_settings["encoder"]
        searcher = _open_searcher(request, name, named=name)
        options: dict[str, Any] = {"depth": request.depth, "positive": request.positive}
        candidates = find_candidates(questions, searcher, phrase_input, file=folder / "candidates.jsonl", **options)
        validation = find_candidates(held_out, searcher, phrase_input, file=folder / "validation.jsonl", **options)
        torch.manual_seed(request.settings.seed)  # for the first weights of the head and of the marks
        model, tokenizer = marked_classifier(base, labels=LOSSES[request.loss])
        return RerankerTask(
            model,
            tokenizer,
            candidates,
            validation,
            searcher.texts,
            phrase_input,
            request.settings,
            loss=request.loss,
            max_length=request.max_length,
            device=request.device,
        )

    return run_training(make_task, request.settings, recorded, output=request.output, report=report)


def train_reading_comprehension(request: ReadingComprehensionRequest, *, report: Report = log_report) -> dict[str, Any]:
    """Train an extractive reader.

    Args:
        request: what to train.
        report: is called with a line of text after each validation.

    Returns:
        The training's record.
    """
    check_new(request.output)
    base = find_model(request.base)
    examples, held_out = _read_examples(request)
    recorded = _recorded(request, "reading-comprehension", base)

    def make_task(_: Path) -> ReadingTask:
        from transformers import AutoModelForQuestionAnswering

        torch.manual_seed(request.settings.seed)  # for the head's first weights
        try:
            model = AutoModelForQuestionAnswering.from_pretrained(str(base), weights_only=True, trust_remote_code=False)
        except Exception as error:
            raise TourError(f"{request.base} cannot be trained as a reader ({first_line(error)}).") from error
        options: dict[str, Any] = {"max_length": request.max_length, "device": request.device}
        return ReadingTask(model.float(), read_tokenizer(base), examples, held_out, request.settings, **options)

    return run_training(make_task, request.settings, recorded, output=request.output, report=report)


def _open_searcher(
    request: QueryEncoderRequest | PhraseRerankerRequest, encoder: str | os.PathLike[str], *, named: str
) -> PhraseSearcher:
    """The request's index, searched with the encoder that built it, which the user knows as `named`."""
    loaded = load_phrase_encoder(encoder, device=request.device)
    check_encoder(request.index, loaded, named)
    return PhraseSearcher(open_phrase_index(request.index), loaded, open_texts(request.corpus))


def _find_base(request: TrainingRequest) -> Path:
    return verify_default_encoder() if request.base == DEFAULT else find_model(request.base)


def _read_examples(request: TrainingRequest) -> tuple[list[Example], list[Example]]:
    """Examples to train on and to validate on."""
    examples, most = read_sources(request.data), request.validation_questions
    if request.validation:
        return examples, read_sources(request.validation)[:most]
    return split_by_passage(examples, share=request.validation_share, most=most, seed=request.settings.seed)


def _read_questions(request: TrainingRequest) -> tuple[list[Question], list[Question]]:
    """Questions to train on and to validate on."""
    questions, most = _numbered_questions(request.data), request.validation_questions
    if request.validation:
        return questions, _numbered_questions(request.validation)[:most]
    order = np.random.default_rng([request.settings.seed, 17]).permutation(len(questions)).tolist()
    count = min(most, max(1, round(request.validation_share * len(questions))))
    return [questions[position] for position in sorted(order[count:])], [questions[n] for n in order[:count]]


def _numbered_questions(sources: Sequence[Source]) -> list[Question]:
    """The questions of several topics, with new ids: different topics may have the same ids."""
    questions = [question for source in sources for topics in source for question in read_questions(topics)]
    return [question._replace(qid=str(number)) for number, question in enumerate(questions)]


def _recorded(request: TrainingRequest, what: str, base: Path, **other_fields: None) -> dict[str, Any]:
    """The settings that the result depends on, for the record; `other_fields` do not apply to this job."""
    own = {f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.name not in _NOT_RECORDED}
    return {
        "what": what,
        **{name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in own.items()},
        **other_fields,
        "data": source_checksums(request.data),
        "validation": source_checksums(request.validation),
        "base": request.base,
        "base_fingerprint": fingerprint(base),
    }
