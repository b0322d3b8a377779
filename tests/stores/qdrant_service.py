"""Answers to the HTTP requests that this package sends to a server of Qdrant, from the local mode of its client."""

import json

import httpx


class QdrantService:
    """Stands for the network. Its next requests fail as `faults` says: a status, or "lost" for a lost connection."""

    def __init__(self):
        from qdrant_client import QdrantClient

        self.client, self.faults, self.requests = QdrantClient(":memory:"), [], []

    def handle(self, request):
        """The response to a request."""
        self.requests.append((request.url.path, len(request.content), request.headers.get("api-key")))
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lost":
            raise httpx.RemoteProtocolError("the server disconnected")
        if fault:
            return httpx.Response(fault, json={"status": {"error": "not now"}})
        result = self.answer(request.method, request.url.path, json.loads(request.content or "null"))
        return httpx.Response(200, text=f'{{"result": {result}, "status": "ok", "time": 0.0}}')

    def answer(self, method, path, body):
        """The result of a request, as JSON."""
        from qdrant_client import models

        parts = path.strip("/").split("/")
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
