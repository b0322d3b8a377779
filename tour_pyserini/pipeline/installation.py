"""Checking an installation: what the package needs, whether it is there, and how to install what is missing."""

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import cache_home
from tour_pyserini.support.hardware import cores, cpu_flags


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        name: the name of the check.
        ok: whether it passed.
        found: a version, a path, or the problem.
        remedy: a command or an advice that solves the problem; empty if there is none.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""


class Check(NamedTuple):
    """One check. If it is not `needed`, the installation is complete without it.

    Attributes:
        name: the name in the report.
        run: called with the name.
        needed: whether the package needs it.
    """

    name: str
    run: Callable[[str], Finding]
    needed: bool = True


class InstallationReport(NamedTuple):
    """The findings of all checks, and whether everything that is needed was found."""

    ok: bool
    findings: Sequence[Finding]

    def as_text(self) -> str:
        """One line for each finding, and its remedy below it."""
        width = max(len(finding.name) for finding in self.findings)
        lines = []
        for finding in self.findings:
            lines.append(f"{'ok' if finding.ok else '--'}  {finding.name:{width}}  {finding.found}")
            if finding.remedy:
                lines.append(f"    {'':{width}}  -> {finding.remedy}")
        missing = "Something that is needed is missing or damaged: see the lines with --."
        lines.append("Everything that is needed was found." if self.ok else missing)
        return "\n".join(lines)


def check_installation(checks: Sequence[Check] | None = None) -> InstallationReport:
    """Run all checks; a check that fails becomes a finding, and no exception is raised.

    Example:
        >>> report = check_installation()  # doctest: +SKIP
        >>> [finding.name for finding in report.findings if not finding.ok]  # doctest: +SKIP
        []
    """
    checks = CHECKS if checks is None else checks
    findings = [run_check(check) for check in checks]
    ok = all(finding.ok for check, finding in zip(checks, findings, strict=True) if check.needed)
    return InstallationReport(ok, findings)


def run_check(check: Check) -> Finding:
    """Run one check; an exception becomes a finding."""
    try:
        return check.run(check.name)
    except TourError as error:
        # The message names the problem and, after the last semicolon, what to do.
        problem, _, remedy = str(error).rstrip(".").rpartition("; ")
        return Finding(check.name, False, problem or remedy, remedy.removeprefix("run: ") if problem else "")
    except Exception as error:  # the other checks must still be reported
        return Finding(check.name, False, f"the check itself failed: {_one_line(error)}")


def check_python(name: str) -> Finding:
    """The version of Python."""
    ok = sys.version_info >= (3, 11)
    remedy = "" if ok else "make a new environment with Python 3.11 or newer"
    return Finding(name, ok, f"{platform.python_version()} ({sys.executable})", remedy)


def check_this_package(name: str) -> Finding:
    """The version of tour_pyserini, which also works from its source folder without installation."""
    try:
        version = importlib.metadata.version("tour_pyserini")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed, used from its source"
    return Finding(name, True, f"{version} ({Path(__file__).parents[1]})")


def check_java(name: str) -> Finding:
    """Java 21 or newer; the check starts it if Pyserini needs that."""
    from tour_pyserini.support.java import ensure_java

    found = ensure_java()
    return Finding(name, True, f"{found.version} from {found.source} ({found.home})")


def check_pyserini(name: str) -> Finding:
    """Pyserini, and that its dense search can be imported."""
    from tour_pyserini.support.java import ensure_java

    finding = check_package(name, module="pyserini", install="pyserini")
    if not finding.ok:
        return finding
    ensure_java()
    try:
        importlib.import_module("pyserini.search.faiss")
    except Exception as error:  # users would get the same error, whatever it is
        remedy = "pip install --force-reinstall --no-deps pyserini"
        if "credentials" in str(error):
            remedy = 'pip install "openai<2.34"'
        elif isinstance(error, OSError):
            remedy = 'connect to the network, or: pip install "pyserini<2.4"'
        return Finding(name, False, f"{finding.found} does not start: {_one_line(error)}", remedy)
    return finding


def check_package(name: str, *, module: str, install: str) -> Finding:
    """A Python package: that it can be imported, and its version.

    Args:
        name: the name of the check.
        module: what is imported.
        install: the name for `pip install`.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return Finding(name, False, _one_line(error), f"pip install {install}")
    except Exception as error:  # installed but broken: a missing system library, or versions that do not fit
        remedy = f"pip install --force-reinstall --no-deps {install}"
        return Finding(name, False, f"does not start: {_one_line(error)}", remedy)
    try:
        return Finding(name, True, importlib.metadata.version(install))
    except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built from source
        return Finding(name, True, str(getattr(sys.modules[module], "__version__", "version unknown")))


def check_default_encoder(name: str) -> Finding:
    """The files of the default bi-encoder and their checksums."""
    from tour_pyserini.encoders.default_encoder import FILES, verify_default_encoder

    return _verified(name, verify_default_encoder(), FILES["model.safetensors"])


def check_default_reranker(name: str) -> Finding:
    """The files of the default cross-encoder and their checksums."""
    from tour_pyserini.rerankers.default_reranker import SHA256, verify_default_reranker

    return _verified(name, verify_default_reranker(), SHA256["model.onnx"])


def check_processor(name: str) -> Finding:
    """The number of cores, and the instruction sets that decide which back end of a re-ranker is fastest."""
    flags = cpu_flags()
    sets = "instruction sets unknown" if flags is None else ", ".join(flags) or "no AVX2"
    return Finding(name, True, f"{cores()} cores; {sets}")


def check_cache_folder(name: str) -> Finding:
    """The folder of the score cache, and that it can be written to."""
    folder = cache_home().absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return Finding(name, True, f"{folder}{'' if existing == folder else ' (made when first needed)'}")
    return Finding(
        name, False, f"{folder} cannot be written", "set TOUR_PYSERINI_CACHE to a folder that can be written"
    )


def _verified(name: str, folder: Path, weights: str) -> Finding:
    return Finding(name, True, f"every file as expected, weights SHA-256 {weights[:12]} ({folder})")


def _one_line(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _package(module: str, install: str) -> Callable[[str], Finding]:
    return partial(check_package, module=module, install=install)


CHECKS: Sequence[Check] = (
    Check("Python", check_python),
    Check("tour_pyserini", check_this_package),
    Check("Java", check_java),
    Check("Pyserini", check_pyserini),
    Check("FAISS", _package("faiss", "faiss-cpu")),
    Check("torch", _package("torch", "torch")),
    Check("transformers", _package("transformers", "transformers")),
    Check("onnxruntime", _package("onnxruntime", "onnxruntime")),
    Check("ir-measures", _package("ir_measures", "ir-measures")),
    Check("sentence-transformers", _package("sentence_transformers", "sentence-transformers"), needed=False),
    Check("default encoder", check_default_encoder),
    Check("default re-ranker", check_default_reranker),
    Check("processor", check_processor),
    Check("cache folder", check_cache_folder),
)
