"""The page for readers with a keyboard, a screen reader, a phone, a dark screen, or little patience for motion."""

import re
from itertools import pairwise

import pytest
from stub_service import DONE, STOP

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => channels(colour).slice(0, 3).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const { backgroundColor: colour } = getComputedStyle(node);
      const parts = channels(colour);
      if (parts.length < 4 || parts[3] === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const rows = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const words = walker.currentNode.data.trim();
    const isIcon = node.closest("title, script, style, noscript, .spoken, option");
    if (!words || isIcon || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const circle = node.closest(".dot")?.querySelector("circle:not(.ring)");
    const [ink, paper] = node.closest("svg")
      ? [style.fill, circle ? getComputedStyle(circle).fill : ground(node.closest("svg"))]
      : [style.color, ground(node)];
    const [low, high] = [light(ink), light(paper)].sort((one, other) => one - other);
    rows.push([words.slice(0, 30), (high + 0.05) / (low + 0.05)]);
  }
  return rows;
}"""


# A line of what a screen reader is given, for something that must have a name and has none.
NAMELESS = re.compile(
    r"^ *- (?:button|link|searchbox|textbox|spinbutton|combobox|radio|img|region|heading|search)\b(?! \").*$",
    re.MULTILINE,
)
STATES = {
    "start": ("", "For example"),
    "results": ("?query=land", f"Stopped: {STOP}"),
    "compared": ("?query=land&method=tour&compare=soft", "Not in the list of soft"),
}


@pytest.fixture(params=STATES)
def state(request, service):
    """The address of the page in one of its states, and words that are there when it is complete."""
    asked, words = STATES[request.param]
    return service.url + asked, words


def opened(page, state):
    address, words = state
    page.goto(address)
    page.get_by_text(words).first.wait_for()
    return page


def test_search_and_read_with_the_keyboard_alone(open_page, service):
    page = open_page()
    page.goto(service.url)
    page.locator("#query:focus").wait_for()  # the page opens with the focus in the search box
    page.keyboard.type("who owned the land")
    page.keyboard.press("Enter")
    page.get_by_text(DONE).wait_for()
    names = []
    for _ in range(8):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
    assert names[:4] == ["Search", "method", "compare", "More settings"]
    assert names[4].endswith("-round") and names[5] == "Play again" and "passage d5" in names[6]
    assert "Ropeways" in names[7]
    assert page.locator(".map .dot.pointed").get_attribute("data-doc") == "d3"  # the focus points at it
    page.keyboard.press("Enter")
    page.get_by_text("Whole d3.").wait_for()
    assert page.locator(":focus").get_attribute("aria-expanded") == "true"
    for _ in range(3):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")  # the last round, and the one before
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("radio", name="Round 1").is_checked()
    assert page.locator(".hit").first.get_attribute("data-doc") == "d3"
    assert "Whole d3." in page.locator(".hit").first.inner_text()  # what was opened stays open
    outline = page.evaluate("getComputedStyle(document.querySelector('.steps :checked + span')).outlineStyle")
    assert outline == "solid"  # the focus can be seen


def test_a_list_that_moves_does_not_lose_the_focus(open_page, service):
    service.flows = False
    page = open_page()
    page.goto(f"{service.url}?query=land")
    button = page.locator('.hit[data-doc="d3"] button')
    button.focus()
    service.go.release()
    page.get_by_text("Round 1: 0 new").wait_for()
    assert button.evaluate("node => node === document.activeElement")


def test_landmarks_headings_names_and_live_regions(open_page, state):
    page = opened(open_page(), state)
    for landmark in ("banner", "search", "main"):
        assert page.get_by_role(landmark).count() == 1
    assert page.locator("html").get_attribute("lang") == "en" and page.get_by_role("heading", level=1).count() == 1
    levels = page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.filter(each => each.checkVisibility()).map(each => Number(each.tagName[1]))"
    )
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.get_by_role("status").count() == 1
    assert page.locator("#problem").get_attribute("role") == "alert"
    heard = page.locator("body").aria_snapshot()
    assert NAMELESS.findall(heard) == []
    assert len(re.findall(r"^ *- (button|combobox|radio|img|region)", heard, re.MULTILINE)) > 3
    ids = page.locator("[id]").evaluate_all("all => all.map(each => each.id)")
    assert len(ids) == len(set(ids))
    assert page.locator("[aria-hidden=true] :is(button, a, input)").count() == 0
    assert page.get_by_role("link", name="Skip to the results").get_attribute("href") == "#results"


def test_a_screen_reader_hears_what_the_eye_sees(open_page, service):
    page = open_page()
    page.goto(f"{service.url}?query=land")
    page.get_by_text(DONE).wait_for()
    heard = page.locator(".hit").nth(1).aria_snapshot()
    for words in ("Rank 2", "Ropeways", "up from rank 3", "label", "4.00", "similarity", "before, now"):
        assert words in heard
    assert "↑" not in heard  # the sign is there as words
    picture = page.get_by_role("img", name="Map of the query among 5 passages. The query has moved 2 times")
    assert picture.count() == 1
    cell = page.locator(".column").nth(2).locator("li").first.aria_snapshot()
    assert "label 6.50" in cell and "not in the list before" in cell


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_have_enough_contrast(open_page, state, scheme):
    page = opened(open_page(color_scheme=scheme, reduced_motion="reduce"), state)
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    measured = page.evaluate(CONTRASTS)
    assert len(measured) > 20
    assert [row for row in measured if row[1] < 4.5] == []


def test_a_phone_scrolls_in_one_direction_and_has_room_for_fingers(open_page, state):
    page = opened(open_page(**PHONE), state)
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    page.mouse.wheel(300, 0)
    assert page.evaluate("scrollX") == 0
    sizes = page.locator("button, select, summary, .steps span, .fields input").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => [e.textContent, e.getBoundingClientRect().height])"
    )
    assert [row for row in sizes if row[1] < 24] == []
    overflow = page.locator(".hit, .hit *, .figures, .costs").evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.spoken')).length"
    )
    assert overflow == 0


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_nothing_moves_for_those_who_ask_for_stillness(open_page, service, motion):
    service.flows = False
    page = open_page(reduced_motion=motion)
    page.goto(f"{service.url}?query=land")
    page.get_by_text("First retrieval: 5 passages").wait_for()
    page.evaluate("() => { window.moves = 0; Element.prototype.animate = () => { window.moves += 1; }; }")
    service.go.release()
    page.get_by_text("Round 1: 0 new").wait_for()
    assert (page.evaluate("window.moves") > 0) == (motion == "no-preference")
