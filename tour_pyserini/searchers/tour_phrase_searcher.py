"""TouR over phrases behind FaissSearcher's interface."""

from tour_pyserini.searchers.faiss_searcher import TourFaissSearcher
from tour_pyserini.searchers.tour_phrase_engine import TourPhraseEngine


class TourPhraseSearcher(TourPhraseEngine, TourFaissSearcher):
    """A PhraseSearcher whose queries [start; end] are optimised at test time.

    It is also a FaissSearcher over passages: a passage has the score of its best phrase. `batch_phrases` gives the
    phrases themselves.

    Example:
        searcher = TourPhraseSearcher(PhraseSearcher(index, encoder, texts), "models/reranker")
        searcher.phrases("who got the first nobel prize in physics")[0].text
    """
