"""The HTML file: template, style, scripts, chart library and data in one file without network requests.

The content security policy of the page forbids all requests and all scripts except those written here (identified by
their hashes), so that a malicious name in a result folder cannot execute. Data is stored in `<script>` elements of
types that are not executed.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from typing import Final

import jinja2
from markupsafe import Markup

SCRIPTS: Final = (
    "base", "units", "stats", "pack", "data", "state", "charts", "filters", "summary", "findings", "checks", "coverage",
    "reach", "kcov", "better", "search", "distributions", "levels", "tradeoff", "limits", "runs", "timeline",
    "sequence", "case", "app",
)  # fmt: skip
"""The scripts of the page in the order of their dependencies."""


def page(title: str, chunks: Iterable[tuple[str, str]], report: Callable[[], object]) -> Iterator[str]:
    """The file in parts, so that it is never completely in memory.

    `chunks` are packs by the id of their element; `report` is called after the last of them and returns the JSON value.
    """
    scripts = [_file("vendor/echarts.min.js"), *(_file(f"js/{name}.js") for name in SCRIPTS)]
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_file("page.html.jinja"))
    pieces = template.generate(
        title=title,
        policy=_policy(scripts),
        style=Markup(_file("style.css")),  # noqa: S704 - a file of this package
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - likewise
        chunks=chunks,
        report=lambda: embedded(report()),
    )
    yield from pieces


def embedded(value: object) -> Markup:
    """A value as JSON that cannot close its element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    # U+2028 and U+2029 are valid in JSON, but some tools that read the source of a page do not accept them.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - nothing in it is special in HTML any more


def _policy(scripts: Iterable[str]) -> str:
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


def _file(name: str) -> str:
    return (resources.files("tcpassay.report") / name).read_text(encoding="utf-8")
