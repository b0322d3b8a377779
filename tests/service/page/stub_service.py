"""A service that plays recorded events to the page, one round when the test says so."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from tour_pyserini.core.method import StopReason
from tour_pyserini.evaluation.path_page import FILES
from tour_pyserini.service.messages import About, Document, Round, Settings

STOP = str(StopReason.LITTLE_CHANGE)
DONE = f"Done: {STOP}."
HOSTILE = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script> & 'quotes'"
TITLES = {"d1": "Rack lines", "d2": "", "d3": "Ropeways", "d4": HOSTILE, "d5": "Tolls", "a/b?": "Odd id"}
WORDS = {docid: f"The passage {docid} says something about railways, in more than a few words." for docid in TITLES}
PLACES = {
    "d1": (0.1, 0.2),
    "d2": (0.4, -0.3),
    "d3": (0.5, 0.4),
    "d4": (0.7, 0.1),
    "d5": (0.9, -0.5),
    "a/b?": (0.2, 0.6),
}
ABOUT = About(
    method="tour",
    methods=["tour", "soft", "dense"],
    choices=[
        {"value": name, "name": name.removeprefix("preset:"), "group": group, "about": "Searches."}
        for name, group in (
            ("tour", "the default"),
            ("soft", "the paper's"),
            ("dense", "baselines"),
            ("preset:mixed", "baselines"),
        )
    ],
    documents=1234,
    most_hits=100,
    most_labels=200,
    examples=["who owned the land"],
)
# Of each method: the list of each round, with labels where there are some.
LISTS = {
    "tour": [
        [("d1", None), ("d2", None), ("d3", None), ("d4", None), ("a/b?", None)],
        [("d3", 4.0), ("d1", 1.0), ("d2", -3.0), ("d4", None), ("a/b?", None)],
        [("d5", 6.5), ("d3", 4.0), ("d4", 2.0), ("d1", 1.0), ("d2", -3.0)],
    ],
    "soft": [
        [("d1", None), ("d2", None), ("d3", None), ("d4", None), ("a/b?", None)],
        [("d3", 4.0), ("d4", 2.0), ("d1", 1.0), ("d2", -3.0), ("a/b?", None)],
    ],
    "dense": [[("d1", None), ("d2", None), ("d3", None), ("d4", None), ("a/b?", None)]],
}


def rounds_of(method):
    """The rounds of a method as messages of the service."""
    lists, rounds, before, labelled = LISTS[method], [], {}, set()
    for t, hits in enumerate(lists):
        bought = {docid for docid, label in hits if label is not None} - labelled
        labelled |= bought
        candidates = [
            {
                "docid": docid,
                "score": 10.0 - rank,
                "rank": rank,
                "title": TITLES[docid],
                "words": WORDS[docid],
                "label": label,
                "bought": docid in bought,
                "rank_before": before.get(docid),
                "similarity": 0.5 + 0.01 * rank + 0.05 * t,
                "similarity_before": 0.45 + 0.05 * t if t else None,
            }
            for rank, (docid, label) in enumerate(hits, start=1)
        ]
        found = {docid: rank for rank, (docid, _) in enumerate(hits, start=1)}
        message = Round(
            number=t,
            t=t,
            candidates=candidates,
            new=[docid for docid in found if docid not in before],
            gone=[docid for docid in before if docid not in found],
            cosine=1 - 0.05 * t,
            stop=STOP if t == len(lists) - 1 else None,
            map={"queries": [(0.1 * i, 0.02 * i) for i in range(t + 1)], "candidates": {d: PLACES[d] for d in found}},
            costs=costs(len(labelled), t),
        )
        rounds.append(message.model_dump(mode="json"))
        before = found
    return rounds


def costs(labels, t):
    return {
        "labels": labels, "scored": labels, "updates": t,
        "milliseconds": 40.0 + 700.0 * t, "waited_ms": 2.0, "label_ms": 600.0 * t,
    }  # fmt: skip


def settings_of(method):
    return Settings(
        method=method,
        settings={},
        most_labels=30,
        hits=5,
        deadline_ms=None,
        index="stub",
        documents=1234,
        reranker="tiny",
    ).model_dump(mode="json")


class StubService:
    """The service at `url`. Rounds wait for `go`, unless `flows`; `fault` is what goes wrong with the next searches.

    What the service says of itself waits for `about`, which is set at first.
    """

    def __init__(self):
        self.fault, self.key, self.flows = None, None, True
        self.go, self.about = threading.Semaphore(0), threading.Event()
        self.about.set()
        self.searches, self.ended = [], threading.Semaphore(0)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, service, *args):
        self.service = service
        super().__init__(*args, directory=FILES)

    def log_message(self, *_):
        pass

    def do_GET(self):
        address = urlsplit(self.path)
        if address.path == "/about":
            self.service.about.wait()
            self.answer(ABOUT.model_dump(mode="json"))
        elif address.path == "/search/stream":
            self.search({name: values[0] for name, values in parse_qs(address.query).items()})
        elif address.path.startswith("/documents/"):
            docid = unquote(address.path.removeprefix("/documents/"))
            whole = Document(docid=docid, title="", text="", contents=f"Whole {docid}. {HOSTILE}")
            self.answer(whole.model_dump(mode="json"))
        else:
            super().do_GET()

    def answer(self, value, status=200, **headers):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def search(self, asked):
        service = self.service
        service.searches.append(asked)
        if service.key and self.headers["Authorization"] != f"Bearer {service.key}":
            self.answer({"detail": "The API key is missing or wrong."}, 401)
        elif service.fault == "full":
            self.answer({"detail": "Too many searches wait."}, 429, Retry_After="3")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                self.play(asked.get("method", "tour"))
            except (BrokenPipeError, ConnectionResetError):
                service.ended.release()

    def play(self, method):
        service = self.service
        self.event("settings", settings_of(method))
        for number, message in enumerate(rounds_of(method)):
            while number and not service.flows and not service.go.acquire(timeout=0.05):
                self.wfile.write(b": still here\n\n")
            self.event("round", message)
            if service.fault == "error":
                return self.event("error", {"detail": "The re-ranker does not answer."})
            if service.fault == "cut":
                return None
        answer = {"candidates": message["candidates"], "stop": STOP, "costs": message["costs"], "rounds": None}
        answer |= {"query": "q", "qid": "", "settings": settings_of(method)}
        return self.event("answer", answer)

    def event(self, name, value):
        self.wfile.write(f"event: {name}\r\ndata: {json.dumps(value)}\r\n\r\n".encode())
        self.wfile.flush()
