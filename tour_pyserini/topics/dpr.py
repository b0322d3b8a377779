"""Questions and answers as DPR's files have them: `question<TAB>['answer', ...]`, without ids."""

import csv

from tour_pyserini.topics.lines import Line
from tour_pyserini.topics.topic import Topic, checked_topic, parse_answers


def looks_like_dpr(line: Line) -> bool:
    """Whether the second of two columns is written as a list, be it a broken one."""
    columns = _columns(line)
    if len(columns) != 2 or not columns[1].startswith("["):
        return False
    # The text after an id may begin with a bracket too: "7<TAB>[sic] in quotations".
    return columns[1].endswith("]") or columns[1].startswith(("['", '["')) or len(columns[0].split()) > 1


def dpr_topic(line: Line, position: int) -> Topic:
    """The topic on a line; its id is its position, 0, 1, 2, ..., as Pyserini's DprNqTopicReader has it."""
    columns = _columns(line)
    if len(columns) != 2:
        line.refuse("is not a question, a tab and a list of answers")
    return checked_topic(line, str(position), columns[0], parse_answers(line, columns[1]))


def _columns(line: Line) -> list[str]:
    """Columns, without the quotes that the files' CSV writer put around those that contain quotes."""
    try:
        return [column.strip() for column in next(csv.reader([line.text], delimiter="\t"))]
    except csv.Error as error:
        line.refuse(f"cannot be split into columns ({error})")
