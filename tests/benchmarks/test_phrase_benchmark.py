"""The benchmark of phrase search on a small index."""

import json

from tiny_phrases import build_phrases, save_encoder, write_corpus

from benchmarks.phrases import main


def test_a_flat_index_finds_what_scoring_every_phrase_finds(tmp_path, capsys, one_thread):
    encoder, corpus = save_encoder(tmp_path / "encoder", pooling="mean"), write_corpus(tmp_path / "corpus.jsonl")
    kinds = {"flat": [], "ivf": ["--factory", "IVF2,SQfp16", "--nprobe", "1"]}
    indexes = [str(build_phrases(encoder, corpus, tmp_path / name, *kind)) for name, kind in kinds.items()]
    questions = {"which river": "Rhine", "who": "x"}
    lines = [json.dumps({"_id": text[:3], "text": text, "answers": [answer]}) for text, answer in questions.items()]
    (tmp_path / "topics.jsonl").write_text("\n".join(lines))
    capsys.readouterr()
    main(["--index", *indexes, "--topics", str(tmp_path / "topics.jsonl"), "--k", "3"])
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")][2:]
    brute, flat, ivf = ([cell.strip() for cell in line] for line in lines)
    assert brute[-1] == flat[-1] == "1.000"
    assert 0 <= float(ivf[-1]) <= 1
    assert float(brute[2]) > 0 and float(brute[6]) >= float(brute[5]) > 1
