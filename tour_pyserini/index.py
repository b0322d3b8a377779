# PYTHON_ARGCOMPLETE_OK
"""Encode a corpus into a FAISS index."""

import sys
from collections.abc import Sequence

from tour_pyserini.cli.command import run
from tour_pyserini.cli.index_flags import index_request
from tour_pyserini.pipeline.indexing import build_index


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    request = index_request(argv)
    summary = build_index(request, progress=True)
    count = f"{summary.documents} documents"
    if request.phrases:
        count = f"{summary.vectors} token vectors of {count}"
    sys.stderr.write(
        f"{summary.index}: {count} ({summary.encoded_before} were encoded before) in {summary.seconds:.1f} s, "
        f"{summary.per_second:.1f} documents per second\n"
    )


if __name__ == "__main__":
    run(main)
