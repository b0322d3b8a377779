"""Checking an installation: what the package needs, whether it is there, and how to install what is missing."""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.encoders import default_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import loading
from tour_pyserini.support.files import cache_home
from tour_pyserini.support.hardware import cores, cpu_flags


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        name: the name of the check.
        ok: whether it passed.
        found: a version, a path, or the problem.
        remedy: a command or an advice that solves the problem; empty if there is none.
        absent: whether the thing is not installed at all, and not just broken.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""
    absent: bool = False


class Check(NamedTuple):
    """One check.

    Attributes:
        name: the name in the report.
        run: called with the name.
        extra: the extra of this package that brings it, if it is optional.
        quick: the check without loading anything heavy; None if `run` is quick itself.
    """

    name: str
    run: Callable[[str], Finding]
    extra: str | None = None
    quick: Callable[[str], Finding] | None = None


class InstallationReport(NamedTuple):
    """The findings of all checks.

    Attributes:
        ok: whether everything that is needed was found, and nothing that is installed is broken.
        findings: one for each check.
        statuses: `ok`, `missing`, `problem`, or `optional` for what is not installed and not needed.
    """

    ok: bool
    findings: Sequence[Finding]
    statuses: Sequence[str]

    def as_text(self) -> str:
        """One line for each finding, and its remedy below it."""
        width, indent = max(len(finding.name) for finding in self.findings), max(map(len, self.statuses))
        lines = []
        for status, finding in zip(self.statuses, self.findings, strict=True):
            lines.append(f"{status:{indent}}  {finding.name:{width}}  {finding.found}")
            if finding.remedy:
                lines.append(f"{'':{indent}}  {'':{width}}  -> {finding.remedy}")
        problem = "Something that is needed is missing or does not work: see above."
        lines.append("Everything that is needed was found." if self.ok else problem)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        findings = [
            {"name": finding.name, "status": status, "ok": finding.ok, "found": finding.found, "remedy": finding.remedy}
            for status, finding in zip(self.statuses, self.findings, strict=True)
        ]
        return {"ok": self.ok, "findings": findings}


def check_installation(checks: Sequence[Check] | None = None, *, load: bool = False) -> InstallationReport:
    """Run all checks; a check that fails becomes a finding, and no exception is raised.

    Args:
        checks: what is checked; everything the package needs or can use if not given.
        load: load each library and start Java, which finds libraries that are installed but broken.

    Example:
        >>> report = check_installation()  # doctest: +SKIP
        >>> [finding.name for finding in report.findings if not finding.ok]  # doctest: +SKIP
        []
    """
    checks = CHECKS if checks is None else checks
    findings = [run_check(check, load=load) for check in checks]
    statuses = [status_of(check, finding) for check, finding in zip(checks, findings, strict=True)]
    return InstallationReport(not {"missing", "problem"} & set(statuses), findings, statuses)


def run_check(check: Check, *, load: bool = True) -> Finding:
    """Run one check; an exception becomes a finding."""
    look = check.run if load or check.quick is None else check.quick
    try:
        return look(check.name)
    except TourError as error:
        # The message names the problem and, after the last semicolon, what to do.
        problem, _, remedy = str(error).rstrip(".").rpartition("; ")
        remedy = remedy.removeprefix("run: ").removeprefix("run ") if problem else remedy
        return Finding(check.name, False, problem or remedy, remedy if problem else "")
    except Exception as error:  # the other checks must still be reported
        return Finding(check.name, False, f"the check itself failed: {_one_line(error)}")


def status_of(check: Check, finding: Finding) -> str:
    """`ok`, `missing`, `problem`, or `optional` for what is not installed and not needed."""
    if finding.ok:
        return "ok"
    if not finding.absent:
        return "problem"
    return "optional" if check.extra else "missing"


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


def find_installed_java(name: str) -> Finding:
    """Java 21 or newer, without starting it."""
    from tour_pyserini.support.java import find_java

    found = find_java()
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
    except Exception as error:  # Pyserini may raise anything, and a search would raise it too
        remedy = "pip install --force-reinstall --no-deps pyserini"
        if "credentials" in str(error):
            remedy = 'pip install "openai<2.34"'
        elif isinstance(error, OSError):
            remedy = 'connect to the network, or: pip install "pyserini<2.4"'
        return Finding(name, False, f"{finding.found} does not start: {_one_line(error)}", remedy)
    return finding


def check_package(name: str, *, module: str, install: str, extra: str | None = None) -> Finding:
    """A Python package: that it can be imported, and its version; `extra` of this package brings it, if given."""
    try:
        importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return _not_installed(name, module, f'"tour_pyserini[{extra}]"' if extra else install)
        # Installed and broken: a missing system library or dependency, or versions that do not fit together.
        dependencies = "" if isinstance(error, ModuleNotFoundError) else "--no-deps "
        again = f"pip install --force-reinstall {dependencies}{install}"
        return Finding(name, False, f"does not start: {_one_line(error)}", again)
    try:
        return Finding(name, True, importlib.metadata.version(install))
    except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
        return Finding(name, True, str(getattr(sys.modules[module], "__version__", "version unknown")))


def find_installed_package(name: str, *, module: str, install: str, extra: str | None = None) -> Finding:
    """A Python package: that it is installed, and its version. It is not imported."""
    if importlib.util.find_spec(module) is None:
        return _not_installed(name, module, f'"tour_pyserini[{extra}]"' if extra else install)
    try:
        return Finding(name, True, importlib.metadata.version(install))
    except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
        return Finding(name, True, "version unknown")


def check_default_encoder(name: str) -> Finding:
    """The files of the default bi-encoder and their checksums."""
    if importlib.util.find_spec(default_encoder.PACKAGE) is None:
        return _not_installed(name, default_encoder.PACKAGE, '"tour_pyserini[models]"')
    folder = default_encoder.verify_default_encoder(read_again=True)
    return _verified(name, folder, default_encoder.FILES["model.safetensors"])


def check_default_reranker(name: str) -> Finding:
    """The files of the default cross-encoder and their checksums."""
    if importlib.util.find_spec(loading.DEFAULT_PACKAGE) is None:
        return _not_installed(name, loading.DEFAULT_PACKAGE, '"tour_pyserini[models]"')
    folder = loading.verify_default_reranker(read_again=True)
    return _verified(name, folder, loading.DEFAULT_SHA256["model.onnx"])


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


def _not_installed(name: str, module: str, install: str) -> Finding:
    return Finding(name, False, f"not installed: no module {module}", f"pip install {install}", absent=True)


def _verified(name: str, folder: Path, weights: str) -> Finding:
    return Finding(name, True, f"every file as expected, weights SHA-256 {weights[:12]} ({folder})")


def _one_line(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _package_check(name: str, module: str, install: str, extra: str | None = None) -> Check:
    load = partial(check_package, module=module, install=install, extra=extra)
    return Check(name, load, extra, quick=partial(find_installed_package, module=module, install=install, extra=extra))


CHECKS: Sequence[Check] = (
    Check("Python", check_python),
    Check("tour_pyserini", check_this_package),
    Check("Java", check_java, quick=find_installed_java),
    _package_check("Pyserini", "pyserini", "pyserini")._replace(run=check_pyserini),
    _package_check("FAISS", "faiss", "faiss-cpu"),
    _package_check("torch", "torch", "torch"),
    _package_check("transformers", "transformers", "transformers"),
    _package_check("sentence-transformers", "sentence_transformers", "sentence-transformers"),
    _package_check("onnxruntime", "onnxruntime", "onnxruntime"),
    _package_check("ir-measures", "ir_measures", "ir-measures"),
    Check("default encoder", check_default_encoder, extra="models"),
    Check("default re-ranker", check_default_reranker, extra="models"),
    _package_check("onnx", "onnx", "onnx", extra="onnx"),
    _package_check("model2vec", "model2vec", "model2vec", extra="static"),
    _package_check("argcomplete", "argcomplete", "argcomplete", extra="completion"),
    Check("processor", check_processor),
    Check("cache folder", check_cache_folder),
)
