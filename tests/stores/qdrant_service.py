"""A server that speaks Qdrant's HTTP for the requests of this package, with the local mode of its client behind it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QdrantService:
    """The service at `url`. Its next requests fail as `faults` says: a status, or "lost" for a lost connection."""

    def __init__(self):
        from qdrant_client import QdrantClient

        self.client, self.faults, self.requests = QdrantClient(":memory:"), [], []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"service": self}))
        self.url = f"127.0.0.1:{self._server.server_address[1]}"
        self._lock = threading.Lock()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method, path, body):
        """The result of a request, as JSON."""
        from qdrant_client import models

        with self._lock:
            parts = path.partition("?")[0].strip("/").split("/")
            name = parts[1] if len(parts) > 1 else None
            match method, parts[2:]:
                case "GET", [] if name is None:
                    return self.client.get_collections().model_dump_json()
                case "GET", []:
                    return self.client.get_collection(name).model_dump_json()
                case "GET", ["exists"]:
                    return json.dumps({"exists": self.client.collection_exists(name)})
                case "PUT", []:
                    asked = models.CreateCollection(**body)
                    self.client.create_collection(name, asked.vectors, metadata=asked.metadata)
                    return "true"
                case "PUT", ["points"]:
                    self.client.upsert(name, models.Batch(**body["batch"]))
                    return json.dumps({"operation_id": 1, "status": "completed"})
                case "POST", ["points", "count"]:
                    return self.client.count(name).model_dump_json()
                case "POST", ["points"]:
                    rows = self.client.retrieve(name, body["ids"], body["with_payload"], body["with_vector"])
                    return f"[{','.join(row.model_dump_json() for row in rows)}]"
                case "POST", ["points", "query", "batch"]:
                    asked = [models.QueryRequest(**{**one, "params": None}) for one in body["searches"]]
                    found = self.client.query_batch_points(name, asked)
                    return f"[{','.join(answer.model_dump_json() for answer in found)}]"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service = None

    def _serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.service.requests.append((self.path, len(body), self.headers.get("api-key")))
        fault = self.service.faults.pop(0) if self.service.faults else None
        if fault == "lost":
            self.connection.close()
            self.close_connection = True
            return
        if fault:
            self._send(fault, '{"status": {"error": "not now"}}')
            return
        result = self.service.answer(self.command, self.path, json.loads(body or "null"))
        self._send(200, f'{{"result": {result}, "status": "ok", "time": 0.0}}')

    do_GET = do_PUT = do_POST = _serve

    def _send(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass
