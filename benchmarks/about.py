"""When and where something was measured."""

import os
from datetime import date

from tour_pyserini.pipeline import installation as machine


def here() -> str:
    """Today and this machine; a busy one is told by its load."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    flags = ", ".join(machine.cpu_flags() or ()) or "instruction sets unknown"
    return f"Measured {date.today().isoformat()} on {machine.cores()} cores ({flags}){load}."
