"""The baseline that only retrieves: the loop with no label and no update."""

from tour_pyserini.core.methods.rerank import Rerank


class Dense(Rerank):
    """Leaves both the query and the retrieval order as they are."""

    labels = False
