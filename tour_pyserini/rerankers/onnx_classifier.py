"""Classifiers run by ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import INPUTS
from tour_pyserini.rerankers.quantise import dynamically_quantised
from tour_pyserini.support.optional import imported

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxClassifier:
    """An ONNX graph.

    On a CPU it gets one pair per call, unpadded, on as many one-thread workers as there are cores. A pair's logit then
    depends on the pair alone: not on its neighbours, the batch size or the number of threads. For a dynamically
    quantised graph, which chooses its scale from the whole batch, neighbours would move a logit by up to 0.5. On a
    GPU, other graphs are batched.
    """

    # It is also the fastest shape that was measured (MiniLM-L-12, pairs of 40-250 tokens, AVX-512). fp32, CPU seconds
    # of one thread for 30 pairs: 1.91 one by one, 1.93 in batches of 256 tokens, 2.25 in batches of 1,024. Wall
    # seconds of two cores for 40 pairs, two workers against one session of two threads: fp32 5.3 and 9.5, int8 2.5
    # and 4.1; other processes kept these cores busy, which is harder on threads that wait for each other.
    backend = "onnx"

    def __init__(self, graph: Path, options: Options) -> None:
        self.alone = options.device == "cpu" or dynamically_quantised(graph)
        self.workers = options.cores if self.alone else 1
        self._session = _session(graph, options)
        self._types = {put.name: TYPES.get(put.type) for put in self._session.get_inputs()}
        unknown = [put for put, kind in self._types.items() if put not in INPUTS or kind is None]
        if unknown or "input_ids" not in self._types:
            raise TourError(
                f"the inputs of {graph} are {', '.join(self._types) or 'none'}; a re-ranker takes whole numbers as "
                f"{', '.join(INPUTS)}: export the model as a text classifier."
            )

    def __call__(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits [n] or [n, labels]."""
        feed = {name: batch[name].astype(kind, copy=False) for name, kind in self._types.items()}
        try:
            return self._session.run(None, feed)[0]
        except Exception as error:
            length = batch["input_ids"].shape[1]
            raise TourError(
                f"the ONNX graph cannot score {length} tokens ({first_line(error)}); try a smaller maximum length."
            ) from error


def _session(graph: Path, options: Options) -> Any:
    ort = imported("onnxruntime")
    provider = "CPUExecutionProvider" if options.device == "cpu" else "CUDAExecutionProvider"
    if (
        options.device != "cpu" and not options.device.startswith("cuda")
    ) or provider not in ort.get_available_providers():
        raise TourError(f"ONNX Runtime cannot run on the device {options.device!r} here; use cpu.")
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    try:
        return ort.InferenceSession(str(graph), sess_options=settings, providers=[provider])
    except Exception as error:
        raise TourError(f"{graph} cannot be read as an ONNX model ({first_line(error)}); fetch it again.") from error
