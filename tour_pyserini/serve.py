# PYTHON_ARGCOMPLETE_OK
"""Serve searches of an index over HTTP."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from tour_pyserini.command import run
from tour_pyserini.flags import add_config_flags, request_parser
from tour_pyserini.service.serving import ServeRequest, listen, run_server
from tour_pyserini.support.packages import import_optional

DESCRIPTION = """\
Serve searches of an index over HTTP. The address is printed once the service is ready; Ctrl-C or SIGTERM ends it after
the searches that run."""

EXAMPLES = """examples:
  python -m tour_pyserini.serve --topics demo
  python -m tour_pyserini.serve --index indexes/scifact --corpus scifact/corpus.jsonl
  curl -s http://127.0.0.1:8080/search -H 'Content-Type: application/json' \\
      -d '{"query": "...", "deadline_ms": 300}'"""


def serve(request: ServeRequest, *, tell: Callable[[str], None] = lambda _: None) -> None:
    """Serve searches until a signal (SIGINT, SIGTERM) asks for the end; what runs is finished first.

    Args:
        request: what is served, and how.
        tell: called with the address once the service is ready.

    Raises:
        TourError: if something is missing or wrong, or the port is in use.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        import_optional(module, extra="serve")
    from tour_pyserini.service.app import new_app
    from tour_pyserini.service.collection import Collection

    keys = request.read_keys()
    with closing(listen(request)) as listener:  # a port in use is reported before models are loaded
        app = new_app(Collection(request), keys=keys)
        listener.listen(2048)
        host = f"[{request.host}]" if ":" in request.host else request.host
        tell(f"http://{host}:{listener.getsockname()[1]}")
        run_server(app, listener)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    # Before the library of MCP sets its own format, which breaks lines at 80 columns.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    parser = request_parser("serve", ServeRequest, description=DESCRIPTION, epilog=EXAMPLES)
    add_config_flags(parser, "settings of TouR, where a request gives none")
    serve(ServeRequest.from_flags(vars(parser.parse_args(argv))), tell=partial(print, flush=True))


if __name__ == "__main__":
    run(main)
