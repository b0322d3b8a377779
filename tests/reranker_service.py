"""A re-ranking service on loopback that speaks three dialects and chats, and fails or lies on request.

    python reranker_service.py [MODEL]
    python reranker_service.py chat MODEL

The first line of its output is its port. MODEL is what `load_reranker` takes; without it, scores are made of the bytes
of a pair. The first part of a path is the dialect (`/tei`, `/vllm`, `/cohere`, `/chat`), one before it is a fault:
`http://127.0.0.1:PORT/nan/tei/rerank`. All requests are counted by path at `/counts`; `/model/NAME` renames the model.
"""

import gzip
import json
import math
import re
import sys
import threading
import time
import zlib
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

LIMIT = 8  # passages of a request, as TEI's --max-client-batch-size
counts = Counter()
largest = Counter()
served = {"name": "tiny/model"}
lock = threading.Lock()
predict = None


def logits(query, passages):
    """Single-precision scores between -6 and 6, or those of the model."""
    if predict is not None:
        with lock:
            return np.asarray(predict([(query, passage) for passage in passages]), dtype=np.float32)
    return np.array([zlib.crc32(f"{query}\n{text}".encode()) % 120001 / 1e4 - 6 for text in passages], dtype=np.float32)


def chat(model, tokens):
    """A chat model in a folder: the log-probabilities of all tokens after a prompt, best first."""
    import torch

    def answer(messages, count):
        text = tokens.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokens(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            found = torch.log_softmax(model(input_ids=ids).logits[0, -1].double(), 0).topk(count)
        return [
            {"token": tokens.decode([token]), "logprob": value}
            for token, value in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ], ids.shape[1]

    return answer


def sigmoid(values):
    return (1 / (1 + np.exp(-values.astype(np.float64)))).astype(np.float32)


def items(scores, name, digits):
    """Items, best first; with few `digits`, as Rust writes them: no more than identify a single-precision number."""
    ranked = np.argsort(-scores, kind="stable").tolist()
    return [{"index": i, name: float(str(scores[i])) if digits == "few" else float(scores[i])} for i in ranked]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet: the client acknowledges a second one 40 ms later

    def log_message(self, *_):
        pass

    def reply(self, value, status=200, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def path_parts(self):
        """Fault, dialect and endpoint of the path, which is counted."""
        path = self.path.partition("?")[0]
        with lock:
            counts[path] += 1
            count = counts[path]
        parts = path.strip("/").split("/")
        fault = "" if parts[0] in ("tei", "vllm", "cohere", "chat") else parts.pop(0)
        return fault, parts[0] if parts else "", "/" + "/".join(parts[1:]), count

    def do_GET(self):
        fault, dialect, page, _ = self.path_parts()
        if fault == "counts":
            self.reply({"requests": counts, "largest": largest})
        elif fault == "model":
            served["name"] = dialect
            self.reply({})
        elif fault == "key" and self.headers["Authorization"] != "Bearer open sesame":
            self.reply({"error": f"wrong key {self.headers['Authorization']}"}, 401)
        elif fault == "moved":
            self.reply(b"", 307, Location="http://elsewhere.example/rerank")
        elif (dialect, page) == ("tei", "/info"):
            kinds = {"encoder": {"embedding": {"pooling": "cls"}}}
            self.reply({
                "model_id": "/data" if fault == "folder" else served["name"],
                "model_sha": None if fault == "folder" else "abc123",
                "model_dtype": "float32",
                "model_type": kinds.get(fault, {"reranker": {"id2label": {"0": "LABEL_0"}}}),
                "max_input_length": 512,
                "max_client_batch_size": LIMIT,
            })  # fmt: skip
        elif (dialect, page) == ("vllm", "/v1/models"):
            card = {"id": served["name"], "owned_by": "vllm", "root": "tiny/root", "max_model_len": 512}
            self.reply({"object": "list", "data": [card]})
        else:
            self.reply({"detail": "Not Found"}, 404)

    def do_POST(self):
        fault, dialect, endpoint, count = self.path_parts()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if fault == "key" and self.headers["Authorization"] != "Bearer open sesame":
            return self.reply({"error": "wrong key"}, 401)
        if fault == "stall" and count % 3 != 0:
            time.sleep(3)
        if fault in ("slow", "slower"):
            time.sleep(0.05)
        if fault == "slower":
            time.sleep(0.008 * len(body["texts"]))
        if fault == "busy" and count % 3 != 0:
            return self.reply({"error": "Model is overloaded"}, 429, Retry_After=formatdate(0, usegmt=True))
        if fault == "packed":
            bomb = gzip.compress(gzip.compress(b" " * (40 << 20)))
            return self.reply(bomb, Content_Encoding="gzip, gzip")
        if fault == "endless":
            return self.reply(b" " * (33 << 20))
        if fault == "squared" and count % 2:
            return self.reply({"error": "Rate limit"}, 429, Retry_After="\u00b2")
        if fault == "echo":
            return self.reply(b"x" * 187 + self.headers["Authorization"].encode(), 403)
        if fault == "later":
            return self.reply({"error": "Rate limit"}, 429, Retry_After="86400")
        if fault == "failing" and count % 3 != 0:
            return self.reply(b"<html>Bad gateway</html>", 502)
        if fault == "hangup" and count % 3 != 0:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[{")
            self.close_connection = True
            return None
        if fault == "broken" or (fault == "ending" and count > 3):
            return self.reply({"error": "out of memory"}, 500)
        if dialect == "chat" or endpoint == "/v1/chat/completions":
            return self.chatted(fault, body)
        return self.scored(fault, dialect, endpoint, body)

    def chatted(self, fault, body):
        """The answer of a chat model; without one, `yes` is as probable as its score says."""
        user = body["messages"][-1]["content"]
        query, document = (
            re.search(f"<{name}>\n(.*?)\n</{name}>", user, re.DOTALL)[1] for name in ("query", "document")
        )
        logprobs = None
        if "logprobs" in body and fault == "strict":
            return self.reply({"error": "logprobs: unknown field"}, 400)
        if "logprobs" in body and fault != "mute":
            score = float(logits(query, [document])[0]) if predict is None else 0.0
            yes, count = -math.log1p(math.exp(-score)), len(user.split())
            listed = [{"token": " Yes", "logprob": yes}, {"token": "no", "logprob": yes - score}]
            if predict is not None:
                listed, count = predict(body["messages"], body["top_logprobs"])
            if fault == "wordy":
                listed = [{"token": "Well", "logprob": -0.01}, {"token": "yes", "logprob": -9.0}]
            if fault == "nan":
                listed[0]["logprob"] = float("nan")
            if fault == "twice":  # `yes` and ` yes`, which some servers write without the space
                listed = [{"token": "yes", "logprob": math.log(share)} for share in (0.6, 0.1)]
                listed.insert(1, {"token": "no", "logprob": math.log(0.2)})
            if fault == "sure":
                listed = [{"token": "yes", "logprob": 0.0}, {"token": "maybe", "logprob": -8.0}]
            logprobs = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": listed}]}
            text = "yes"
        else:
            count = len(user.split())
            text = {"wordy": "The grade is 3.", "beyond": "4"}.get(fault, str(len(document) % 4))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": logprobs}
        usage = {"prompt_tokens": count, "completion_tokens": 1}
        if fault == "shapeless":
            return self.reply({"answer": text})
        return self.reply({"model": body["model"], "choices": [choice], "usage": usage})

    def scored(self, fault, dialect, endpoint, body):
        query = body.get("text_1", body.get("query"))
        passages = body.get("text_2", body.get("documents", body.get("texts")))
        with lock:
            largest[self.path.partition("?")[0]] = max(largest[self.path.partition("?")[0]], len(passages))
        if len(passages) > {"tei": LIMIT}.get(dialect, 1000) or (fault == "small" and len(passages) > 2):
            return self.reply({"error": f"batch size {len(passages)} > maximum"}, 413)
        raw = {
            "tei": body.get("raw_scores"),
            "vllm": body.get("use_activation") is False,
            "cohere": body.get("raw_scores") or fault == "logits",
        }[dialect]
        scores = logits(query, passages)
        if not raw or fault == "deaf":
            scores = sigmoid(scores)
        name = "score" if dialect == "tei" or endpoint.endswith("/score") else "relevance_score"
        found = lie(items(scores, name, "few" if dialect == "tei" else "all"), name, fault)
        if fault == "prose":
            return self.reply(b"I am a teapot.")
        if dialect == "tei":
            return self.reply(found)
        return self.reply({"model": body["model"], "data" if endpoint.endswith("/score") else "results": found})


LIES = {"beyond": ("index", 8), "negative": ("index", -1), "nan": ("score", float("nan")), "huge": ("score", 1e300)}
LIES |= {"text": ("score", "0.5"), "true": ("score", True)}


def lie(found, name, fault):
    if fault == "missing":
        return found[1:]
    if fault == "duplicate":
        return [{**item, "index": 0} for item in found]
    if fault in LIES:
        field, value = LIES[fault]
        found[0][name if field == "score" else field] = value
    if fault == "nameless":
        del found[0][name]
    return {"scores": found} if fault == "shapeless" else found


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # a client that did not wait for its answer
        pass


if __name__ == "__main__":
    if len(sys.argv) > 2:
        import transformers

        model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[2]).eval()
        predict = chat(model, transformers.AutoTokenizer.from_pretrained(sys.argv[2]))
    elif len(sys.argv) > 1:
        from tour_pyserini import load_reranker

        predict = load_reranker(sys.argv[1], threads=1).predict
    server = Server(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
