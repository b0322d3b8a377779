"""Take the screenshots of docs/service.md: `python docs/take_screenshots.py http://127.0.0.1:8080`.

The service must serve the embedded collection (`serve --topics demo`). The second time, labels are in the cache. Needs
playwright and Debian's chromium.
"""

import io
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ASSETS = Path(__file__).with_name("assets")
QUERY = "Whose refusal to part with land kept a railway from getting to the top?"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main(address: str) -> None:
    """Take all of them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        save("page-desktop", shown(browser, address, 1400, 1060, "Round 3").screenshot())
        save("page-compare", shown(browser, address, 1500, 1000, "Round 3", compare="preset:mixed").screenshot())
        save("page-phone", shown(browser, address, 390, 1180, "Round 3", is_mobile=True).screenshot())
        browser.close()


def shown(
    browser: Browser, address: str, width: int, height: int, round_: str, *, compare: str = "", **options: Any
) -> Page:
    """The page with a round of the search."""
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.goto(f"{address}?{urlencode({'query': QUERY, 'method': 'tour', 'compare': compare})}")
    page.locator(".pane[aria-busy=false]").nth(1 if compare else 0).wait_for()
    page.locator(".pane").first.get_by_role("radio", name=round_).check(force=True)
    page.wait_for_timeout(1500)  # until nothing moves
    return page


def save(name: str, picture: bytes) -> None:
    """Write a picture with as few colours as it needs."""
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(ASSETS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
