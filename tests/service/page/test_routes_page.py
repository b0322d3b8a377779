"""The page of the routes, `/docs`, in a real browser: it shows what the service's description says."""

import shlex

import pytest

KEY = "open sesame"


@pytest.fixture
def page(open_page, server):
    page = open_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/docs")
    page.get_by_role("heading", name="Messages").wait_for()
    assert asked and all(address.startswith(server.url) for address in asked)
    return page


def test_every_route_and_message_of_the_description_is_there(page, server):
    api = server.client.get("/openapi.json").json()
    routes = [f"{method.upper()} {path}" for path, methods in api["paths"].items() for method in methods]
    assert page.locator("nav a").all_inner_texts() == routes
    assert sorted(page.locator("h3 code").all_inner_texts()) == sorted(routes)
    assert {*api["components"]["schemas"]} <= {*page.locator("h3").all_inner_texts()}
    body = page.locator("h3#message-SearchBody ~ .wide").first
    for field, schema in api["components"]["schemas"]["SearchBody"]["properties"].items():
        row = body.get_by_role("row").filter(has=page.get_by_role("rowheader", name=field, exact=True))
        assert schema["description"].replace("`", "") in row.inner_text()
    for route in ("POST /search", "POST /rerank", "GET /about"):  # examples can be sent as they are
        words = shlex.split(page.get_by_label(f"Example of {route}", exact=True).inner_text().replace("\\\n", " "))
        body = words[words.index("-d") + 1] if "-d" in words else None
        address = next(word for word in words if word.startswith(server.url))
        headers = {"Content-Type": "application/json"} if body else {}
        assert server.client.request(route.split()[0], address, content=body, headers=headers).status_code == 200


def test_axe_finds_nothing_and_a_phone_scrolls_in_one_direction(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_service_with_a_key_asks_for_it(open_page, server):
    def guarded(route):
        if route.request.headers.get("authorization") == f"Bearer {KEY}":
            route.continue_()
        else:
            route.fulfill(status=401, json={"detail": "the key is missing or wrong."})

    open_page.expected += ["status of 401"]  # the browser itself logs it
    page = open_page()
    page.route("**/openapi.json", guarded)
    page.goto(f"{server.url}/docs")
    page.get_by_role("alert").get_by_text("the key is missing or wrong").wait_for()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Show the routes").click()
    page.get_by_role("heading", name="Messages").wait_for()
    assert page.get_by_role("alert").is_hidden() and page.get_by_label("API key").is_hidden()
