"""Draw docs/when-it-helps.png from the expected scores of the experiment `results`: python docs/draw_when_it_helps.py.

Every dot is one collection, encoder and index: the default's score minus that of mixed re-ranking with 30 labels.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import yaml

from tour_pyserini.support.pictures import save_picture

ROOT = Path(__file__).resolve().parents[1]
SCORES = ROOT / "tour_pyserini" / "experiments" / "files" / "results.yaml"
PICTURE = ROOT / "docs" / "when-it-helps.png"
METHOD = "default"
# Mixed re-ranking; on the compressed index, of that index's own list.
BASELINES = {"flat": "mix-30", "pq16": "mix-own-30"}
COLOURS = {"flat": "#7f7f7f", "pq16": "#00796b"}


def gains(experiment: dict[str, Any], measure: str) -> dict[tuple[str, str, str], float]:
    """The default's gain over mixed re-ranking, by collection, encoder and index."""
    return {
        tuple(setup.split(".")): scores[METHOD][measure] - scores[BASELINES[setup.split(".")[2]]][measure]
        for setup, scores in experiment["expected"].items()
    }


def draw(experiment: dict[str, Any], path: Path) -> None:
    """Write the picture: one row per collection and encoder, one panel per measure, one colour per kind of index."""
    rows = [(collection, encoder) for collection in experiment["collections"] for encoder in experiment["encoders"]]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True, layout="constrained")
    for panel, measure in zip(panels, experiment["measures"], strict=True):
        found = gains(experiment, measure)
        for index, colour in COLOURS.items():
            values = [found[(*row, index)] for row in rows]
            mean = sum(values) / len(values)
            title = f"{experiment['indexes'][index]['name']} (mean {mean:+.4f})"
            panel.scatter(values, range(len(rows)), color=colour, s=45, label=title, zorder=3)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set_title(f"gain in {measure}", fontsize=10)
        panel.grid(axis="x", color="#dddddd")
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    labels = [f"{collection}, {experiment['encoders'][encoder]['name']}" for collection, encoder in rows]
    panels[0].set_yticks(range(len(rows)), labels, fontsize=9)
    panels[0].invert_yaxis()
    save_picture(figure, path)
    plt.close(figure)


if __name__ == "__main__":
    draw(yaml.safe_load(SCORES.read_text(encoding="utf-8")), PICTURE)
    sys.stderr.write(f"{PICTURE}\n")
