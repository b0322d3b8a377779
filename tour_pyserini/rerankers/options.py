"""Settings that say how a re-ranker is run."""

from collections.abc import Collection
from dataclasses import dataclass

from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import DTYPES
from tour_pyserini.support.hardware import cores

SHORTEST_INPUT = 8
BACKENDS = ("auto", "onnx", "torch")
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a re-ranker is run; `load_reranker` describes the fields."""

    max_length: int = 512
    batch_size: int | None = None
    device: str = "cpu"
    threads: int | None = None
    backend: str = "auto"
    precision: str | None = None
    dtype: str = "auto"
    prompt: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.max_length < SHORTEST_INPUT:
            raise TourError(f"the maximum length is {self.max_length} tokens; give at least {SHORTEST_INPUT}.")
        for what, value in (("batch size", self.batch_size), ("number of threads", self.threads)):
            if value is not None and value < 1:
                raise TourError(f"the {what} is {value}; give 1 or more.")
        if self.backend not in BACKENDS:
            raise TourError(f"unknown back end {self.backend!r}; give one of {', '.join(BACKENDS)}.")
        if self.precision not in (None, *PRECISIONS):
            raise TourError(f"unknown precision {self.precision!r}; give one of {', '.join(PRECISIONS)}.")
        if self.precision == "int8" and (self.backend == "torch" or self.device != "cpu"):
            raise TourError("the precision int8 needs the back end onnx on a cpu; use fp32 elsewhere.")

        if self.dtype not in DTYPES:
            raise TourError(f"unknown dtype {self.dtype!r}; give one of {', '.join(DTYPES)}.")
        if self.half_precision and (self.backend == "onnx" or self.precision is not None):
            raise TourError(
                f"the dtype {self.dtype} needs the back end torch and no precision ({', '.join(PRECISIONS)}); "
                "leave one of them out."
            )

    def check_backends(self, backends: Collection[str], name: str) -> None:
        """Refuse a back end that cannot run a model.

        Args:
            backends: those that can run it; none if it needs none.
            name: what the user called the model.
        """
        wanted = "onnx" if self.precision == "int8" else self.backend
        if wanted in ("auto", *backends):
            return
        precision = " in int8" if self.precision == "int8" else ""
        instead = f"only by {' or '.join(backends)}" if backends else "because it needs no back end; choose none"
        raise TourError(f"{name} cannot be run by {wanted}{precision}, {instead}.")

    @property
    def wanted_dtype(self) -> str:
        """The type of numbers that is asked for: ONNX graphs of checkpoints, and both precisions, are of float32."""
        return "float32" if self.backend == "onnx" or self.precision is not None else self.dtype

    @property
    def half_precision(self) -> bool:
        """Whether numbers in half precision are asked for."""
        return self.dtype in ("bfloat16", "float16")

    @property
    def cores(self) -> int:
        """Number of threads to use: `threads`, or the number of cores that this process may use."""
        return self.threads or cores()

    @property
    def token_budget(self) -> int:
        """Padded tokens per batch. A CPU is fastest with small batches of similar lengths, a GPU with large ones.

        Measured with torch on one AVX-512 core, MiniLM-L-12, 64 pairs of 40-250 tokens: 256, 1,024 and 4,096 tokens
        take 5.05, 4.97 and 5.36 s.
        """
        if self.batch_size is not None:
            return self.batch_size * self.max_length
        return 1024 if self.device == "cpu" else 65536
