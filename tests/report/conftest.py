"""A real browser: Debian's Chromium, controlled by Playwright, which does not download another one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from views import View

from patience import SAFETY_NET_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOW = "`make test` installs it as root; else: apt-get install chromium"


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip(f"there is no `chromium` to open the report with; {HOW}")
    arguments = ["--no-sandbox", "--disable-background-networking", "--no-first-run"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=arguments, timeout=SAFETY_NET_S * 1000
        )
        yield browser
        browser.close()


@pytest.fixture
def view(chromium: "Browser") -> Iterator[Any]:
    """Opens a file in a browser that has no network, and asserts that the page neither complained nor asked for any."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    opened: list[View] = []

    def make(file: Path) -> View:
        opened.append(View(context.new_page(), file))
        return opened[-1]

    yield make
    context.close()
    for one in opened:
        assert one.said == []
        assert [url.partition("#")[0] for url in one.asked if not url.startswith("data:")] == [
            one.file.as_uri()
        ]
