"""What this machine has of what the package needs: one small check each, and what to do where it is missing."""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.support.files import cache_home
from tour_pyserini.support.hardware import cores, cpu_flags


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        name: what was checked.
        ok: whether it is there and works.
        found: its version and path, or what is wrong.
        remedy: what to do; empty when there is nothing to do.
        absent: whether it is not installed at all, and not just broken.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""
    absent: bool = False


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


def package(name: str, *, module: str, install: str, extra: str | None = None) -> Finding:
    """A Python package: that it can be imported, and its version; `extra` is the one of this package that brings it."""
    try:
        importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return _not_installed(name, module, f'"tour_pyserini[{extra}]"' if extra else install)
        # Installed and broken: a missing system library or dependency, versions that do not fit together.
        dependencies = "" if isinstance(error, ModuleNotFoundError) else "--no-deps "
        again = f"pip install --force-reinstall {dependencies}{install}"
        return Finding(name, False, f"does not start: {one_line(error)}", again)
    try:
        return Finding(name, True, importlib.metadata.version(install))
    except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
        return Finding(name, True, str(getattr(sys.modules[module], "__version__", "version unknown")))


def default_encoder(name: str) -> Finding:
    """The default bi-encoder's files, against their checksums."""
    from tour_pyserini.encoders import default_encoder

    if importlib.util.find_spec(default_encoder.PACKAGE) is None:
        return _not_installed(name, default_encoder.PACKAGE, '"tour_pyserini[models]"')
    return _verified(name, default_encoder.verify_default_encoder(), default_encoder.FILES["model.safetensors"])


def default_reranker(name: str) -> Finding:
    """The default cross-encoder's files, against their checksums."""
    from tour_pyserini.rerankers import default_reranker

    if importlib.util.find_spec(default_reranker.PACKAGE) is None:
        return _not_installed(name, default_reranker.PACKAGE, '"tour_pyserini[models]"')
    return _verified(name, default_reranker.verify_default_reranker(), default_reranker.SHA256["model.onnx"])


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


def _not_installed(name: str, module: str, install: str) -> Finding:
    return Finding(name, False, f"not installed: no module {module}", f"pip install {install}", absent=True)


def _verified(name: str, folder: Path, weights: str) -> Finding:
    return Finding(name, True, f"every file as expected, weights SHA-256 {weights[:12]} ({folder})")
