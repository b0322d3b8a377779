"""The page at work with the real service, a process of its own with tiny real models."""

import pytest


def docids(page, pane=0):
    return page.locator(".pane").nth(pane).locator(".hit").evaluate_all("all => all.map(each => each.dataset.doc)")


def found(server, query, **body):
    return [hit["docid"] for hit in server.search(query, **body).json()["candidates"]]


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
    assert docids(page) == found(server, query, method="dense")
    assert page.locator(".map .dot").count() == len(rounds[0]["map"]["candidates"])
    page.locator(".hit button").first.click()
    page.locator(".hit .whole").first.get_by_text(small.texts[docids(page)[0]], exact=True).wait_for()


@pytest.mark.parametrize(
    ("asked", "words"),
    [("query=a&hits=100000", "allows 1000 at most"), ("query=a&method=none", "'none'"), ("query=%20", "is empty")],
)
def test_what_the_service_refuses_is_shown(open_page, server, asked, words):
    open_page.expected += ["status of 4"]  # the browser itself logs it
    page = open_page()
    page.goto(f"{server.url}?{asked}")
    page.get_by_role("alert").get_by_text(words).wait_for()
    assert page.locator(".hit").count() == 0
