"""The back end that runs classifiers with ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import INPUTS
from tour_pyserini.support.onnx_graphs import open_graph
from tour_pyserini.support.quantise import is_dynamically_quantised
from tour_pyserini.support.token_tables import does_not_fit

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxClassifier:
    """A classifier as an ONNX graph.

    On a CPU, the graph gets one pair per call, without padding, and there is one worker with one thread per core. The
    logit of a pair then depends only on the pair: not on other pairs, the batch size or the number of threads. A
    dynamically quantised graph chooses its scale from the whole batch, so that other pairs would change a logit by up
    to 0.5. On a GPU, graphs that are not dynamically quantised get batches.
    """

    # One pair per call was also the fastest (MiniLM-L-12, pairs of 40-250 tokens, AVX-512). fp32, CPU seconds of one
    # thread for 30 pairs: 1.91 with one pair per call, 1.93 in batches of 256 tokens, 2.25 in batches of 1,024. Wall
    # seconds of two cores for 40 pairs, two workers against one session of two threads: fp32 5.3 and 9.5, int8 2.5
    # and 4.1; other processes used these cores too, which slows down threads that wait for each other.
    backend = "onnx"

    def __init__(self, graph: Path, options: Options) -> None:
        self.one_pair_per_call = options.device == "cpu" or is_dynamically_quantised(graph)
        self.workers = options.cores if self.one_pair_per_call else 1
        self._graph = graph
        self._session = open_graph(graph, device=options.device)
        self._types = {graph_input.name: TYPES.get(graph_input.type) for graph_input in self._session.get_inputs()}
        unknown = [name for name, dtype in self._types.items() if name not in INPUTS or dtype is None]
        if unknown or "input_ids" not in self._types:
            raise TourError(
                f"the inputs of {graph} are {', '.join(self._types) or 'none'}, but a re-ranker takes integers as "
                f"{', '.join(INPUTS)}; export the model as a text classifier."
            )

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute logits [n] or [n, labels]."""
        feed = {name: batch[name].astype(dtype, copy=False) for name, dtype in self._types.items()}
        try:
            return self._session.run(None, feed)[0]
        except Exception as error:
            length = batch["input_ids"].shape[1]
            reason = f"it cannot score {length} tokens: {first_line(error):.200}"
            raise does_not_fit(self._graph, reason) from error
