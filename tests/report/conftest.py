"""Pages of reports in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from views import View

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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
