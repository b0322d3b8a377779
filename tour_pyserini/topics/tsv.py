"""Topics as `id<TAB>text`."""

from tour_pyserini.topics.lines import Line
from tour_pyserini.topics.topic import Topic, checked_topic


def tsv_topic(line: Line, position: int) -> Topic:
    """The topic on a line, as Pyserini's TsvIntTopicReader and TsvStringTopicReader read it."""
    columns = line.text.split("\t")
    if len(columns) < 2:
        line.refuse("has no tab between a query id and a text")
    if any(column.strip() for column in columns[2:]):
        line.refuse(f"has {len(columns)} columns where an id and a text were expected")
    return checked_topic(line, columns[0].strip(), columns[1])
