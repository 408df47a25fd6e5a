"""Builds the documentation as static pages: `python tools/site/build.py OUT` (`make site`).

The pages of docs/site.toml are staged in a temporary folder and rendered by Sphinx (conf.py). Staging replaces links to
files of the repository that the site does not have: by links into the published repository if its address is known,
by plain text otherwise; plans and examples become downloads. The reference of the commands is generated from the
program itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
import commands

from tcpassay import scratch

REPOSITORY: Final = Path(__file__).parents[2]
ADDRESS: Final = "TCPASSAY_REPOSITORY"
"""The environment variable with the address of the published repository, as in `https://example.org/tcpassay`."""

LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)")
CODE: Final = re.compile(r"^(```|~~~).*?^\1[ \t]*$|`[^`\n]+`(?!\])", re.MULTILINE | re.DOTALL)
DOWNLOADS: Final = {".toml", ".py", ".json", ".yml", ".yaml", ".pkt", ".sh", ".patch"}
GENERATED: Final = "commands.md"


@dataclass(frozen=True)
class Section:
    """Pages of the navigation, which are files relative to docs/: under a heading of the side bar, or below a page."""

    pages: tuple[str, ...]
    title: str = ""
    below: str = "index.md"


def sections() -> list[Section]:
    """Returns the navigation in docs/site.toml. A pattern stands for the files that no section names."""
    docs = REPOSITORY / "docs"
    told = tomllib.loads((docs / "site.toml").read_text(encoding="utf-8"))["section"]
    named = {page for one in told for page in one["pages"]}

    def files(page: str) -> list[str]:
        if "*" not in page:
            return [page]
        return [
            name for path in sorted(docs.glob(page)) if (name := str(path.relative_to(docs))) not in named
        ]

    return [
        Section(**one | {"pages": tuple(file for page in one["pages"] for file in files(page))})
        for one in told
    ]


def staged(page: str) -> str:
    """Returns the name of a page in the site: pages from outside of docs/ are in its root, in small letters."""
    return Path(page).name.lower() if page.startswith("../") else page


class Staging:
    """A copy of the pages with links that work in the site."""

    def __init__(self, folder: Path, address: str | None) -> None:
        self.folder = folder
        self.address = address
        pages = ["index.md", *(page for section in sections() for page in section.pages)]
        self.pages = {
            (REPOSITORY / "docs" / page).resolve(): staged(page) for page in pages if page != GENERATED
        }

    def write(self) -> None:
        """Writes all pages, the navigation and the generated reference."""
        for source, name in self.pages.items():
            text = self.page(source.read_text(encoding="utf-8"), source, name)
            below = [section for section in sections() if section.below == name]
            self.put(name, text + "".join(map(self.navigation, below)))
        self.put(GENERATED, commands.reference())

    def put(self, name: str, text: str) -> None:
        """Writes a page."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def navigation(self, section: Section) -> str:
        """Returns the table of contents of a section, which only the side bar shows."""
        entries = "\n".join("/" + staged(page).removesuffix(".md") for page in section.pages)
        caption = f":caption: {section.title}\n" if section.title else ""
        return f"\n```{{toctree}}\n:hidden:\n{caption}\n{entries}\n```\n"

    def page(self, text: str, source: Path, name: str) -> str:
        """Returns the text of a page with its links replaced; code stays as it is."""
        pieces, end = [], 0
        for code in CODE.finditer(text):
            pieces += [self.links(text[end : code.start()], source, name), code[0]]
            end = code.end()
        return "".join([*pieces, self.links(text[end:], source, name)])

    def links(self, text: str, source: Path, name: str) -> str:
        """Replaces the links of a text without code blocks."""
        return LINK.sub(lambda link: self.link(link, source, name), text)

    def link(self, link: re.Match[str], source: Path, name: str) -> str:
        """Returns a link as the site needs it."""
        path, _, anchor = link["target"].partition("#")
        if not path or "://" in path:
            return link[0]
        meant = (source.parent / path).resolve()
        if meant in self.pages:
            goal = self.pages[meant]
        elif not meant.exists():
            raise SystemExit(f"{source}: `{link['target']}` does not exist")
        elif link["image"]:
            goal = str(meant.relative_to(REPOSITORY / "docs"))
            (self.folder / goal).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(meant, self.folder / goal)
        elif meant.suffix in DOWNLOADS and meant.is_file():
            goal = f"files/{meant.relative_to(REPOSITORY)}"
            (self.folder / goal).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(meant, self.folder / goal)
            relative = os.path.relpath(goal, Path(name).parent)
            return f"{{download}}`{link['text'].replace('`', '')} <{relative}>`"
        elif self.address:
            return f"[{link['text']}]({self.address}/{meant.relative_to(REPOSITORY)})"
        else:
            return link["text"]
        relative = os.path.relpath(goal, Path(name).parent)
        return f"{link['image']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"


def scorer() -> str:
    """Returns the script that orders the results of the search, with the section of each page."""
    titles: dict[str, str] = {}
    for section in sections():
        for page in section.pages:
            title = section.title or titles.get(staged(section.below).removesuffix(".md"), "")
            titles[staged(page).removesuffix(".md")] = title
    script = (Path(__file__).parent / "scorer.js").read_text(encoding="utf-8")
    return f"const SECTIONS = {json.dumps(titles)};\n{script}"


def build(out: Path) -> None:
    """Writes the site to `out`, which is replaced."""
    with scratch.folder() as folder:
        staging = Path(folder) / "pages"
        Staging(staging, os.environ.get(ADDRESS)).write()
        made = Path(folder) / "html"
        order = Path(folder) / "scorer.js"
        order.write_text(scorer(), encoding="utf-8")
        conf = str(Path(__file__).parent)
        sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        subprocess.run(  # noqa: S603 - the own program
            [*sphinx, "-c", conf, "-D", f"html_search_scorer={order}", str(staging), str(made)], check=True
        )
        for unwanted in (".doctrees", ".buildinfo", "_sources", "objects.inv", "genindex.html"):
            one = made / unwanted
            shutil.rmtree(one) if one.is_dir() else one.unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
