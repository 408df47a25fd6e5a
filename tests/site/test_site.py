"""The documentation as static pages: complete, all links valid, no network, searched from a folder."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from plans import REPOSITORY
from tcpassay import docs
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

sys.path.insert(0, str(REPOSITORY / "tools" / "site"))
import build


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does, in a folder whose name needs quoting in addresses."""
    folder = tmp_path_factory.mktemp("a site") / "html"
    build.build(folder)
    return folder


class Page(HTMLParser):
    """The addresses and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and tag == "a" and value:
                self.links.append(value)
            elif value and (name == "src" or (name == "href" and tag == "link")):
                self.loaded.append(value)


def test_each_page_of_docs_is_in_the_navigation_once() -> None:
    listed = [page for section in build.sections() for page in section.pages]
    assert len(listed) == len(set(listed))
    written = {str(path.relative_to(REPOSITORY / "docs")) for path in (REPOSITORY / "docs").rglob("*.md")}
    inside = {page for page in listed if not page.startswith("../")} - {build.GENERATED}
    assert inside | {"index.md"} == written


def test_every_link_and_anchor_leads_to_a_page_of_the_site_and_nothing_is_loaded_from_elsewhere(
    site: Path,
) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 50
    wrong, links = [], 0
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            address = urlsplit(link)
            if address.scheme in {"https", "http"} and link in page.links:
                continue
            links += 1
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            there = target.is_file() and target.is_relative_to(site.resolve()) and not address.scheme
            if not there or (
                address.fragment
                and target in pages
                and unquote(address.fragment) not in pages[target].anchors
            ):
                wrong.append((path.name, link))
    assert wrong == []
    assert links > 2000
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not [text for text in styles if re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", text)]


def test_the_site_is_small_enough_for_a_wheel(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 12_000_000


def test_links_to_files_that_the_site_lacks_are_text_or_links_to_the_given_repository(tmp_path: Path) -> None:
    text = "See [the rule](../crates/cc/src/rules/reno.rs), `[code](x.md)` and [plans](plan.md#constraints)."
    source = REPOSITORY / "docs" / "index.md"
    alone = build.Staging(tmp_path, None)
    assert (
        alone.page(text, source, "index.md")
        == "See the rule, `[code](x.md)` and [plans](plan.md#constraints)."
    )
    hosted = build.Staging(tmp_path, "https://example.org/t")
    assert "[the rule](https://example.org/t/crates/cc/src/rules/reno.rs)" in hosted.page(
        text, source, "index.md"
    )


@pytest.fixture
def opened(site: Path, chromium: "Browser") -> Iterator[tuple[object, list[str]]]:
    """A page of the folder in Chromium, and the addresses that it requested."""
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto((site / "search.html").as_uri() + "?q=delayed+acks")
    yield page, requested
    context.close()


def test_the_search_works_in_a_folder_without_a_server_and_without_a_network(
    opened: tuple[object, list[str]],
) -> None:
    page, requested = opened
    # Results appear one after another.
    page.wait_for_selector('ul.search li a[href^="rate-limiter.html"]', timeout=600_000)
    # Pages for users come first, each with its section; the rate limiter is about the project.
    found = page.eval_on_selector_all("ul.search li", "all => all.map(one => one.innerText.trim())")
    about = [text.endswith("(About the project)") for text in found]
    assert about.index(True) > 0
    assert about == sorted(about)
    assert requested
    assert not [one for one in requested if not one.startswith(("file:", "data:"))]
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_command_prints_the_address_of_a_page(site: Path) -> None:
    plan = (site / "plan.html").as_uri()
    assert docs.address("plan", site) == plan
    assert docs.address("docs/plan.md#constraints", site) == f"{plan}#constraints"
    assert docs.address("experiments/vegas-noise", site).endswith("/experiments/vegas-noise.html")
    with pytest.raises(UserError, match="there is no page `plam`; did you mean `plan`"):
        docs.address("plam", site)


def test_without_built_pages_the_command_says_how_to_build_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`make site` builds them"):
        docs.address("plan", tmp_path)


def test_the_command_opens_the_page_in_the_browser_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (docs.FOLDER / "index.html").is_file():
        pytest.skip("`make site` has not run")
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    done = subprocess.run(
        [sys.executable, "-m", "tcpassay", "docs", "plan"], check=True, capture_output=True, text=True
    )
    assert done.stdout == ""
    assert seen.read_text() == docs.address("plan")
