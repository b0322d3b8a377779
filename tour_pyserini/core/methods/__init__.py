"""The methods of this package. A new one is a function in a file of its own and a line here, or a plugin."""

from tour_pyserini.core.method import register_method
from tour_pyserini.core.methods.baselines import average, dense, rerank, rocchio
from tour_pyserini.core.methods.paper import hard, interpolation, soft, top
from tour_pyserini.core.methods.tour import tour

for _method in (tour, hard, soft, top, interpolation, rocchio, average, rerank, dense):
    register_method(_method)
