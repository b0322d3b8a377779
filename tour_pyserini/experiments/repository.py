"""Between runs as files of their own and archives as a repository keeps them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tour_pyserini.experiments.archive import read_archive, write_archive
from tour_pyserini.experiments.cells import Cell, conditions_of
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.packing import write_packed
from tour_pyserini.experiments.places import Places

if TYPE_CHECKING:
    from ir_measures import ScoredDoc


def pack_cells(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> Iterator[Path]:
    """Put the runs there are of each cell into its archive, in place of what was in it."""
    for cell in chosen:
        runs = {name: places.run(cell, name) for name in conditions_of(experiment, cell)}
        runs = {name: run for name, run in runs.items() if run.is_file()}
        if runs:
            write_archive(runs, places.archive(cell))
            yield places.archive(cell)


def unpack_cells(experiment: Experiment, chosen: Sequence[Cell], places: Places) -> Iterator[Path]:
    """Write the runs of each archive that are not files yet, as TREC runs with scores that say their order."""
    for cell in chosen:
        if not places.archive(cell).is_file():
            continue
        archive = read_archive(places.archive(cell))
        for name in conditions_of(experiment, cell):
            output = places.run(cell, name)
            if name in archive.records and not output.exists():
                content = "".join(_lines(archive.run(name), name)).encode()
                write_packed(content, output, archive.records[name])
                yield output


def _lines(run: "Sequence[ScoredDoc]", tag: str) -> Iterator[str]:
    query, rank = None, 0
    for hit in run:
        rank = rank + 1 if hit.query_id == query else 1
        query = hit.query_id
        yield f"{query} Q0 {hit.doc_id} {rank} {hit.score:.6f} {tag}\n"
