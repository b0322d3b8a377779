"""Find the processor cores and instruction sets of this machine."""

import os
from pathlib import Path

INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16")
"""Instruction sets that affect the speed of float and 8-bit models, by their Linux names."""


def cores() -> int:
    """The number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...] | None:
    """Which of `INSTRUCTION_SETS` the processor has, in that order; None if the system has no such file."""
    if not cpuinfo.is_file():
        return None
    words = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return tuple(flag for flag in INSTRUCTION_SETS if flag in words)
