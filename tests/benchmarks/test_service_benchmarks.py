"""The measurements of a service run at a tiny size and fill the document."""

import pytest

from benchmarks.__main__ import SERVED, main


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
def test_the_measurement_runs_and_fills_the_document(small, tmp_path, monkeypatch, capsys, name):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    page = tmp_path / "service.md"
    page.write_text(f"<!-- {name} -->\nbefore\n<!-- end of {name} -->\n")
    flags = ("--collections", small / "collections", "--model", small / "reranker", "--encoder", small / "encoder")
    main([str(flag) for flag in ("--quick", "--only", name, *flags, "--work", tmp_path / "work", "--output", page)])
    assert f"\n({name}) " in capsys.readouterr().out
    assert page.read_text().startswith(f"<!-- {name} -->\n| ")
