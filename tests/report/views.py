"""A report that is open in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from patience import SAFETY_NET_S

if TYPE_CHECKING:
    from playwright.sync_api import Page


class View:
    """An open page of a report, with its console messages and requests."""

    def __init__(self, page: "Page", file: Path) -> None:
        self.page = page
        self.file = file
        self.said: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(SAFETY_NET_S * 1000)
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, view: str = "") -> "View":
        """Load the file at this view."""
        # From one view to another of the same file a browser does not load anything.
        self.page.goto("about:blank")
        self.asked.clear()
        self.page.goto(self.file.as_uri() + view)
        self.page.wait_for_selector("html[data-ready]")
        return self

    def drawn(self) -> int:
        """The number of times that the page was drawn."""
        return int(self.page.locator("html").get_attribute("data-ready") or 0)

    def after(self, act: Any) -> None:
        """Do something that draws the page again, and wait until that is done."""
        before = self.drawn()
        act()
        self.page.wait_for_selector(f'html[data-ready="{before + 1}"]')

    def chart(self, name: str, what: str) -> Any:
        """What the library says of a chart: `what` of its options, as a JavaScript expression on `o`."""
        return self.page.evaluate(
            f"(() => {{ const o = tcpassay.charts.get('{name}').getOption(); return {what}; }})()"
        )

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()
