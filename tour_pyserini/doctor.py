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
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tour_pyserini
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
from tour_pyserini.support.pyserini import ensure_java, find_java


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        name: the name of the check.
        status: `ok`, `missing`, `problem`, or `optional` for what is not installed and not needed.
        found: a version, a path, or the problem.
        remedy: a command or an advice that solves the problem; empty if there is none.
    """

    name: str
    status: str
    found: str
    remedy: str = ""


class InstallationReport(NamedTuple):
    """The findings of all checks, one for each."""

    findings: Sequence[Finding]

    @property
    def ok(self) -> bool:
        """Whether everything that is needed was found, and nothing that is installed is broken."""
        return all(finding.status in ("ok", "optional") for finding in self.findings)

    def as_text(self) -> str:
        """One line for each finding, and its remedy below it."""
        width, indent = (max(len(finding[at]) for finding in self.findings) for at in (0, 1))
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.status:{indent}}  {finding.name:{width}}  {finding.found}")
            if finding.remedy:
                lines.append(f"{'':{indent}}  {'':{width}}  -> {finding.remedy}")
        problem = "Something that is needed is missing or does not work: see above."
        lines.append("Everything that is needed was found." if self.ok else problem)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        rows = [{**finding._asdict(), "ok": finding.status == "ok"} for finding in self.findings]
        return {"ok": self.ok, "findings": rows}


class _Missing(TourError):
    """What is not installed."""

    def __init__(self, module: str, install: str, extra: str | None) -> None:
        command = f'pip install "tour_pyserini[{extra}]"' if extra else f"pip install {install}"
        super().__init__(f"not installed: no module {module}; run: {command}")
        self.status = "optional" if extra else "missing"


def check_installation(*, load: bool = False) -> InstallationReport:
    """Run all checks; a check that fails becomes a finding, and no exception is raised.

    Args:
        load: load each library and start Java, which finds libraries that are installed but broken.

    Example:
        >>> report = check_installation()  # doctest: +SKIP
        >>> [finding.name for finding in report.findings if finding.status != "ok"]  # doctest: +SKIP
        []
    """
    return InstallationReport([_examine(name, check, load) for name, check in CHECKS.items()])


def _examine(name: str, check: Callable[[bool], str], load: bool) -> Finding:
    try:
        return Finding(name, "ok", check(load))
    except TourError as error:
        # The message names the problem and, after the last semicolon, what to do.
        found, _, remedy = str(error).rstrip(".").rpartition("; ")
        remedy = remedy.removeprefix("run: ").removeprefix("run ")
        return Finding(name, getattr(error, "status", "problem"), *((found, remedy) if found else (remedy,)))
    except Exception as error:  # the other checks must still be reported
        return Finding(name, "problem", f"the check itself failed: {_one_line(error)}")


def _package(module: str, install: str, extra: str | None = None) -> Callable[[bool], str]:
    """A check that a Python package is installed, or can be imported: its version."""

    def check(load: bool) -> str:
        _check_present(module, install, extra)
        if load:
            try:
                importlib.import_module(module)
            except Exception as error:
                # Installed and broken: a missing system library or dependency, or versions that do not fit together.
                dependencies = "" if isinstance(error, ModuleNotFoundError) else "--no-deps "
                again = f"pip install --force-reinstall {dependencies}{install}"
                raise TourError(f"does not start: {_one_line(error)}; run: {again}") from error
        try:
            return importlib.metadata.version(install)
        except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
            return str(getattr(sys.modules.get(module), "__version__", "version unknown"))

    return check


def _check_present(module: str, install: str, extra: str | None) -> None:
    if importlib.util.find_spec(module) is None:
        raise _Missing(module, install, extra)


def _java(load: bool) -> str:
    found = ensure_java() if load else find_java()
    return f"{found.version} from {found.source} ({found.home})"


def _pyserini(load: bool) -> str:
    """Pyserini, and that its dense search can be imported."""
    found = _package("pyserini", "pyserini")(load)
    if load:
        ensure_java()
        try:
            importlib.import_module("pyserini.search.faiss")
        except Exception as error:  # Pyserini may raise anything, and a search would raise it too
            remedy = "run: pip install --force-reinstall --no-deps pyserini"
            if "credentials" in str(error):
                remedy = 'run: pip install "openai<2.34"'
            elif isinstance(error, OSError):
                remedy = 'connect to the network, or: pip install "pyserini<2.4"'
            raise TourError(f"{found} does not start: {_one_line(error)}; {remedy}") from error
    return found


def _default_model(package: str, verify: Callable[..., Path], weights: str) -> Callable[[bool], str]:
    """A check that every file of a default model is the expected one."""

    def check(_: bool) -> str:
        _check_present(package, "", "models")
        return f"every file as expected, weights SHA-256 {weights[:12]} ({verify(read_again=True)})"

    return check


def _processor(_: bool) -> str:
    """The number of cores, and the instruction sets that decide which back end of a re-ranker is fastest."""
    flags = cpu_flags()
    return f"{cores()} cores; {'instruction sets unknown' if flags is None else ', '.join(flags) or 'no AVX2'}"


def _cache_folder(_: bool) -> str:
    folder = cache_home().absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise TourError(f"{folder} cannot be written; set TOUR_PYSERINI_CACHE to a folder that can be written")
    return f"{folder}{'' if existing == folder else ' (made when first needed)'}"


def _one_line(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


CHECKS: Mapping[str, Callable[[bool], str]] = {
    "Python": lambda _: f"{platform.python_version()} ({sys.executable})",
    "tour_pyserini": lambda _: f"{tour_pyserini.__version__} ({Path(__file__).parents[1]})",
    "Java": _java,
    "Pyserini": _pyserini,
    "FAISS": _package("faiss", "faiss-cpu"),
    **{name: _package(name, name) for name in ("torch", "transformers")},
    "sentence-transformers": _package("sentence_transformers", "sentence-transformers"),
    "onnxruntime": _package("onnxruntime", "onnxruntime"),
    "ir-measures": _package("ir_measures", "ir-measures"),
    "default encoder": _default_model(
        model_folder.PACKAGE, model_folder.verify_default_encoder, model_folder.FILES["model.safetensors"]
    ),
    "default re-ranker": _default_model(
        loading.DEFAULT_PACKAGE, loading.verify_default_reranker, loading.DEFAULT_SHA256["model.onnx"]
    ),
    "onnx": _package("onnx", "onnx", "onnx"),
    "model2vec": _package("model2vec", "model2vec", "static"),
    "argcomplete": _package("argcomplete", "argcomplete", "completion"),
    "processor": _processor,
    "cache folder": _cache_folder,
}
"""By name, what looks: called with whether to load what it finds."""


QUERY = "who wrote hamlet"
PASSAGES = ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven.")

_GROUP = "the model that is checked"
_same = partial(same_option, SearchRequest, group=_GROUP)


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
    instruction: str | None = _same("instruction")


class _Use(NamedTuple):
    """What a model is in one of the two roles.

    Attributes:
        role: `encoder` or `re-ranker`.
        facts: how it is run, by what they are about; none if it cannot be run.
        examples: what it gives for a relevant and for an irrelevant passage: a `score`, or a `cosine` of vectors.
        problem: why it cannot be run in this role; empty if it can.
    """

    role: str
    facts: Mapping[str, Any]
    examples: Sequence[Mapping[str, Any]] = ()
    problem: str = ""


class ModelReport(NamedTuple):
    """What a model can be used as.

    Attributes:
        model: its name.
        uses: one for each role that was tried.
    """

    model: str
    uses: Sequence[_Use]

    @property
    def ok(self) -> bool:
        """Whether the model can be run in one of the roles."""
        return any(not use.problem for use in self.uses)

    def as_text(self) -> str:
        """A line for each role, and below it a line for each fact and example."""
        lines = []
        for use in self.uses:
            lines.append(f"{'no' if use.problem else 'ok'}  {use.role}: {use.problem or self.model}")
            rows = [(name, _shown(value)) for name, value in use.facts.items()]
            rows += [
                ("gives", "{measure} {value:.4f}: {query!r}, {passage!r}".format(**example)) for example in use.examples
            ]
            width = max((len(name) for name, _ in rows), default=0)
            lines += [f"    {name:{width}}  {text}" for name, text in rows]
        flags = [f"--{use.role.replace('-', '')}" for use in self.uses if not use.problem]
        lines.append(f"It can be used as {' and '.join(flags)}." if flags else "It cannot be run: see above.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as values."""
        return {"ok": self.ok, "model": self.model, "uses": [{**u._asdict(), "ok": not u.problem} for u in self.uses]}


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
    if request.model == DEFAULT or not (not uses[0].problem or is_service_address(request.model)):
        uses.insert(0, _tried("encoder", _check_encoder, request))
    return ModelReport(request.model, uses)


def _tried(role: str, check: Callable[[ModelRequest], _Use], request: ModelRequest) -> _Use:
    try:
        return check(request)
    except TourError as error:
        return _Use(role, {}, problem=str(error))
    except Exception as error:  # models and their libraries raise anything; the other role must still be tried
        return _Use(role, {}, problem=f"{type(error).__name__}: {first_line(error)}.")


def _check_reranker(request: ModelRequest) -> _Use:
    names = ("device", "backend", "precision", "dtype", "trust_remote_code", "instruction")
    options: dict[str, Any] = {name: getattr(request, name) for name in names}
    reranker: Any = load_reranker(request.model, prompt=request.reranker_prompt, **options)
    scores = score_pairs(reranker, [(QUERY, passage) for passage in PASSAGES])
    config = Path(request.model or "") / "config.json"
    family = json.loads(config.read_text(encoding="utf-8")).get("architectures") if config.is_file() else None
    said = {name: getattr(reranker, name, None) for name in ("name", "engine", "fingerprint")}
    facts = {"family": family, **said, **getattr(reranker, "identity", {})}
    facts = {name.replace("_", " "): value for name, value in facts.items() if value is not None}
    return _Use("re-ranker", facts, _examples("score", scores))


def _check_encoder(request: ModelRequest) -> _Use:
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
    return _Use("encoder", facts, _examples("cosine", cosines))


def _examples(measure: str, values: Iterable[float]) -> list[dict[str, Any]]:
    rows = zip(PASSAGES, values, strict=True)
    return [{"measure": measure, "value": float(value), "query": QUERY, "passage": text} for text, value in rows]


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
