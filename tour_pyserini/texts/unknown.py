"""A docid that a corpus does not hold."""

from tour_pyserini.errors import TourError


class UnknownDocument(TourError, KeyError):
    """The index returned a document that the corpus does not hold.

    A KeyError too, so that `in` and `get` of a Mapping work as they should.
    """

    def __init__(self, docid: str, corpus: object) -> None:
        super().__init__(
            f"document {docid!r} is not in {corpus}; the index and the corpus must come from the same collection."
        )

    def __str__(self) -> str:
        # KeyError would show the quoted repr of its argument instead of the sentence.
        return str(self.args[0])
