"""What the search command does with a phrase index."""

import argparse
import logging
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from tour_pyserini.cli.flags import positive
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.phrase_input import CONTEXTS, PhraseInput, read_phrase_input
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index, open_phrase_index, read_settings
from tour_pyserini.stores.phrases.phrase_index_checks import check_corpus, fits

if TYPE_CHECKING:
    from tour_pyserini.searchers.phrase_searcher import PhraseSearcher

log = logging.getLogger(__name__)

# Flags that say something about passage indexes alone, and those about phrase indexes alone.
_NOT_FOR_PHRASES = (
    "vectors",
    "ef_search",
    "remove_query",
    "encoder_class",
    "pooling",
    "l2_norm",
    "query_prefix",
    "max_length",
)
_FOR_PHRASES = ("predictions", "unit", "max_words", "nprobe", "context", "title", "separator")
_SWITCHES = ("remove_query",)  # False where they were not given; others are None


Opener = Callable[..., Any]
"""Opens models, indexes and texts, as `once(make, *args, **options)`."""


def anew(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """An opener that opens everything every time."""
    return make(*args, **options)


def add_phrase_flags(group: argparse._ArgumentGroup) -> None:
    """The flags of a search in a phrase index."""
    add = group.add_argument
    add("--predictions", metavar="FILE", help="the phrases as JSON lines (default: RUN.answers.jsonl)")
    add("--unit", choices=["phrase", "passage"], help="what is labelled and ranked (default: phrase)")
    add("--max-words", type=positive, metavar="N", help="words of a phrase at most (default: 10)")
    add("--nprobe", type=positive, metavar="N", help="lists of an inverted file that are looked into")
    contexts = "what the re-ranker reads: 1 or 3 sentences, the paragraph, or the passage without marks"
    add("--context", choices=CONTEXTS, help=f"{contexts} (default: what it was trained on, or 3)")
    add("--title", action=argparse.BooleanOptionalAction, help="whether it reads the title first (default: likewise)")
    add("--separator", metavar="TEXT", help='between title and text, e.g. " </s> " (default: likewise, or a blank)')


def check_phrase_flags(args: argparse.Namespace) -> bool:
    """Whether the index is one of phrases, once no flag is found to be meant for another kind."""
    phrases = is_phrase_index(args.index)
    for name in _NOT_FOR_PHRASES if phrases else _FOR_PHRASES:
        value = getattr(args, name)
        if value if name in _SWITCHES else value is not None:
            kind = "a phrase" if phrases else "no phrase"
            raise TourError(f"--{name.replace('_', '-')} cannot be used: {args.index} is {kind} index.")
    if args.context == "passage" and args.separator is not None:
        raise TourError("--separator cannot be used with --context passage, which reads passages as they are.")
    if phrases and not args.corpus:
        raise TourError("--corpus is missing: an index of phrases says where they stand, not what they are.")
    return phrases


def phrase_searcher(
    args: argparse.Namespace,
    config: TourConfig,
    reranker: Any,
    trace: IO[str] | None,
    predictions: IO[str],
    once: Opener,
) -> Any:
    """The searcher that the flags describe; it writes predictions as it goes. `once` opens what can be shared."""
    from tour_pyserini.data.predictions import write_predictions
    from tour_pyserini.searchers.tour_phrase_searcher import TourPhraseSearcher

    inner = retriever(args, once)
    return TourPhraseSearcher(
        inner,
        reranker,
        config,
        unit=args.unit or "phrase",
        shown=phrase_input(args),
        observe=_observer(trace, inner.docids, config, vectors=args.trace_vectors) if trace else None,
        predict=lambda qid, hits: write_predictions(predictions, qid, hits),
    )


def retriever(args: argparse.Namespace, once: Opener) -> "PhraseSearcher":
    """The searcher without TouR."""
    from tour_pyserini.data.texts import open_texts
    from tour_pyserini.searchers.phrase_searcher import PhraseSearcher

    once(check_corpus, args.index, args.corpus)
    return PhraseSearcher(
        once(open_phrase_index, args.index, nprobe=args.nprobe),
        _encoder(args, once),
        once(open_texts, args.corpus),
        max_words=args.max_words or 10,
    )


def phrase_input(args: argparse.Namespace) -> PhraseInput:
    """What the re-ranker reads of a phrase."""
    return read_phrase_input(args.reranker, context=args.context, title=args.title, separator=args.separator)


def _observer(trace: IO[str], docids: Any, config: TourConfig, *, vectors: bool) -> Any:
    from tour_pyserini.searchers.trace import Trace

    return Trace(trace, docids, labelled=METHODS[config.method].labels, vectors=vectors)


def _encoder(args: argparse.Namespace, once: Opener) -> Any:
    if args.encoded_queries:
        from tour_pyserini.encoders.encoded_queries import load_encoded_queries

        return once(load_encoded_queries, args.encoded_queries)
    from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder

    made = read_settings(args.index)
    encoder = once(load_phrase_encoder, args.encoder or made["encoder"], device=args.device, tokenizer=args.tokenizer)
    if not fits(args.index, encoder):
        searched = args.encoder or "what is there now"
        log.warning("%s was built with %s and is searched with %s", args.index, made["encoder"], searched)
    return encoder
