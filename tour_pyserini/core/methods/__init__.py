"""The update rules, one file each. A new one is a new file and a line here."""

from collections.abc import Mapping
from types import MappingProxyType

from tour_pyserini.core.methods.anchored import Anchored
from tour_pyserini.core.methods.anchored_labels import AnchoredHard, AnchoredSoft
from tour_pyserini.core.methods.average import Average, AverageRerank
from tour_pyserini.core.methods.base import Method
from tour_pyserini.core.methods.dense import Dense
from tour_pyserini.core.methods.graph import Graph
from tour_pyserini.core.methods.hard import Hard
from tour_pyserini.core.methods.interpolation import Interpolation
from tour_pyserini.core.methods.refit import Refit
from tour_pyserini.core.methods.regression import Regression
from tour_pyserini.core.methods.rerank import Rerank
from tour_pyserini.core.methods.rocchio import Rocchio, RocchioRerank
from tour_pyserini.core.methods.soft import Soft
from tour_pyserini.core.methods.top import Top

__all__ = ["METHODS", "Method"]

METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {
        "anchored": Anchored,
        "anchored-soft": AnchoredSoft,
        "anchored-hard": AnchoredHard,
        "hard": Hard,
        "soft": Soft,
        "top": Top,
        "interpolation": Interpolation,
        "rocchio": Rocchio,
        "average": Average,
        "rerank": Rerank,
        "dense": Dense,
        "rocchio-rerank": RocchioRerank,
        "average-rerank": AverageRerank,
        "refit": Refit,
        "regression": Regression,
        "graph": Graph,
    }
)
