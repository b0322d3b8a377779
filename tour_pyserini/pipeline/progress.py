"""The bar of a search: it counts labels while the re-ranker works, or queries if the method needs no labels."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

FORMAT = "{n_fmt}/{total_fmt} {unit}{postfix} {remaining} {bar}"
"""Counts and the time left come first: where the terminal is narrow, the end of the line is cut off."""


@contextlib.contextmanager
def search_bar(
    queries: int, *, reranker: Any = None, most_labels: int = 0, show: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the terminal while a search runs; nothing is shown if standard error is not a terminal.

    Args:
        queries: number of queries to search.
        reranker: what labels come from, or None. If it has an attribute `on_progress`, the bar moves while it works.
        most_labels: most labels of a query. The total is this number for each query that is not done, and what they
            really took for those that are.
        show: False for no bar at all.

    Yields:
        A function to call after each batch with the number of queries done and of labels bought so far.
    """
    from tqdm import tqdm

    counted: dict[str, Any] = {"total": queries, "unit": "queries"}
    if reranker is not None:
        counted = {"total": queries * most_labels, "unit": "labels", "postfix": f"0/{queries} queries"}
    # disable=None: a bar on a terminal only. miniters=1: labels from the cache come much faster than others.
    with tqdm(**counted, disable=None if show else True, dynamic_ncols=True, miniters=1, bar_format=FORMAT) as bar:
        if reranker is None:
            yield lambda done, labels: _move(bar, done)
            return

        def report(done: int, labels: int) -> None:
            bar.total = labels + (queries - done) * most_labels
            bar.set_postfix_str(f"{done}/{queries} queries", refresh=False)
            _move(bar, labels)

        listens = hasattr(reranker, "on_progress") and not bar.disable
        if listens:
            reranker.on_progress = bar.update
        try:
            yield report
        finally:
            if listens:
                reranker.on_progress = None


def _move(bar: Any, count: int) -> None:
    bar.n = count
    bar.refresh()
