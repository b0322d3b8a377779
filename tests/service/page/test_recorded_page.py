"""The page that the command `page` writes, opened from its file in a real browser."""

import numpy as np
import pytest
from stub_service import HOSTILE

from tour_pyserini.data.texts import Passage
from tour_pyserini.evaluation.query_path import PathRound, QueryPath, write_path_page

TEXTS = {
    "d1": Passage("Rack lines", "climb to the summit. " + "More of it. " * 30),
    "d2": HOSTILE,
    "d3": Passage("Ropeways", "need no land."),
    "d4": "seen early and never in a list again",
}
ROUNDS = [
    PathRound(["d1", "d2", "d4"], [-1.0, 2.0, -3.0], 1.0, None, [1.0, 0.0, 0.0], [9.0, 8.0, 7.0]),
    PathRound(["d2", "d3", "d1"], [2.0, 5.5, -1.0], 0.96, "all rounds were run", [0.9, 0.3, 0.0], [9.5, 8.8, 8.7]),
]
FINAL = [("d3", 6.0), ("d2", 4.0), ("d1", 1.0)]


@pytest.fixture
def file(tmp_path):
    random = np.random.default_rng(5)
    vectors = {docid: random.normal(size=3) for docid in TEXTS}
    path = QueryPath("q", f"why {HOSTILE}", ROUNDS, TEXTS, {"d3"}, FINAL, vectors)
    write_path_page(tmp_path / "page.html", path)
    return tmp_path / "page.html"


def docids(page):
    return page.locator(".hit").evaluate_all("all => all.map(each => each.dataset.doc)")


def test_a_page_opens_from_its_file_and_fetches_nothing(open_page, file):
    page, fetched = open_page(), []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(file.as_uri())
    page.get_by_role("radio", name="Final list").wait_for(state="attached")
    assert [address for address in fetched if not address.startswith("data:")] == [file.as_uri()]
    assert page.locator("h1").inner_text() == f"why {HOSTILE}" and page.get_by_role("search").count() == 0
    assert docids(page) == ["d3", "d2", "d1"]
    assert "judged relevant" in page.locator('.hit[data-doc="d3"]').inner_text()
    assert "4 passages looked at, 1 judged relevant." in page.locator("main").inner_text()
    assert page.locator(".column").count() == 3 and page.locator(".map .ring").count() == 1
    assert page.locator(".map .dot.unlisted title").text_content().startswith(TEXTS["d4"])
    assert "time" not in page.locator(".costs").inner_text()  # a trace tells no times
    page.locator('.hit[data-doc="d1"] button').click()
    assert page.locator('.hit[data-doc="d1"] .whole').inner_text().count("More of it.") == 30
    assert page.evaluate("window.hacked") is None


def test_the_rounds_of_a_page_play_again(open_page, file):
    page = open_page()
    page.clock.install()
    page.goto(file.as_uri())
    page.get_by_role("button", name="Play again").click()
    seen = [docids(page)]
    for _ in range(3):
        page.clock.run_for(1600)
        seen.append(docids(page))
    assert seen == [["d1", "d2", "d4"], ["d2", "d3", "d1"], ["d3", "d2", "d1"], ["d3", "d2", "d1"]]
    assert page.get_by_role("radio", name="First to last").is_checked()
