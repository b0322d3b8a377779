"""A service that plays recorded events to the page, one round when the test says so."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from tour_pyserini.core.method import StopReason
from tour_pyserini.evaluation.query_path import FILES, PathLists
from tour_pyserini.service.messages import About, Document, Round, Settings

STOP = str(StopReason.LITTLE_CHANGE)
DONE = f"Done: {STOP}."
HOSTILE = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script> & 'quotes'"
TITLES = {"d1": "Rack lines", "d2": "", "d3": "Ropeways", "d4": HOSTILE, "d5": "Tolls", "a/b?": "Odd id"}
WORDS = {docid: f"The passage {docid} says something about railways, in more than a few words." for docid in TITLES}
VECTORS = {"d1": (9, 1, 2), "d2": (8, 4, 3), "d3": (5, 5, 4), "d4": (2, 7, 1), "d5": (1, 9, 5), "a/b?": (6, 2, 2)}
QUERIES = [(4, 1, 1), (4, 2, 1), (4, 3, 1)]
LABELS = {"d1": 1.0, "d2": -3.0, "d3": 4.0, "d4": 2.0, "d5": 6.5}
# Of each method: the list of each round, and what has labels by then.
FIRST = (["d1", "d2", "d3", "d4", "a/b?"], [])
LISTS = {
    "tour": [
        FIRST,
        (["d3", "d1", "d2", "d4", "a/b?"], ["d1", "d2", "d3"]),
        (["d5", "d3", "d4", "d1", "d2"], [*LABELS]),
    ],
    "soft": [FIRST, (["d3", "d4", "d1", "d2", "a/b?"], ["d1", "d2", "d3", "d4"])],
    "dense": [FIRST],
}
GROUPS = {"tour": "the default", "soft": "the paper's", "dense": "baselines", "preset:mixed": "baselines"}
ABOUT = About(
    method="tour",
    choices=[
        {"value": name, "name": name.removeprefix("preset:"), "group": group, "about": "Searches."}
        for name, group in GROUPS.items()
    ],
    documents=1234,
    judgements=True,
    most_hits=100,
    most_labels=200,
    examples=["who owned the land"],
)


def rounds_of(method):
    """The rounds of a method as messages of the service."""
    lists, rounds = PathLists(), []
    vectors = {docid: np.array(vector) / 50 for docid, vector in VECTORS.items()}
    for t, (docids, labelled) in enumerate(LISTS[method]):
        labels = {docid: LABELS[docid] for docid in labelled}
        told = lists.add(docids, labels, t=t, query=np.array(QUERIES[t]), vectors=vectors)
        for line in told["candidates"]:
            line |= {"score": 10.0 - line["rank"], "title": TITLES[line["docid"]], "words": WORDS[line["docid"]]}
        times = {"milliseconds": 40.0 + 700.0 * t, "waited_ms": 2.0, "label_ms": 600.0 * t}
        costs = {"labels": len(labels), "scored": len(labels), "updates": t, **times}
        stop = STOP if t == len(LISTS[method]) - 1 else None
        rounds.append(Round(**told, stop=stop, costs=costs).model_dump(mode="json"))
    return rounds


def settings_of(method):
    about = {"settings": {}, "most_labels": 30, "hits": 5, "deadline_ms": None, "index": "stub", "documents": 1234}
    return Settings(method=method, reranker="tiny", **about).model_dump(mode="json")


class StubService:
    """The service at `url`. Rounds wait for `go`, unless `flows`; `fault` is what goes wrong with the next searches.

    What the service says of itself waits for `about`, which is set at first.
    """

    def __init__(self):
        self.fault, self.key, self.flows = None, None, True
        self.go, self.about = threading.Semaphore(0), threading.Event()
        self.about.set()
        self.searches, self.judged, self.ended = [], [], threading.Semaphore(0)
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

    def do_POST(self):
        judged = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.service.fault == "full disk":
            self.answer({"detail": "the service has failed; its log says why."}, 500)
        else:
            self.service.judged.append((judged["query"], judged["docid"], judged["relevance"]))
            self.answer(judged)

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
