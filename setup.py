"""What setup.cfg cannot say: the README for the package page, where relative links lead nowhere.

If `base_url` in the section `[readme]` of setup.cfg names where the files of the repository can be read, relative links
and pictures get that address, and the package page links to the documentation, the source and the changelog. If it is
empty, relative links become plain text. Everything else is in setup.cfg.
"""

import configparser
import re
from pathlib import Path

from setuptools import setup

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A Markdown link or picture with a relative address."""


def page_text(readme: str, base_url: str) -> str:
    """The README with relative links made absolute, or made plain text if `base_url` is empty.

    Example:
        >>> page_text("see [the docs](docs/a.md)", "https://example.org/files/")
        'see [the docs](https://example.org/files/docs/a.md)'
        >>> page_text("see [the docs](docs/a.md)", "")
        'see the docs'
    """
    if base_url:
        return LINK.sub(lambda link: f"{link[1]}[{link[2]}]({base_url.rstrip('/')}/{link[3]})", readme)
    return LINK.sub(lambda link: link[2], readme)


def project_urls(base_url: str) -> dict[str, str]:
    """The links of the package page; none if `base_url` is empty."""
    if not base_url:
        return {}
    base_url = base_url.rstrip("/")
    return {"Documentation": f"{base_url}/docs", "Source": base_url, "Changelog": f"{base_url}/CHANGELOG.md"}


if __name__ == "__main__":
    folder = Path(__file__).parent
    config = configparser.ConfigParser()
    config.read(folder / "setup.cfg", encoding="utf-8")
    url = config.get("readme", "base_url").strip()
    text = page_text((folder / "README.md").read_text(encoding="utf-8"), url)
    setup(long_description=text, project_urls=project_urls(url))
