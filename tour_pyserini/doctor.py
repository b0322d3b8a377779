# PYTHON_ARGCOMPLETE_OK
"""Check the installation, or how a model would be run.

Libraries are found but not loaded, which takes a moment; --load also loads each of them and starts Java, which takes
half a minute and finds libraries that are installed but broken.

Each line starts with `ok`, `missing`, `problem` or `optional`. What is optional is not installed and not needed; the
line names the extra that installs it. The exit code is 1 if something is missing or does not work, and 0 otherwise.

With --model, one model is loaded instead, as a search would load it: the report says whether it is an encoder or a
re-ranker, how it is run, and what it gives for two passages; or why it cannot be run, with exit code 1.
"""

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

import tour_pyserini
from tour_pyserini.command import run
from tour_pyserini.encoders.encoder import TextEncoder
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER, POOLINGS, encoder_folder
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.flags import Request, flag_name, option, request_parser
from tour_pyserini.rerankers.loading import DEFAULT_RERANKER, load_reranker
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import score_pairs
from tour_pyserini.support.devices import BACKENDS, DTYPES, PRECISIONS, cores, cpu_flags
from tour_pyserini.support.files import cache_home
from tour_pyserini.support.model_files import DEFAULT, DefaultModel, read_json, read_modules
from tour_pyserini.support.pyserini import ensure_java, find_java

_model = partial(option, group="the model that is checked")


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(Request):
    """What is checked; the fields are the flags of `python -m tour_pyserini.doctor`.

    Attributes:
        load: load each library and start Java, which finds libraries that are installed but broken.
        model: what `--encoder` or `--reranker` takes: a name, a folder, `default`, or the address of a service.
    """

    json: bool = option(False, "print the report as JSON")
    load: bool = option(False, "load each library and start Java, too")
    model: str | None = _model(None, "a name, a folder, `default` or a service's address")
    device: str = _model("cpu", "where it is run: cpu, cuda:0, ...")
    dtype: str = _model("auto", "numbers it computes with", choices=DTYPES)
    trust_remote_code: bool = _model(False, "run Python code that comes with it")
    backend: str = _model("auto", "what runs it", choices=BACKENDS)
    precision: str | None = _model(None, "of a re-ranker, or an encoder of documents", choices=PRECISIONS)
    pooling: str | None = _model(None, "pooling of an encoder", choices=tuple(POOLINGS))
    l2_norm: bool | None = _model(None, "whether an encoder's vectors get unit length")
    reranker_prompt: str | None = _model(None, "what a language model reads, as for search")
    instruction: str | None = _model(None, "what a chat model is to find, as for search")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.load and self.model:
            raise TourError("--load checks the libraries and --model a model; give one of them.")
        if self.model is None and (unfit := [name for name in self.flags() if name not in ("json", "load")]):
            raise TourError(f"{flag_name(unfit[0])} says how a --model is run; give it too.")


class Report(NamedTuple):
    """What was found.

    Attributes:
        ok: whether everything that is needed was found and nothing is broken; whether the model can be run.
        text: for people.
        values: the same for programs.
    """

    ok: bool
    text: str
    values: Mapping[str, Any]


class _MissingError(TourError):
    """What is not installed; an extra is optional."""

    def __init__(self, module: str, install: str, extra: str | None) -> None:
        command = f'pip install "tour_pyserini[{extra}]"' if extra else f"pip install {install}"
        super().__init__(f"not installed: no module {module}; run: {command}")
        self.status = "optional" if extra else "missing"


def check_installation(*, load: bool = False) -> Report:
    """Run all checks; a check that fails becomes a line, and no exception is raised.

    Args:
        load: load each library and start Java, which finds libraries that are installed but broken.

    Example:
        >>> check_installation().ok  # doctest: +SKIP
        True
    """
    findings = [{"name": name, **_examine(check, load)} for name, check in CHECKS.items()]
    ok = all(finding["status"] in ("ok", "optional") for finding in findings)
    width, indent = (max(len(finding[key]) for finding in findings) for key in ("name", "status"))
    lines = ["{status:{1}}  {name:{0}}  {found}".format(width, indent, **finding) for finding in findings]
    problem = "Something that is needed is missing or does not work: see above."
    lines.append("Everything that is needed was found." if ok else problem)
    return Report(ok, "\n".join(lines), {"ok": ok, "findings": findings})


def _examine(check: Callable[[bool], str], load: bool) -> dict[str, str]:
    """Status and finding: a version, a path, or the problem and what to do."""
    try:
        return {"status": "ok", "found": check(load)}
    except TourError as error:
        return {"status": getattr(error, "status", "problem"), "found": str(error)}
    except Exception as error:  # the other checks must still be reported
        return {"status": "problem", "found": f"the check itself failed: {_said(error)}"}


def _package(module: str, install: str, extra: str | None = None, *, main: str = "") -> Callable[[bool], str]:
    """A check that a Python package is installed, or that its main module can be imported: its version."""

    def check(load: bool) -> str:
        _check_present(module, install, extra)
        if load:
            try:
                importlib.import_module(main or module)
            except Exception as error:
                # Installed and broken: a missing system library or dependency, or versions that do not fit together.
                dependencies = "" if isinstance(error, ModuleNotFoundError) else "--no-deps "
                again = f"pip install --force-reinstall {dependencies}{install}"
                raise TourError(f"does not start: {_said(error)}; run: {again}") from error
        try:
            return importlib.metadata.version(install)
        except importlib.metadata.PackageNotFoundError:  # FAISS from conda, or built by hand
            return str(getattr(sys.modules.get(module), "__version__", "version unknown"))

    return check


def _check_present(module: str, install: str, extra: str | None) -> None:
    if importlib.util.find_spec(module) is None:
        raise _MissingError(module, install, extra)


def _java(load: bool) -> str:
    found = ensure_java() if load else find_java()
    return f"{found.version} from {found.source} ({found.home})"


def _default_model(model: DefaultModel, weights: str) -> Callable[[bool], str]:
    """A check that every file of a default model is the expected one."""

    def check(_: bool) -> str:
        _check_present(model.package, "", "models")
        checksum = model.checksums[weights][:12]
        return f"every file as expected, weights SHA-256 {checksum} ({model.verify(read_again=True)})"

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


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


CHECKS: Mapping[str, Callable[[bool], str]] = {
    "Python": lambda _: f"{platform.python_version()} ({sys.executable})",
    "tour_pyserini": lambda _: f"{tour_pyserini.__version__} ({Path(__file__).parents[1]})",
    "Java": _java,
    "Pyserini": _package("pyserini", "pyserini", main="pyserini.search.faiss"),  # after Java
    "FAISS": _package("faiss", "faiss-cpu"),
    **{name: _package(name, name) for name in ("torch", "transformers")},
    "sentence-transformers": _package("sentence_transformers", "sentence-transformers"),
    "onnxruntime": _package("onnxruntime", "onnxruntime"),
    "ir-measures": _package("ir_measures", "ir-measures"),
    "default encoder": _default_model(DEFAULT_ENCODER, "model.safetensors"),
    "default re-ranker": _default_model(DEFAULT_RERANKER, "model.onnx"),
    "onnx": _package("onnx", "onnx", "onnx"),
    "model2vec": _package("model2vec", "model2vec", "static"),
    "argcomplete": _package("argcomplete", "argcomplete", "completion"),
    "processor": _processor,
    "cache folder": _cache_folder,
}
"""By name, a function of whether to load what it finds: what it found."""


QUERY = "who wrote hamlet"
PASSAGES = ("Hamlet is a tragedy by William Shakespeare.", "Bread is baked in an oven.")


def check_model(request: DoctorRequest) -> Report:
    """Load a model as a search would, and score two pairs or encode two texts with it.

    A model that is a re-ranker is not tried as an encoder: its vectors would mean nothing. `default` names one of each.

    Example:
        >>> check_model(DoctorRequest(model="default")).ok  # doctest: +SKIP
        True
    """
    if not request.model:
        raise TourError("--model is missing: give a name, a folder or the address of a service.")
    uses = [_try("re-ranker", _check_reranker, request)]
    if request.model == DEFAULT or not (uses[0]["ok"] or is_service_address(request.model)):
        uses.insert(0, _try("encoder", _check_encoder, request))
    lines = []
    for use in uses:
        lines.append(f"{'ok' if use['ok'] else 'no'}  {use['role']}: {use['problem'] or request.model}")
        width = max(map(len, use["facts"]), default=0)
        lines += [f"    {name:{width}}  {_shown(value)}" for name, value in use["facts"].items()]
    flags = [f"--{use['role'].replace('-', '')}" for use in uses if use["ok"]]
    lines.append(f"It can be used as {' and '.join(flags)}." if flags else "It cannot be run: see above.")
    return Report(bool(flags), "\n".join(lines), {"ok": bool(flags), "model": request.model, "uses": uses})


def _try(role: str, check: Callable[[DoctorRequest], Mapping[str, Any]], request: DoctorRequest) -> dict[str, Any]:
    """What a model is in a role, by what the facts are about; or the problem."""
    try:
        return {"role": role, "ok": True, "problem": "", "facts": check(request)}
    except TourError as error:
        problem = str(error)
    except Exception as error:  # models and their libraries raise anything; the other role must still be tried
        problem = f"{_said(error)}."
    return {"role": role, "ok": False, "problem": problem, "facts": {}}


def _check_reranker(request: DoctorRequest) -> dict[str, Any]:
    names = ("device", "backend", "precision", "dtype", "trust_remote_code", "instruction")
    options: dict[str, Any] = {name: getattr(request, name) for name in names}
    reranker: Any = load_reranker(request.model, prompt=request.reranker_prompt, **options)
    scores = score_pairs(reranker, [(QUERY, passage) for passage in PASSAGES])
    config = Path(request.model or "") / "config.json"
    family = json.loads(config.read_text(encoding="utf-8")).get("architectures") if config.is_file() else None
    said = {name: getattr(reranker, name, None) for name in ("name", "engine", "fingerprint")}
    facts = {"family": family, **said, **getattr(reranker, "identity", {})}
    facts = {name.replace("_", " "): value for name, value in facts.items() if value is not None}
    return {**facts, **_examples("score", scores)}


def _check_encoder(request: DoctorRequest) -> dict[str, Any]:
    assert request.model is not None
    same = ("device", "dtype", "backend", "pooling", "l2_norm", "trust_remote_code")
    options: dict[str, Any] = {name: getattr(request, name) for name in same}
    queries = load_query_encoder(request.model, **options)
    documents = load_document_encoder(request.model, precision=request.precision or "fp32", **options)
    query = np.asarray(queries.encode(QUERY), dtype=np.float64)
    passages = np.asarray(documents.encode(texts=list(PASSAGES)), dtype=np.float64)
    norms = np.linalg.norm(passages, axis=1)
    return {
        **_encoding(request, queries, documents),
        "dimensions": len(query),
        "norms": f"{np.linalg.norm(query):.4f} of the query, {norms[0]:.4f} and {norms[1]:.4f} of the passages",
        **_examples("cosine", passages @ query / norms / np.linalg.norm(query)),
    }


def _encoding(request: DoctorRequest, queries: Any, documents: Any) -> dict[str, Any]:
    """What is known about an encoder that is run as its own files say."""
    if not isinstance(documents, TextEncoder):
        return {"family": f"Pyserini's {type(queries).__name__} and {type(documents).__name__}"}
    folder = encoder_folder(request.model or "", trust_remote_code=request.trust_remote_code)
    configurations = (folder / "config.json", *sorted(folder.glob("0_*/config.json")))  # or that of its first module
    families = [found for path in configurations for found in read_json(path).get("architectures") or ()]
    modules = [module["type"].rpartition(".")[2] for module in read_modules(folder)]
    query, document = (encoder.runner.length or "all" for encoder in (queries, documents))
    return {
        "family": families[0] if families else "no transformer",
        "modules": ", ".join(modules) or "none declared: a transformer with the pooling that was asked for",
        **{name.replace("_", " "): value for name, value in documents.settings.items()},
        "query prompt": queries.prompt,
        "max length": f"{query} tokens of a query, {document} of a document",
    }


def _examples(measure: str, values: Sequence[float] | np.ndarray) -> dict[str, float]:
    return {
        f"{measure}, {kind}": round(float(v), 6) for kind, v in zip(("relevant", "irrelevant"), values, strict=True)
    }


def _shown(value: Any) -> str:
    if isinstance(value, str) and value == value.strip() and value.isprintable():
        return value
    return "none" if value is None else json.dumps(value, ensure_ascii=False)  # every blank of a prompt counts


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything that is needed was found, or the model can be run, 1 otherwise."""
    parser = request_parser("doctor", DoctorRequest, description=__doc__, epilog="")
    request = DoctorRequest.from_flags(vars(parser.parse_args(argv)))
    with redirect_stdout(sys.stderr):  # libraries may print while they load, which must not be in the report
        report = check_model(request) if request.model else check_installation(load=request.load)
    sys.stdout.write((json.dumps(report.values, indent=2) if request.json else report.text) + "\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    run(main)
