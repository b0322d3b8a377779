"""A user's own service: FAISS, then CrossEncoder.predict in torch on the first 30 hits, behind FastAPI."""

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini import load_query_encoder

DEPTH = 30


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until the process is ended; the first line of output is the address."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_service", description=__doc__)
    for flag in ("--index", "--corpus", "--encoder", "--model"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args(argv)
    import faiss
    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import CrossEncoder

    index = faiss.read_index(str(Path(args.index) / "index"))
    docids = (Path(args.index) / "docid").read_text(encoding="utf-8").splitlines()
    records = map(json.loads, Path(args.corpus).read_text(encoding="utf-8").splitlines())
    passages = {document["_id"]: f"{document['title']} {document['text']}" for document in records}
    encoder, model = load_query_encoder(args.encoder), CrossEncoder(args.model, device="cpu")
    app = FastAPI()

    @app.post("/search")
    async def search(body: dict[str, Any]) -> dict[str, Any]:  # one at a time: the models are not made for threads
        query = body["query"]
        _, found = index.search(np.asarray(encoder.encode(query), dtype=np.float32).reshape(1, -1), DEPTH)
        names = [docids[position] for position in found[0] if position >= 0]
        scores = model.predict([(query, passages[name]) for name in names], show_progress_bar=False)
        best = np.argsort(-scores, kind="stable")[: body.get("hits", 10)]
        return {"candidates": [{"docid": names[i], "score": float(scores[i])} for i in best]}

    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # else asyncio leaves Nagle's algorithm on
        listener.bind(("127.0.0.1", 0))
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
