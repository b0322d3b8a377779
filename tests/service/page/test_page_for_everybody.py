"""The page for readers with a keyboard, a screen reader, a phone, a dark screen, or little patience for motion."""

import pytest
from stub_service import DONE, STOP

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
STATES = {
    "start": ("", "For example"),
    "results": ("?query=land", f"Stopped: {STOP}"),
    "compared": ("?query=land&method=tour&compare=soft", "Not in the list of soft"),
}


@pytest.fixture(params=STATES)
def opened(request, service):
    """Opens all there is to see of one of the states of the page."""
    asked, words = STATES[request.param]

    def open_(page):
        page.goto(service.url + asked)
        page.get_by_text(words).first.wait_for()
        page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
        return page

    return open_


def test_search_and_read_with_the_keyboard_alone(open_page, service):
    page = open_page()
    page.goto(service.url)
    page.locator("#query:focus").wait_for()  # the page opens with the focus in the search box
    page.keyboard.type("who owned the land")
    page.keyboard.press("Enter")
    page.get_by_text(DONE).wait_for()
    names = []
    for _ in range(10):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
    assert names[:4] == ["Search", "method", "compare", "More settings"]
    assert names[4].endswith("-round") and names[5] == "Play again" and "passage d5" in names[6]
    assert names[7:9] == ["Relevant", "Not relevant"] and "Ropeways" in names[9]
    assert page.locator(".map .dot.pointed").get_attribute("data-doc") == "d3"  # the focus points at it
    page.keyboard.press("Enter")
    page.get_by_text("Whole d3.").wait_for()
    assert page.locator(":focus").get_attribute("aria-expanded") == "true"
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    page.get_by_role("status").get_by_text("Kept: relevant.").wait_for()
    assert service.judged == [("who owned the land", "d5", 1)]
    assert page.locator(":focus").get_attribute("aria-pressed") == "true"
    for _ in range(3):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")  # the last round, and the one before
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("radio", name="Round 1").is_checked()
    assert page.locator(".hit").first.get_attribute("data-doc") == "d3"
    assert "Whole d3." in page.locator(".hit").first.inner_text()  # what was opened stays open
    outline = page.evaluate("getComputedStyle(document.querySelector('.steps :checked + span')).outlineStyle")
    assert outline == "solid"  # the focus can be seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, opened, scheme):
    """Names, landmarks, headings, live regions, contrast: the rules of WCAG, by axe-core."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(opened(open_page(color_scheme=scheme, reduced_motion="reduce")))
    assert found.violations_count == 0, found.generate_report()


def test_a_screen_reader_hears_what_the_eye_sees(open_page, service):
    page = open_page()
    page.goto(f"{service.url}?query=land")
    page.get_by_text(DONE).wait_for()
    assert page.get_by_role("status").count() == 1 and page.locator("#problem").get_attribute("role") == "alert"
    page.locator(".hit").nth(1).get_by_role("button", name="Not relevant").click()
    page.get_by_role("status").get_by_text("Kept: not relevant.").wait_for()
    heard = page.locator(".hit").nth(1).aria_snapshot()
    for words in (
        'group "Judge Ropeways"',
        'button "Not relevant" [pressed]',
        "Rank 2",
        "Ropeways",
        "up from rank 3",
        "label",
        "4.00",
        "similarity",
        "before, now",
    ):
        assert words in heard
    assert "↑" not in heard  # the sign is there as words
    picture = page.get_by_role("img", name="Map of the query among 5 passages. The query has moved 2 times")
    assert picture.count() == 1
    cell = page.locator(".column").nth(2).locator("li").first.aria_snapshot()
    assert "label 6.50" in cell and "not in the list before" in cell


def test_a_phone_scrolls_in_one_direction_and_has_room_for_fingers(open_page, opened):
    page = opened(open_page(**PHONE))
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    sizes = page.locator("button, select, summary, .steps span, .fields input").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => [e.textContent, e.getBoundingClientRect().height])"
    )
    assert [row for row in sizes if row[1] < 24] == []
    overflow = page.locator(".hit, .hit *, .figures, .costs").evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.spoken')).length"
    )
    assert overflow == 0


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_list_that_moves_keeps_the_focus_and_stands_still_for_those_who_ask_for_it(open_page, service, motion):
    service.flows = False
    page = open_page(reduced_motion=motion)
    page.goto(f"{service.url}?query=land")
    button = page.locator('.hit[data-doc="d3"] .words')
    button.focus()
    page.evaluate("() => { window.moves = 0; Element.prototype.animate = () => { window.moves += 1; }; }")
    service.go.release()
    page.get_by_text("Round 1: 0 new").wait_for()
    assert button.evaluate("node => node === document.activeElement")
    assert (page.evaluate("window.moves") > 0) == (motion == "no-preference")
