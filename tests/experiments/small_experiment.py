"""A small experiment: the content of its file, and a command that runs it."""

import yaml

from tour_pyserini.experiment import main
from tour_pyserini.experiments.definition import read_experiment


def read(folder, values):
    """The experiment of a file with these values."""
    (folder / "a.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return read_experiment(folder / "a.yaml")


def definition():
    """The values of the file."""
    return {
        "title": "Small",
        "measures": ["nDCG@10", "R@100"],
        "hits": 20,
        "collections": {
            "letters": {
                "corpus": "${DATA}/corpus.jsonl",
                "topics": "${DATA}/topics.tsv",
                "qrels": "${DATA}/qrels.tsv",
                "limit": 4,
            }
        },
        "encoders": {"tiny": {"index": {"encoder": "${MODELS}/encoder", "threads": 1}}},
        "indexes": {
            "flat": {"name": "exact"},
            "pq": {"flags": {"factory": "PQ4x4"}, "vectors": "flat"},
        },
        "rerankers": {"tiny": {"flags": {"reranker": "${MODELS}/reranker", "reranker-threads": 1}}},
        "conditions": {
            "dense": {"flags": {"method": "dense"}},
            "rerank": {"name": "re-rank", "flags": {"method": "rerank"}, "sweep": {"depth": [3, 6]}},
            "hard": {"flags": {"method": "hard", "depth": 5}, "only": {"indexes": ["flat"]}},
        },
        "tables": {"main": {"conditions": ["dense", "rerank-3", "hard"], "baselines": ["dense"]}},
        "figures": {"labels": {"kind": "labels", "curves": ["rerank"], "lines": ["dense"]}},
    }


class Small:
    """The experiment's folder, and the flags of the command."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "small.yaml"
        self.runs = folder / "runs" / "small"

    def write(self, values):
        self.file.write_text(yaml.safe_dump(values, sort_keys=False))

    def command(self, *more):
        folders = {"data": self.folder, "runs": self.folder / "runs", "indexes": self.folder / "indexes"}
        flags = [str(word) for name, folder in folders.items() for word in (f"--{name}", folder)]
        return main([str(self.file), *flags, *more])
