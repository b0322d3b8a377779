"""Re-rankers in ONNX format, run by ONNX Runtime."""

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.batching import Row
from tour_pyserini.rerankers.fingerprint import fingerprint
from tour_pyserini.rerankers.logits import relevance
from tour_pyserini.rerankers.optional import imported
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.truncation import POLICY, encode_pairs

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def accepts(folder: Path) -> bool:
    """Whether the folder holds an ONNX graph and a tokenizer."""
    return _graph(folder) is not None and (folder / "tokenizer.json").is_file()


def load(folder: Path, options: Options, *, name: str) -> "OnnxReranker":
    """The re-ranker in a folder with `model.onnx` or `onnx/model.onnx`, and `tokenizer.json`."""
    return OnnxReranker(folder, options, name=name)


class OnnxReranker(BatchedReranker):
    """An ONNX graph with one or two logits.

    A dynamically quantised graph chooses its scale from the whole batch, so a pair's logit would depend on its
    neighbours (by up to 0.5). Such a graph gets one pair per call, unpadded, on `threads` one-thread workers: as fast
    as batches, and a pair's score is the same whatever it is scored with. Other graphs are batched by length.
    """

    def __init__(self, folder: Path, options: Options, *, name: str) -> None:
        graph = _graph(folder)
        if graph is None:
            raise TourError(f"{folder} holds neither model.onnx nor onnx/model.onnx.")
        alone = _dynamically_quantised(graph)
        self._session = _session(graph, options, threads=1 if alone else options.cores)
        self._inputs = {put.name: TYPES.get(put.type) for put in self._session.get_inputs()}
        unknown = [put for put, kind in self._inputs.items() if put not in INPUTS or kind is None]
        if unknown or "input_ids" not in self._inputs:
            raise TourError(
                f"the inputs of {graph} are {', '.join(self._inputs) or 'none'}; a re-ranker takes whole numbers as "
                f"{', '.join(INPUTS)}: export the model as a text classifier."
            )
        self._tokenizers = {
            strategy: _tokenizer(folder, options.max_length, strategy) for strategy in ("only_second", "longest_first")
        }
        first = self._tokenizers["longest_first"]
        self._room = options.max_length - first.num_special_tokens_to_add(is_pair=True)
        files = [graph, *_external_data(graph), folder / "tokenizer.json"]
        super().__init__(
            name,
            fingerprint("onnx", files, max_length=options.max_length, template=POLICY),
            budget=options.token_budget,
            largest=1 if alone else options.batch_size,
            fill=_padding(first),
            workers=options.cores if alone else 1,
        )

    def _encode(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        return encode_pairs(pairs, encode=self._rows, query_lengths=self._query_lengths, room=self._room)

    def _rows(self, pairs: list[Pair], strategy: str) -> Sequence[Row]:
        return [
            {
                "input_ids": np.asarray(coded.ids),
                "attention_mask": np.ones(len(coded.ids), dtype=np.int64),
                "token_type_ids": np.asarray(coded.type_ids),
            }
            for coded in self._tokenizers[strategy].encode_batch(pairs)
        ]

    def _query_lengths(self, queries: list[str]) -> list[int]:
        # Cut to the maximum length too, which is still long enough to be told apart from what fits.
        first = self._tokenizers["longest_first"]
        return [len(coded.ids) for coded in first.encode_batch(queries, add_special_tokens=False)]

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        feed = {name: batch[name].astype(kind, copy=False) for name, kind in self._inputs.items()}
        try:
            logits = self._session.run(None, feed)[0]
        except Exception as error:
            length = batch["input_ids"].shape[1]
            raise TourError(
                f"{self.name} cannot score {length} tokens ({first_line(error)}); try a smaller maximum length."
            ) from error
        return relevance(logits, self.name)


def _graph(folder: Path) -> Path | None:
    return next((path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()), None)


def _external_data(graph: Path) -> list[Path]:
    """Weights kept beside a graph that is larger than 2 GB, by the names that exporters give them."""
    beside = {*graph.parent.glob(f"{graph.name}?*"), *graph.parent.glob("*.data")}
    return sorted(path for path in beside if path.is_file())


def _dynamically_quantised(graph: Path) -> bool:
    if not graph.stat().st_size:
        return False
    with open(graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"DynamicQuantizeLinear") >= 0


def _session(graph: Path, options: Options, *, threads: int) -> Any:
    ort = imported("onnxruntime")
    provider = "CPUExecutionProvider" if options.device == "cpu" else "CUDAExecutionProvider"
    if (
        options.device != "cpu" and not options.device.startswith("cuda")
    ) or provider not in ort.get_available_providers():
        raise TourError(f"ONNX Runtime cannot run on the device {options.device!r} here; use cpu.")
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    try:
        return ort.InferenceSession(str(graph), sess_options=settings, providers=[provider])
    except Exception as error:
        raise TourError(f"{graph} cannot be read as an ONNX model ({first_line(error)}); fetch it again.") from error


def _tokenizer(folder: Path, max_length: int, strategy: str) -> Any:
    path = folder / "tokenizer.json"
    try:
        tokenizer = imported("tokenizers").Tokenizer.from_file(str(path))
    except TourError:
        raise
    except Exception as error:
        raise TourError(f"{path} cannot be read as a tokenizer ({first_line(error)}); fetch it again.") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy=strategy)
    return tokenizer


def _padding(tokenizer: Any) -> dict[str, int]:
    known = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return {"input_ids": next((token for token in known if token is not None), 0)}
