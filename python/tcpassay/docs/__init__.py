"""The documentation as static pages. `make site` builds them into this package; a wheel contains them."""

import difflib
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError

FOLDER: Final = Path(__file__).parent / "html"


def pages(folder: Path = FOLDER) -> list[str]:
    """Returns the names of the pages, as in `plan` and `experiments/vegas-noise`."""
    found = (path.relative_to(folder) for path in folder.rglob("*.html"))
    return sorted(str(path.with_suffix("")) for path in found if not path.parts[0].startswith("_"))


def address(wanted: str = "index", folder: Path = FOLDER) -> str:
    """Returns the address of a page.

    `wanted` is its name, also with folder, suffix and anchor: `plan`, `docs/plan.md`, `plan#constraints`.
    Raises `UserError` if the pages were not built or there is no such page.
    """
    if not (folder / "index.html").is_file():
        raise UserError(f"the pages are not in {folder}: `make site` builds them; a wheel contains them")
    named, mark, anchor = wanted.partition("#")
    name = named.strip("/").removeprefix("docs/").removesuffix(".md").removesuffix(".html").lower() or "index"
    known = pages(folder)
    if name not in known:
        near = (
            difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            or [one for one in known if name in one][:3]
        )
        hint = f"; did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""
        raise UserError(
            f"there is no page `{wanted}`{hint} `tcpassay docs` opens the first page, which lists all"
        )
    return (folder / f"{name}.html").resolve().as_uri() + mark + anchor
