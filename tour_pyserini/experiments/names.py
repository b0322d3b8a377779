"""Names that parts of a file mention."""

from collections.abc import Iterator

from tour_pyserini.experiments.cells import PARTS
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.figure_kinds import KINDS
from tour_pyserini.experiments.sections import Section


def check_names(top: Section, experiment: Experiment) -> None:
    """Refuse a file that lacks a part, or that mentions what it does not define."""
    for part in (*PARTS, "conditions"):
        if not getattr(experiment, part):
            top.refuse(f"needs at least one of {part}")
    for part, name in _mentioned(experiment):
        if name not in getattr(experiment, part):
            top.refuse(f"mentions {name!r}, which is not among its {part}")
    for figure in experiment.figures.values():
        if figure.kind not in KINDS:
            top.refuse(f"has a figure of the kind {figure.kind!r}, which is none of {', '.join(KINDS)}")


def _mentioned(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The part of the file, and a name from it."""
    for index in experiment.indexes.values():
        if index.vectors:
            yield "indexes", index.vectors
    for reranker in experiment.rerankers.values():
        yield from (("collections", name) for name in reranker.collections)
    for condition in experiment.conditions.values():
        yield from ((part, name) for part, names in condition.only.items() for name in names)
    for table in experiment.tables.values():
        yield from (("conditions", name) for name in (*table.conditions, *table.baselines))
        yield from (("rerankers", name) for name in table.rerankers)
    for figure in experiment.figures.values():
        yield from (("sweeps", name) for name in figure.curves)
        yield from (("conditions", name) for name in figure.lines)
