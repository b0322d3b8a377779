"""Making the runs of an experiment that are not there yet."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.archive import read_records
from tour_pyserini.experiments.cells import Cell, conditions_of
from tour_pyserini.experiments.definition import Experiment
from tour_pyserini.experiments.judgements import searched_qrels
from tour_pyserini.experiments.packing import digests, is_current, pack, read_record
from tour_pyserini.experiments.places import Places
from tour_pyserini.experiments.planning import Search, index_argv, plan_search, settings_of, shown
from tour_pyserini.experiments.session import EncodedOnce, Session
from tour_pyserini.plugs.index_settings import FILE


class Step(NamedTuple):
    """One run to make: the search writes a plain run, which is packed into `output`."""

    cell: Cell
    condition: str
    search: Search
    output: Path


def steps(
    experiment: Experiment,
    chosen: Sequence[Cell],
    places: Places,
    conditions: Sequence[str] = (),
    *,
    write: bool = True,
) -> Iterator[Step]:
    """The runs of the chosen cells, whether they are there or not; judgements of some topics are written if asked."""
    judged = {cell.collection: searched_qrels(experiment, cell.collection, places, write=write) for cell in chosen}
    for cell in chosen:
        for name, condition in conditions_of(experiment, cell, conditions).items():
            output = places.run(cell, name)
            plain, qrels = output.with_suffix(""), judged[cell.collection]
            search = plan_search(experiment, cell, condition, places, output=plain, qrels=qrels)
            yield Step(cell, name, search, output)


def dry(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[str]:
    """The commands as they are typed, indexes first."""
    for _, argv in _indexes(experiment, planned, places):
        yield shown("index", argv)
    for step in planned:
        yield shown("search", step.search.argv)


def make_runs(experiment: Experiment, planned: Sequence[Step], places: Places) -> int:
    """Make the runs that are not there with these settings and inputs, and what indexes they need.

    Returns:
        How many runs were made.
    """
    from tour_pyserini import search
    from tour_pyserini.plugs.encoders import load_query_encoder

    # All settings are read before the first search: a mistake in the last condition should not show tomorrow.
    settings = [settings_of(step.search, step.condition) for step in planned]
    missing = [step for step, config in zip(planned, settings, strict=True) if not _is_there(step, config, places)]
    for folder, argv in _indexes(experiment, missing, places):
        _make_index(folder, argv)
    session, cell = Session({load_query_encoder: EncodedOnce}), None
    for done, step in enumerate(missing):
        if cell is not None and cell[:2] != step.cell[:2]:
            session = Session({load_query_encoder: EncodedOnce})  # what another encoder or corpus needs no more
        cell = step.cell
        sys.stderr.write(f"[{done + 1}/{len(missing)}] {step.output.name}\n")
        plain = step.output.with_suffix("")
        search.main(step.search.argv, once=session.once)
        pack(plain, step.output, settings=step.search.settings, inputs=step.search.inputs)
    return len(missing)


def _is_there(step: Step, config: TourConfig, places: Places) -> bool:
    """Whether the run is there, by itself or in the cell's archive."""
    record = read_record(step.output)
    if not step.output.exists():
        record = read_records(places.archive(step.cell)).get(step.condition)
    return is_current(record, settings=step.search.settings, config=config, inputs=step.search.inputs)


def _indexes(experiment: Experiment, planned: Sequence[Step], places: Places) -> Iterator[tuple[Path, list[str]]]:
    """The folder and the words of the index command, for each index that the runs need."""
    seen: set[Path] = set()
    for step in planned:
        for kind in (experiment.indexes[step.cell.kind].vectors, step.cell.kind):
            if kind is None or (argv := index_argv(experiment, step.cell, places, kind)) is None:
                continue
            folder = places.index_folder(experiment, step.cell, kind)
            if folder not in seen:
                seen.add(folder)
                yield folder, argv


def _make_index(folder: Path, argv: list[str]) -> None:
    from tour_pyserini.index import index_kind
    from tour_pyserini.index import main as build
    from tour_pyserini.index_arguments import index_parser
    from tour_pyserini.plugs.encoders import encoder_fingerprint

    if not (folder / FILE).is_file():
        build(argv)
        return
    corpus = Path(argv[argv.index("--corpus") + 1])
    made = json.loads((folder / FILE).read_text(encoding="utf-8"))
    if made["settings"]["corpus_sha256"] != digests({"corpus": corpus})["corpus"]:
        raise TourError(f"{folder} was built from another corpus than {corpus}; remove it, or give --indexes DIR.")
    args = index_parser().parse_args(argv)
    wanted = {"encoder_fingerprint": encoder_fingerprint(args.encoder), "prefix": args.prefix}
    wanted |= {
        name: getattr(args, name) for name in ("pooling", "l2_norm", "max_length") if getattr(args, name) is not None
    }
    differing = [name for name, value in wanted.items() if made["settings"][name] != value]
    if differing or made["index"] != index_kind(args):
        what = differing[0] if differing else "kind of index"
        raise TourError(f"{folder} was built with another {what}; remove it, or give --indexes DIR.")
