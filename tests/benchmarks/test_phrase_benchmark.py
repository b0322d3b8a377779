"""The benchmark of phrase search on a small index."""

import json

from tiny_phrases import save_encoder, write_corpus

from benchmarks.phrases import main
from tour_pyserini.index import main as index


def test_a_flat_index_finds_what_scoring_every_phrase_finds(tmp_path, capsys, one_thread):
    encoder, corpus = save_encoder(tmp_path / "encoder", pooling="mean"), write_corpus(tmp_path / "corpus.jsonl")
    for name, kind in {"flat": [], "ivf": ["--factory", "IVF2,SQfp16", "--nprobe", "1"]}.items():
        words = ["--phrases", "--corpus", corpus, "--encoder", encoder, "--index", tmp_path / name, *kind]
        index([str(word) for word in words])
    questions = [
        {"_id": "q1", "text": "which river", "answers": ["Rhine"]},
        {"_id": "q2", "text": "who", "answers": ["x"]},
    ]
    (tmp_path / "topics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
    capsys.readouterr()
    indexes = [str(tmp_path / "flat"), str(tmp_path / "ivf")]
    main(["--index", *indexes, "--topics", str(tmp_path / "topics.jsonl"), "--k", "3"])
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")][2:]
    brute, flat, ivf = ([cell.strip() for cell in line] for line in lines)
    assert [line[0] for line in (brute, flat, ivf)] == [
        "every phrase is scored",
        "flat float16",
        "IVF2,SQfp16 float16",
    ]
    assert brute[-1] == flat[-1] == "1.000"
    assert 0 <= float(ivf[-1]) <= 1
    assert float(brute[2]) > 0 and float(brute[6]) >= float(brute[5]) > 1
