"""Processor cores and instruction sets of this machine."""

import os
from pathlib import Path

FLAGS_THAT_MATTER = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16")
"""The instruction sets that decide how fast float and 8-bit models run, under the names Linux gives them."""


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...] | None:
    """Which of `FLAGS_THAT_MATTER` the processor has, in that order; None where the system does not say."""
    if not cpuinfo.is_file():
        return None
    words = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return tuple(flag for flag in FLAGS_THAT_MATTER if flag in words)
