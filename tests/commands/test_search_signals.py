"""Several signals from the command line: --index2, --encoder2, --sparse."""

import json

import pytest
from index_commands import flags, write_corpus
from tiny_encoder import save_encoder
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, index
from tour_pyserini.data.records import record_path
from tour_pyserini.search import main, search
from tour_pyserini.search_request import SearchRequest


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """An index with BM25, and another encoder's index of the same corpus and of a shuffled one."""
    folder = tmp_path_factory.mktemp("several")
    other = save_encoder(folder / "other", seed=8)
    lines = write_corpus(folder / "corpus.jsonl", 40).read_text().splitlines(keepends=True)
    lines = [line.replace('"text": "', f'"text": "term{number % 7} ') for number, line in enumerate(lines)]
    (folder / "corpus.jsonl").write_text("".join(lines))
    (folder / "shuffled.jsonl").write_text("".join(lines[::-1]))
    (folder / "topics.tsv").write_text("q1\ta b term1\nq2\tc d term2\nq3\te f term3\n")
    index.main(flags(tiny, folder / "corpus.jsonl", folder / "index", "--bm25"))
    for name in ("corpus", "shuffled"):
        index.main(flags(other, folder / f"{name}.jsonl", folder / f"second-{name}"))
    return folder


def arguments(folder, *more):
    fixed = ["--topics", folder / "topics.tsv", "--index", folder / "index", "--method", "dense", "--hits", 10]
    return [str(argument) for argument in [*fixed, "--output", folder / "run.trec", *more]]


def searched(folder, *more):
    main(arguments(folder, *more))
    return (folder / "run.trec").read_text()


def test_a_second_encoder_with_its_own_index(folder):
    first = searched(folder)
    both = searched(folder, "--index2", folder / "second-corpus", "--encoder2", folder / "other")
    assert both != first
    assert searched(folder, "--index2", folder / "second-shuffled", "--encoder2", folder / "other") == both
    assert searched(folder, "--index2", folder / "second-corpus") == both  # the encoder that built it


def test_several_signals_and_the_command_that_makes_the_run_again(folder):
    one = searched(folder, "--index2", folder / "second-corpus")
    several = searched(folder, "--index2", folder / "second-corpus", folder / "index", "--sparse", folder / "index")
    assert several != one
    assert searched(folder, "--index2", folder / "second-corpus", "--index2", folder / "index") != one
    assert (
        searched(
            folder, "--sparse", folder / "index", "--index2", folder / "second-corpus", "--index2", folder / "index"
        )
        == several
    )
    record = json.loads(record_path(folder / "run.trec").read_text())
    assert {"sparse", "index2", "index2 2"} < set(record["files"])
    (folder / "run.trec").unlink()
    main(record["command"][1:])
    assert (folder / "run.trec").read_text() == several


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--index2", "nowhere"], "there is no folder 'nowhere' and no prebuilt index with this name"),
        (["--budget", "20"], "the method dense has no setting 'budget'"),
    ],
)
def test_what_does_not_fit_is_refused(folder, more, message):
    with pytest.raises(TourError, match=message):
        main(arguments(folder, *more))


@pytest.mark.parametrize("sparse", [(), "index"])
def test_a_run_is_the_same_byte_for_byte(folder, sparse):
    runs = []
    for batch_size, threads in ((64, 1), (1, 1), (2, 2)):
        summary = search(
            SearchRequest(
                topics=str(folder / "topics.tsv"),
                index=str(folder / "index"),
                corpus=str(folder / "corpus.jsonl"),
                sparse=folder / "index" if sparse else (),
                reranker=HashReranker(),
                no_cache=True,
                output=str(folder / "whole.trec"),
                batch_size=batch_size,
                threads=threads,
                config=TourConfig(depth=3, budget=8),
            )
        )
        runs.append((folder / "whole.trec").read_bytes())
        assert summary.costs.pairs == summary.costs.scored <= 24
    assert runs[0] == runs[1] == runs[2]
