"""The page at work in a real browser: searching, watching rounds, comparing, and what goes wrong."""

from stub_service import DONE, HOSTILE, STOP


def docids(page, pane=0):
    return page.locator(".pane").nth(pane).locator(".hit").evaluate_all("all => all.map(each => each.dataset.doc)")


def search(page, query="who owned the land"):
    page.get_by_role("searchbox", name="Query").fill(query)
    page.get_by_role("button", name="Search").click()


def item(page, docid):
    return page.locator(f'.hit[data-doc="{docid}"]')


def test_the_list_improves_as_rounds_arrive(open_page, service):
    service.flows = False
    page = open_page()
    page.goto(service.url)
    page.get_by_text("1,234 documents").wait_for()
    search(page)
    page.get_by_text("First retrieval: 5 passages; 0 labels, 0 updates, 40 ms.").wait_for()
    assert docids(page) == ["d1", "d2", "d3", "d4", "a/b?"]
    assert page.get_by_role("radio").count() == 0  # there is one list
    assert "none" in item(page, "d1").inner_text()

    service.go.release()
    page.get_by_text("Round 1: 0 new, 1 rose; 3 labels, 1 update, 740 ms.").wait_for()
    assert docids(page) == ["d3", "d1", "d2", "d4", "a/b?"]
    rose = item(page, "d3").inner_text()
    assert "↑2" in rose and "up from rank 3: labelled in this round; the query moved towards it" in rose
    assert "4.00" in rose and rose.index("0.580 →") < rose.index("0.680")  # the similarity before and after
    assert page.get_by_text("Searching …").count() == 1

    page.get_by_text("First retrieval", exact=True).first.click()
    service.go.release()
    page.get_by_text(DONE).wait_for()
    assert docids(page)[0] == "d1" and page.get_by_role("radio").count() == 4  # who chose a round is left there
    page.get_by_role("radio", name="First to last").check(force=True)
    assert docids(page) == ["d5", "d3", "d4", "d1", "d2"]
    assert "not in the first list" in item(page, "d5").inner_text()
    assert "up from rank 3: labelled" in item(page, "d3").inner_text()
    page.get_by_role("radio", name="Round 2").check(force=True)
    assert "not in the list before" in item(page, "d5").inner_text()
    assert page.get_by_role("heading", name="tour").count() == 1
    assert f"Stopped: {STOP}. 1,234 documents." in page.locator(".pane-head").inner_text()
    columns = page.get_by_role("region", name="Rounds of tour side by side")
    assert columns.locator(".column").count() == 3 and columns.locator(".lines path").count() == 5 + 4
    assert page.locator(".costs tbody tr").count() == 3 and "5 labels" in page.locator(".figures").inner_text()
    assert page.locator(".map .dot").count() == 5 and page.locator(".map .dot.new").count() == 1
    assert page.locator(".map .way rect").count() == 3
    within = "(e, b = e.getBBox()) => b.x >= 0 && b.x + b.width <= e.ownerSVGElement.clientWidth"
    for width in (1300, 360):  # names of the query are inside the picture
        page.set_viewport_size({"width": width, "height": 800})
        for name in ("First retrieval", "Round 1", "Round 2"):
            page.get_by_role("radio", name=name).check(force=True)
            assert page.locator(".map .way text").evaluate_all(f"all => all.every(e => ({within})(e))")


def test_two_methods_side_by_side(open_page, service):
    page = open_page(viewport={"width": 1300, "height": 800}, reduced_motion="reduce")  # nothing moves under the mouse
    page.goto(service.url)
    page.get_by_label("Compare with").select_option("soft")
    search(page)
    page.locator(".pane[aria-busy=false]").nth(1).wait_for()
    page.get_by_text("4 of 5 passages are in both lists.").wait_for()
    assert docids(page, 0) == ["d5", "d3", "d4", "d1", "d2"] and docids(page, 1) == ["d3", "d4", "d1", "d2", "a/b?"]
    assert {asked["method"] for asked in service.searches} == {"tour", "soft"}
    assert all("compare" not in asked for asked in service.searches)
    first, second = page.locator(".pane").nth(0), page.locator(".pane").nth(1)
    assert "Not in the list of soft." in first.locator('[data-doc="d5"].hit').inner_text()
    assert "Rank 2 with tour." in second.locator('[data-doc="d3"].hit').inner_text()
    boxes = [pane.bounding_box() for pane in (first, second)]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    first.get_by_role("radio", name="Round 1").check(force=True)  # another list is compared
    page.get_by_text("5 of 5 passages are in both lists.").wait_for()
    assert "Rank 1 with tour." in second.locator('[data-doc="d3"].hit').inner_text()
    first.locator('[data-doc="d3"].hit').hover()  # a passage is marked wherever it is
    second.locator('[data-doc="d3"].pointed.hit').wait_for()


def test_judgements_are_kept_and_a_mind_may_change(open_page, service):
    open_page.expected += ["status of 500"]  # the browser itself logs it
    page = open_page(viewport={"width": 1300, "height": 800})
    page.goto(f"{service.url}?query=land&method=tour&compare=soft")
    page.get_by_text("4 of 5 passages are in both lists.").wait_for()
    pressed = page.locator('.hit[data-doc="d3"] [aria-pressed=true]')
    for name, grade in (("Relevant", 1), ("Not relevant", 0)):
        item(page, "d3").first.get_by_role("button", name=name, exact=True).click()
        page.get_by_role("status").get_by_text(f"Kept: {name.lower()}.").wait_for()
        assert pressed.all_inner_texts() == [name] * 2  # in both lists
        assert service.judged[-1] == ("land", "d3", grade)
    page.locator(".pane").first.get_by_role("radio", name="First retrieval").check(force=True)
    assert pressed.all_inner_texts() == ["Not relevant"] * 2  # another list of the same search
    service.fault = "full disk"
    item(page, "d1").first.get_by_role("button", name="Relevant", exact=True).click()
    page.get_by_role("alert").get_by_text("the service has failed").wait_for()
    assert item(page, "d1").locator("[aria-pressed=true]").count() == 0


def test_settings_and_the_address(open_page, service):
    page = open_page()
    page.goto(service.url)
    page.get_by_text("More settings").click()
    page.get_by_text("1,234 documents").wait_for()  # a search before that has the service's own method
    page.get_by_label("Most labels").fill("7")
    page.get_by_label("Deadline in milliseconds").fill("300")
    search(page, "first query")
    page.get_by_text(DONE).wait_for()
    asked = {"query": "first query", "method": "tour", "budget": "7", "deadline_ms": "300"}
    assert service.searches == [asked]
    search(page, "second & last")
    page.get_by_role("heading", name="second & last", level=1).wait_for()
    page.go_back()
    page.get_by_role("heading", name="first query", level=1).wait_for()
    assert page.get_by_role("searchbox").input_value() == "first query"
    page.reload()
    page.get_by_text(DONE).wait_for()
    assert service.searches[-1] == asked and page.title().startswith("first query")
    page.go_back()  # to the page as it was opened
    page.get_by_role("button", name="who owned the land").wait_for()
    assert page.locator(".pane").count() == 0 and page.get_by_role("searchbox").input_value() == ""
    assert page.get_by_label("Method").input_value() == "tour" and page.title() == "TouR"


def test_a_search_before_the_service_says_what_it_offers(open_page, service):
    service.about.clear()
    page = open_page()
    page.goto(service.url)
    search(page)
    page.get_by_text(DONE).wait_for()
    service.about.set()
    page.locator("select[name=method] option").first.wait_for(state="attached")
    assert service.searches == [{"query": "who owned the land"}]  # once
    assert docids(page) == ["d5", "d3", "d4", "d1", "d2"] and page.get_by_text(DONE).count() == 1


def test_texts_are_never_html(open_page, service):
    page = open_page()
    page.goto(service.url)
    search(page, HOSTILE)
    page.get_by_text(DONE).wait_for()
    assert page.locator("h1").inner_text() == HOSTILE
    assert HOSTILE in item(page, "d4").inner_text()
    item(page, "d4").locator(".words").click()
    page.get_by_text(f"Whole d4. {HOSTILE}").wait_for()
    page.get_by_role("radio", name="First retrieval").check(force=True)
    item(page, "a/b?").locator(".words").click()  # a docid is a part of an address
    page.get_by_text("Whole a/b?.").wait_for()
    assert page.evaluate("window.hacked") is None and page.locator("main img, main script").count() == 0


def test_a_problem_is_shown_in_the_service_s_words(open_page, service):
    open_page.expected += ["429", "401", "ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED"]  # the browser itself logs these
    page = open_page()
    page.goto(service.url)
    alert = page.get_by_role("alert")
    assert not alert.is_visible()
    service.fault = "full"
    search(page)
    page.get_by_text("Too many searches wait. Try again in 3 s.").wait_for()
    assert alert.is_visible() and page.locator(".hit").count() == 0
    service.fault = "error"
    search(page)
    page.get_by_text("The re-ranker does not answer.").wait_for()
    assert docids(page) == ["d1", "d2", "d3", "d4", "a/b?"]  # what had arrived stays
    assert "Ended early" in page.locator(".pane-head").inner_text()
    service.fault = "cut"
    search(page)
    page.get_by_text("The service ended the search before its answer.").wait_for()
    service.fault, service.key = None, "open sesame"
    search(page)
    page.get_by_text("The API key is missing or wrong.").wait_for()
    page.get_by_label("Method").select_option("soft")
    page.get_by_label("API key").fill("open sesame")
    search(page)
    page.get_by_text(DONE).wait_for()
    assert not alert.is_visible() and "sesame" not in page.url and service.searches[-1]["method"] == "soft"
    service.close()
    search(page)
    page.get_by_text("The service cannot be reached.").wait_for()


def test_a_new_search_ends_the_one_before(open_page, service):
    service.flows = False
    page = open_page()
    page.goto(service.url)
    search(page, "first")
    page.get_by_text("First retrieval: 5 passages").wait_for()
    search(page, "second")
    assert service.ended.acquire(timeout=60)  # the first search costs nothing any more
    page.get_by_role("heading", name="second", level=1).wait_for()
    assert page.locator(".pane").count() == 1


# With the real service, a process of its own with tiny real models


def test_a_search_shows_the_lists_of_the_service(open_page, server, small):
    query, page = small.queries["q3"], open_page()
    page.goto(server.url)
    page.get_by_role("searchbox", name="Query").fill(query)
    page.get_by_role("searchbox", name="Query").press("Enter")
    page.get_by_text("Done: ").wait_for()
    rounds = server.search(query, rounds=True).json()["rounds"]
    assert docids(page) == [hit["docid"] for hit in rounds[-1]["candidates"]]
    assert page.locator(".column").count() == len(rounds) >= 2
    page.get_by_role("radio", name="First retrieval").check(force=True)
    assert docids(page) == [hit["docid"] for hit in rounds[0]["candidates"]]
    assert page.locator(".map .dot").count() == len(rounds[0]["map"]["candidates"])
    page.locator(".hit button").first.click()
    page.locator(".hit .whole").first.get_by_text(small.texts[docids(page)[0]], exact=True).wait_for()
