# PYTHON_ARGCOMPLETE_OK
"""Check the installation, or how a model would be run.

Libraries are found but not loaded, which takes a moment; --load also loads each of them and starts Java, which takes
half a minute and finds libraries that are installed but broken.

Each line starts with `ok`, `missing`, `problem` or `optional`. What is optional is not installed and not needed; the
line names the extra that installs it. The exit code is 1 if something is missing or does not work, and 0 otherwise.

With --model, one model is loaded instead, as a search would load it: the report says whether it is an encoder or a
re-ranker, how it is run, and what it gives for two passages; or why it cannot be run, with exit code 1.
"""

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.command import CommandParser, run
from tour_pyserini.encoders import model_folder
from tour_pyserini.encoders.loading import describe_encoder, load_document_encoder, load_query_encoder
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.flags import Request, add_request_flags, option, same_option
from tour_pyserini.rerankers import load_reranker, loading
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import score_pairs
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.devices import cores, cpu_flags
from tour_pyserini.support.files import cache_home


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
    from tour_pyserini.support.pyserini import ensure_java

    found = ensure_java()
    return Finding(name, True, f"{found.version} from {found.source} ({found.home})")


def find_installed_java(name: str) -> Finding:
    """Java 21 or newer, without starting it."""
    from tour_pyserini.support.pyserini import find_java

    found = find_java()
    return Finding(name, True, f"{found.version} from {found.source} ({found.home})")


def check_pyserini(name: str) -> Finding:
    """Pyserini, and that its dense search can be imported."""
    from tour_pyserini.support.pyserini import ensure_java

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
    if importlib.util.find_spec(model_folder.PACKAGE) is None:
        return _not_installed(name, model_folder.PACKAGE, '"tour_pyserini[models]"')
    folder = model_folder.verify_default_encoder(read_again=True)
    return _verified(name, folder, model_folder.FILES["model.safetensors"])


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


QUERY = "who wrote hamlet"
PASSAGES = ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven.")

_GROUP = "the model that is checked"
_same = functools.partial(same_option, SearchRequest, group=_GROUP)


@dataclass(frozen=True, kw_only=True)
class ModelRequest(Request):
    """Say how a model would be run; the fields are flags of `python -m tour_pyserini.doctor`.

    Attributes:
        model: what `--encoder` or `--reranker` takes: a name, a folder, `default`, or the address of a service.
    """

    model: str | None = option(
        None,
        "check this model instead: a name, a folder, `default` or the address of a service",
        group=_GROUP,
        metavar="NAME",
    )
    device: str = _same("device", help="where it is run: cpu, cuda:0, ...")
    dtype: str = _same("dtype", help="numbers it computes with")
    trust_remote_code: bool = _same("trust_remote_code", help="run Python code that comes with it")
    backend: str = _same("backend", help="what runs it")
    precision: str | None = _same(
        "precision", help="precision of a re-ranker, or of an encoder of documents (default: the model's own)"
    )
    pooling: str | None = _same("pooling", help="pooling of an encoder")
    l2_norm: bool | None = _same("l2_norm", help="whether an encoder's vectors get unit length")
    reranker_prompt: str | None = _same("reranker_prompt")


class Example(NamedTuple):
    """What a model gives for two texts: a `score`, or a `cosine` of their vectors."""

    measure: str
    value: float
    query: str
    passage: str


class ModelUse(NamedTuple):
    """What a model is in one of the two roles.

    Attributes:
        role: `encoder` or `re-ranker`.
        facts: how it is run, by what they are about; none if it cannot be run.
        examples: what it gives for a relevant and for an irrelevant passage.
        problem: why it cannot be run in this role; empty if it can.
    """

    role: str
    facts: Mapping[str, Any]
    examples: Sequence[Example] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the model can be run in this role."""
        return not self.problem


class ModelReport(NamedTuple):
    """What a model can be used as.

    Attributes:
        model: its name.
        uses: one for each role that was tried.
    """

    model: str
    uses: Sequence[ModelUse]

    @property
    def ok(self) -> bool:
        """Whether the model can be run in one of the roles."""
        return any(use.ok for use in self.uses)

    def as_text(self) -> str:
        """A line for each role, and below it a line for each fact and example."""
        lines = []
        for use in self.uses:
            lines.append(f"{'ok' if use.ok else 'no'}  {use.role}: {use.problem or self.model}")
            rows = [(name, _shown(value)) for name, value in use.facts.items()]
            rows += [
                ("gives", f"{row.measure} {row.value:.4f}: {row.query!r}, {row.passage!r}") for row in use.examples
            ]
            width = max((len(name) for name, _ in rows), default=0)
            lines += [f"    {name:{width}}  {text}" for name, text in rows]
        flags = [flag for role, flag in (("encoder", "--encoder"), ("re-ranker", "--reranker")) if self._can_be(role)]
        lines.append(f"It can be used as {' and '.join(flags)}." if flags else "It cannot be run: see above.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        uses = [
            {**use._asdict(), "ok": use.ok, "examples": [example._asdict() for example in use.examples]}
            for use in self.uses
        ]
        return {"ok": self.ok, "model": self.model, "uses": uses}

    def _can_be(self, role: str) -> bool:
        return any(use.ok for use in self.uses if use.role == role)


def check_model(request: ModelRequest) -> ModelReport:
    """Load a model as a search would, and score two pairs or encode two texts with it.

    A model that is a re-ranker is not tried as an encoder: its vectors would mean nothing. `default` names one of each.

    Example:
        >>> check_model(ModelRequest(model="default")).ok  # doctest: +SKIP
        True
    """
    if not request.model:
        raise TourError("--model is missing: give a name, a folder or the address of a service.")
    uses = [_tried("re-ranker", _check_reranker, request)]
    if request.model == DEFAULT or not (uses[0].ok or is_service_address(request.model)):
        uses.insert(0, _tried("encoder", _check_encoder, request))
    return ModelReport(request.model, uses)


def _tried(role: str, check: Callable[[ModelRequest], ModelUse], request: ModelRequest) -> ModelUse:
    try:
        return check(request)
    except TourError as error:
        return ModelUse(role, {}, problem=str(error))
    except Exception as error:  # models and their libraries raise anything; the other role must still be tried
        return ModelUse(role, {}, problem=f"{type(error).__name__}: {first_line(error)}.")


def _check_reranker(request: ModelRequest) -> ModelUse:
    reranker: Any = load_reranker(
        request.model,
        device=request.device,
        backend=request.backend,
        precision=request.precision,
        dtype=request.dtype,
        prompt=request.reranker_prompt,
        trust_remote_code=request.trust_remote_code,
    )
    scores = score_pairs(reranker, [(QUERY, passage) for passage in PASSAGES])
    description = getattr(reranker, "description", None)
    facts = {name.replace("_", " "): value for name, value in description._asdict().items()} if description else {}
    examples = [Example("score", float(score), QUERY, text) for text, score in zip(PASSAGES, scores, strict=True)]
    return ModelUse("re-ranker", facts, examples)


def _check_encoder(request: ModelRequest) -> ModelUse:
    assert request.model is not None
    code = {"trust_remote_code": request.trust_remote_code}
    same = ("device", "dtype", "backend", "pooling", "l2_norm")
    options: dict[str, Any] = {**code, **{name: getattr(request, name) for name in same}}
    queries = load_query_encoder(request.model, **options)
    documents = load_document_encoder(request.model, precision=request.precision or "fp32", **options)
    query = np.asarray(queries.encode(QUERY), dtype=np.float64)
    passages = np.asarray(documents.encode(texts=list(PASSAGES)), dtype=np.float64)
    norms = np.linalg.norm(passages, axis=1)
    facts = {
        **describe_encoder(request.model, queries, documents, **code),
        "dimensions": len(query),
        "norms": f"{np.linalg.norm(query):.4f} of the query, {norms[0]:.4f} and {norms[1]:.4f} of the passages",
    }
    cosines = passages @ query / norms / np.linalg.norm(query)
    examples = [Example("cosine", float(cosine), QUERY, text) for text, cosine in zip(PASSAGES, cosines, strict=True)]
    return ModelUse("encoder", facts, examples)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value))
    text = str(value)
    return repr(text) if text != text.strip() or "\n" in text else text  # every blank of a prompt counts


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything that is needed was found, or the model can be run, 1 otherwise."""
    parser = CommandParser("doctor", description=__doc__, argument_default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=False, help="print the report as JSON")
    parser.add_argument("--load", action="store_true", default=False, help="load each library and start Java, too")
    add_request_flags(parser, ModelRequest)
    flags = vars(parser.parse_args(argv))
    as_json, load = flags.pop("json"), flags.pop("load")
    if flags and load:
        raise TourError("--load checks the libraries and --model a model; give one of them.")
    report: InstallationReport | ModelReport
    with redirect_stdout(sys.stderr):  # libraries may print while they load, which must not be in the report
        report = check_model(ModelRequest.from_flags(flags)) if flags else check_installation(load=load)
    sys.stdout.write((json.dumps(report.as_json(), indent=2) if as_json else report.as_text()) + "\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    run(main)
