import pytest
from ir_measures import Qrel

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Scorer, compare, measure_runs
from tour_pyserini.evaluation.tables import FORMATS, Table, as_latex, as_text, means_table, split_table

TABLE = Table(
    [
        ["run", "measure", "difference", "sign"],
        ["a_b.trec", "P@5", "-0.1250", "*"],
        ["c,d|e.trec", "RR", "+0.5000", ""],
    ],
    words=2,
    title="Against base: 100% * sure",
    legend="*: sure",
)

EXPECTED = {
    "text": """\
Against base: 100% * sure

run         measure  difference  sign
a_b.trec    P@5         -0.1250     *
c,d|e.trec  RR          +0.5000

*: sure""",
    "markdown": r"""Against base: 100% \* sure

| run | measure | difference | sign |
| --- | --- | ---: | ---: |
| a_b.trec | P@5 | -0.1250 | \* |
| c,d\|e.trec | RR | +0.5000 |  |

\*: sure""",
    "latex": r"""% Against base: 100% * sure
\begin{tabular}{llrr}
\toprule
run & measure & difference & sign \\
\midrule
a\_b.trec & P@5 & -0.1250 & * \\
c,d|e.trec & RR & +0.5000 &  \\
\bottomrule
\end{tabular}
% *: sure""",
    "csv": """\
run,measure,difference,sign
a_b.trec,P@5,-0.1250,*
"c,d|e.trec",RR,+0.5000,""",
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_of_a_table(name):
    assert FORMATS[name](TABLE) == EXPECTED[name]


def test_latex_escapes_special_characters():
    written = as_latex(Table([["run"], [r"{ } $ & # _ %\x"]])).splitlines()[4]
    assert written == r"\{ \} \$ \& \# \_ \%\textbackslash x \\"


def test_a_wide_table_is_cut_into_parts_with_the_words_in_each():
    assert as_text(TABLE, width=32).splitlines()[2:9] == [
        "run         measure  difference",
        "a_b.trec    P@5         -0.1250",
        "c,d|e.trec  RR          +0.5000",
        "",
        "run         measure  sign",
        "a_b.trec    P@5         *",
        "c,d|e.trec  RR",
    ]
    assert max(map(len, as_text(TABLE._replace(title="word " * 30), width=40).splitlines())) <= 40


def test_the_table_of_means_counts_queries_with_hits_if_a_run_lacks_some(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 a 1\n")
    for name, queries in {"all": ("q1", "q2"), "some": ("q1",)}.items():
        (tmp_path / name).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in queries))
    costs = ["labels/query", "updates/query"]
    every, some = compare(tmp_path / "qrels", [tmp_path / "all", tmp_path / "some"], ["RR"])
    assert means_table([every]).cells == [["run", "RR", *costs], ["all", "1.0000", "-", "-"]]
    assert means_table([every, some]).cells == [
        ["run", "answered", "RR", *costs],
        ["all", "2", "1.0000", "-", "-"],
        ["some", "1", "0.5000", "-", "-"],
    ]


def test_means_of_splits_by_hand(tmp_path):
    scorer = Scorer(["Success@1"], [Qrel(query, "a", 1) for query in ("q1", "q2", "q3", "q4")])
    hits = {"one": ("q1", "q2"), "two": ("q1", "q2", "q3", "q4")}
    for run, queries in hits.items():
        (tmp_path / run).write_text("".join(f"{query} Q0 a 1 1.0 t\n" for query in queries))
    runs = measure_runs(scorer, [tmp_path / run for run in hits])
    splits = {"first": {"q1", "q2", "q3"}, "third": {"q3", "unjudged"}, "nobody": {"unjudged"}}
    assert split_table(scorer, runs, splits).cells[1:] == [
        ["first", "one", "3", "0.6667"],
        ["first", "two", "3", "1.0000"],
        ["third", "one", "1", "0.0000"],
        ["third", "two", "1", "1.0000"],
        ["nobody", "one", "0", "-"],
        ["nobody", "two", "0", "-"],
        ["(no split)", "one", "1", "0.0000"],  # q4
        ["(no split)", "two", "1", "1.0000"],
    ]
    with pytest.raises(TourError, match="none of the queries"):
        split_table(scorer, runs, {"first": {"unjudged"}})
