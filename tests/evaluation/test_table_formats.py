import csv
import io

import pytest

from tour_pyserini.evaluation.tables import FORMATS, Table

TABLE = Table(
    [
        ["run", "measure", "difference", "sign"],
        ["a_b.trec", "P@5", "-0.1250", "*"],
        ["c,d|e.trec", "RR", "+0.5000", ""],
    ],
    words=2,
    title="Against base: 100% * sure",
)

EXPECTED = {
    "text": """\
Against base: 100% * sure

run         measure  difference  sign
a_b.trec    P@5         -0.1250     *
c,d|e.trec  RR          +0.5000""",
    "markdown": r"""Against base: 100% \* sure

| run | measure | difference | sign |
| --- | --- | ---: | ---: |
| a_b.trec | P@5 | -0.1250 | \* |
| c,d\|e.trec | RR | +0.5000 |  |""",
    "latex": r"""% Against base: 100% * sure
\begin{tabular}{llrr}
\toprule
run & measure & difference & sign \\
\midrule
a\_b.trec & P@5 & $-$0.1250 & * \\
c,d$|$e.trec & RR & +0.5000 &  \\
\bottomrule
\end{tabular}""",
    "csv": """\
run,measure,difference,sign
a_b.trec,P@5,-0.1250,*
"c,d|e.trec",RR,+0.5000,""",
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_of_a_table(name):
    assert FORMATS[name](TABLE) == EXPECTED[name]


def test_csv_can_be_read_back():
    assert list(csv.reader(io.StringIO(FORMATS["csv"](TABLE)))) == TABLE.cells


def test_latex_escapes_every_special_character():
    signs = r"\ { } $ & # ^ _ ~ % < >"
    written = FORMATS["latex"](Table([["run"], [signs]])).splitlines()[4]
    assert written == (r"\textbackslash{} \{ \} \$ \& \# \textasciicircum{} \_ \textasciitilde{} \% $<$ $>$ \\")
