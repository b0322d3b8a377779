"""Query ids, texts and answers: from local files with errors that name the line, or from Pyserini."""

from tour_pyserini.topics.judged import judged_only
from tour_pyserini.topics.questions import Question, read_questions
from tour_pyserini.topics.reading import read_topics

__all__ = ["Question", "judged_only", "read_questions", "read_topics"]
