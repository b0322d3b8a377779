"""What this machine has of what the package needs: one small check each, and what to do where it is missing."""

import importlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.support.files import cache_home
from tour_pyserini.support.hardware import cores, cpu_flags


class Finding(NamedTuple):
    """What a check found; `remedy` is empty when there is nothing to do."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def python(name: str) -> Finding:
    """The interpreter itself."""
    ok = sys.version_info >= (3, 11)
    remedy = "" if ok else "make a new environment with Python 3.11 or newer"
    return Finding(name, ok, f"{platform.python_version()} ({sys.executable})", remedy)


def this_package(name: str) -> Finding:
    """tour_pyserini, which also works from its source folder without being installed."""
    try:
        version = importlib.metadata.version("tour_pyserini")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed, used from its source"
    return Finding(name, True, f"{version} ({Path(__file__).parents[1]})")


def java(name: str) -> Finding:
    """Java 21 or newer; this starts it, or leaves it to Pyserini."""
    from tour_pyserini.support.java import ensure_java

    found = ensure_java()
    return Finding(name, True, f"{found.version} from {found.source} ({found.home})")


def pyserini(name: str) -> Finding:
    """Pyserini, and that its dense search can be imported."""
    from tour_pyserini.support.java import ensure_java

    finding = package(name, module="pyserini", install="pyserini")
    if not finding.ok:
        return finding
    ensure_java()
    try:
        importlib.import_module("pyserini.search.faiss")
    except Exception as error:  # whatever it is, it is what the user would meet
        remedy = "pip install --force-reinstall --no-deps pyserini"
        if "credentials" in str(error):
            remedy = 'pip install "openai<2.34"'
        elif isinstance(error, OSError):
            remedy = 'connect to the network, or: pip install "pyserini<2.4"'
        return Finding(name, False, f"{finding.found} does not start: {one_line(error)}", remedy)
    return finding


def package(name: str, *, module: str, install: str) -> Finding:
    """A Python package: that it can be imported, and its version."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return Finding(name, False, one_line(error), f"pip install {install}")
    except Exception as error:  # installed and broken: a missing system library, versions that do not fit
        again = f"pip install --force-reinstall --no-deps {install}"
        return Finding(name, False, f"does not start: {one_line(error)}", again)
    try:
        return Finding(name, True, importlib.metadata.version(install))
    except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
        return Finding(name, True, str(getattr(sys.modules[module], "__version__", "version unknown")))


def default_encoder(name: str) -> Finding:
    """The default bi-encoder's files, against their checksums."""
    from tour_pyserini.encoders.default_encoder import FILES, verify_default_encoder

    return _verified(name, verify_default_encoder(), FILES["model.safetensors"])


def default_reranker(name: str) -> Finding:
    """The default cross-encoder's files, against their checksums."""
    from tour_pyserini.rerankers.default_reranker import SHA256, verify_default_reranker

    return _verified(name, verify_default_reranker(), SHA256["model.onnx"])


def processor(name: str) -> Finding:
    """Cores, and the instruction sets that decide which re-ranker backend is fastest."""
    flags = cpu_flags()
    told = "instruction sets unknown" if flags is None else ", ".join(flags) or "no AVX2"
    return Finding(name, True, f"{cores()} cores; {told}")


def cache_folder(name: str) -> Finding:
    """Where scores are kept between runs, and that it can be written to."""
    folder = cache_home().absolute()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return Finding(name, True, f"{folder}{'' if nearest == folder else ' (made when first needed)'}")
    return Finding(name, False, f"{folder} cannot be written", "set TOUR_PYSERINI_CACHE to a folder that can be")


def one_line(error: Exception) -> str:
    """An exception's kind and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _verified(name: str, folder: Path, weights: str) -> Finding:
    return Finding(name, True, f"every file as expected, weights SHA-256 {weights[:12]} ({folder})")
