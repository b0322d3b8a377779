"""A real browser for the tests of the page."""

import shutil

import pytest
from stub_service import StubService

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")  # while playwright runs, the thread has an event loop, and other tests cannot have one
def browser():
    """Chromium, or a skip where it or playwright is not installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open a page in a browser of its own; at the end no script may have failed and nothing may be on the console."""
    said, contexts = [], []

    def open_(**options):
        context = browser.new_context(**options)
        context.set_default_timeout(60_000)  # milliseconds; a busy machine takes its time
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        return page

    open_.expected = []
    yield open_
    for context in contexts:
        context.close()
    assert [line for line in said if not any(words in line for words in open_.expected)] == []


@pytest.fixture
def service():
    service = StubService()
    yield service
    service.flows = True
    service.about.set()
    service.close()
