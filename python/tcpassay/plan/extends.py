"""Plans that extend other plans: inherited, replaced and added entries.

| of the base | in the plan that extends it |
| --- | --- |
| `fixed`, `axes`, `negative` | by parameter; removed from the base's `fixed` and `axes` if set here (a group: `axes`) |
| `groups` | by name: a group is replaced as a whole |
| `collect`, `limits`, `keep` | by key |
| `strategy` | by key; replaced as a whole if it has a `kind` |
| `constraints`, `case`, `check`, `reach`, `figure` | after those of the base; a figure replaces one of the same file |
| `drop_figures` | figures of the base that are omitted |
| `name` | not inherited |
| everything else | replaced |

Names of files in values of a base are relative to the base.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.plan import document, model
from tcpassay.plan.document import Document, Step

BY_ENTRY: Final = ("fixed", "axes", "negative", "groups", "collect", "limits", "keep")
ADDED: Final = ("constraints", "case", "check", "reach", "figure")
LONGEST: Final = 20
"""Maximum number of plans that extend one another."""
_FILE: Final = re.compile(r"(^|=)((?:trace|file|python):)([^/\s]\S*)")
_OBJECT: Final = re.compile(r"[^/\s]\S*\.o")


def load(text: str, file: Path) -> Document:
    """The document merged with all plans that it extends, with flat paths.

    Raises `UserError` for invalid TOML, a base that cannot be read, and a plan that extends itself.
    """
    return _load(text, file, ())


def _load(text: str, file: Path, above: tuple[Path, ...]) -> Document:
    own = _flat(document.parse(text, file))
    wanted = own.data.get("extends")
    if not isinstance(wanted, str) or not wanted:
        return own
    here = own.place("extends")
    below = file.parent / wanted
    chain = (*above, _real(file))
    if _real(below) in chain:
        circle = " -> ".join(f"`{step.name}`" for step in [*chain[chain.index(_real(below)) :], _real(below)])
        raise UserError(f"`extends` = `{wanted}`: the plan would extend itself: {circle}", here)
    if len(chain) > LONGEST:
        raise UserError(f"`extends` = `{wanted}`: more than {LONGEST} plans extend one another", here)
    try:
        base_text = document.read_text(below)
    except UserError as error:
        raise UserError(f"`extends` = `{wanted}`: {error.problems[0].message}", here) from None
    return merged(_load(base_text, below, chain), own)


def _real(file: Path) -> Path:
    return Path(os.path.realpath(file))


def _flat(doc: Document) -> Document:
    document.flatten(doc, ("fixed",))
    document.flatten(doc, ("axes",), model.RANGE_KEYS)
    document.flatten(doc, ("negative",))
    groups = doc.data.get("groups")
    for name, levels in groups.items() if isinstance(groups, dict) else ():
        for level in levels if isinstance(levels, dict) else ():
            document.flatten(doc, ("groups", name, level))
    stated = doc.data.get("case")
    for number in range(len(stated) if isinstance(stated, list) else 0):
        document.flatten(doc, ("case", number))
    return doc


def merged(base: Document, own: Document) -> Document:
    """`own` as the extension of `base`; both are flat."""
    if base.file.parent != own.file.parent:
        folder = Path(os.path.relpath(base.file.parent, own.file.parent))
        for key in ("fixed", "axes", "negative", "groups", "case"):
            if key in base.data:
                base.data[key] = _relative(base.data[key], folder)
        _scripts_relative(base.data.get("scripts"), folder)
    _drop_figures(base, own)
    made = Document(own.file, {}, {})
    for key in [*base.data, *(key for key in own.data if key not in base.data)]:
        lower, upper = base.data.get(key), own.data.get(key, {})
        tables = isinstance(lower, dict) and isinstance(upper, dict)
        kind = isinstance(upper, dict) and "kind" in upper
        if key == "name" or key not in base.data:
            _put(made, own, (key,))
        elif tables and (key in BY_ENTRY or (key == "strategy" and not kind)):
            _merge(made, base, own, key)
        elif key in ADDED and isinstance(lower, list) and isinstance(upper, list):
            _add(made, base, own, key)
        else:
            _put(made, own if key in own.data else base, (key,))
    return made


def _drop_figures(base: Document, own: Document) -> None:
    """Removes the figures that `own` drops from `base`. Raises `UserError` for an unknown figure."""
    dropped = own.data.get("drop_figures")
    if not isinstance(dropped, list) or not all(isinstance(name, str) for name in dropped):
        return  # the model of plans reports the error
    figures = base.data.get("figure")
    figures = figures if isinstance(figures, list) else []
    known = [name for name in map(_file_of, figures) if name]
    for index, name in enumerate(dropped):
        if name not in known:
            listed = ", ".join(f"`{file}`" for file in known) or "none"
            hint = document.suggest(name, known)
            what = f"the plan that this one extends has no such figure{hint}; it has {listed}"
            message = f"`drop_figures[{index}]` = `{name}`: {what}"
            raise UserError(message, own.place("drop_figures", index))
    kept = [index for index, figure in enumerate(figures) if _file_of(figure) not in dropped]
    places = [
        {path[2:]: at for path, at in _places(base, ("figure", index), figures[index])} for index in kept
    ]
    for index, of_figure in enumerate(places):
        for path, at in of_figure.items():
            base.places["figure", index, *path] = at
    if dropped:
        base.data["figure"] = [figures[index] for index in kept]
    del own.data["drop_figures"]


def _merge(made: Document, base: Document, own: Document, key: str) -> None:
    """The table of the base, with entries replaced by those of the plan."""
    lower, upper = base.at(key), own.at(key) if key in own.data else {}
    made.data[key] = {}
    made.places[key,] = (own if key in own.data else base).place(key)
    # A group may leave a fixed value to its levels that do not set it; together with an axis the parameter would be
    # set twice.
    taken = _owned(own.data, groups=key == "axes") if key in ("fixed", "axes") else set()
    for entry in [*lower, *(entry for entry in upper if entry not in lower)]:
        if entry in upper:
            _put(made, own, (key, entry))
        elif entry not in taken:
            _put(made, base, (key, entry))


def _owned(data: Mapping[str, object], *, groups: bool) -> set[str]:
    """The parameters that a plan sets in `fixed` and `axes`, and with `groups` also in groups."""
    owned: set[str] = set()
    for key in ("fixed", "axes"):
        table = data.get(key)
        if isinstance(table, dict):
            owned |= table.keys()
    named = data.get("groups") if groups else None
    for levels in named.values() if isinstance(named, dict) else ():
        for triples in levels.values() if isinstance(levels, dict) else ():
            if isinstance(triples, dict):
                owned |= triples.keys()
    return owned


def _put(made: Document, source: Document, path: tuple[str, ...]) -> None:
    """Copies the value at `path` from `source`, with its positions."""
    value, inside = source.at(*path[:-1]), made.at(*path[:-1])
    if path[-1] not in value:
        return
    inside[path[-1]] = value[path[-1]]
    for place, at in _places(source, path, inside[path[-1]]):
        made.places[place] = at


def _add(made: Document, base: Document, own: Document, key: str) -> None:
    """The list of the base, then that of the plan."""
    all_: list[object] = []
    made.data[key] = all_
    made.places[key,] = own.place(key)
    files = {_file_of(figure) for figure in own.at(key)} - {None} if key == "figure" else set()
    for source in (base, own):
        for index, value in enumerate(source.at(key)):
            if source is base and files and _file_of(value) in files:
                continue
            here = len(all_)
            all_.append(value)
            for place, at in _places(source, (key, index), value):
                made.places[key, here, *place[2:]] = at


def _file_of(figure: object) -> str | None:
    file = figure.get("file") if isinstance(figure, dict) else None
    return file if isinstance(file, str) else None


def _places(
    source: Document, path: tuple[Step, ...], value: object
) -> Iterator[tuple[tuple[Step, ...], Place]]:
    """The positions of a value and of all its elements."""
    if path in source.places:
        yield path, source.places[path]
    inner: Iterator[tuple[Step, object]] = iter(())
    if isinstance(value, dict):
        inner = iter(value.items())
    elif isinstance(value, list):
        inner = iter(enumerate(value))
    for step, below in inner:
        yield from _places(source, (*path, step), below)


def _scripts_relative(entries: object, folder: Path) -> None:
    """Rewrites the file names of scripts relative to another folder."""
    for entry in entries if isinstance(entries, list) else ():
        files = entry.get("files") if isinstance(entry, dict) else None
        if isinstance(files, list):
            entry["files"] = [str(folder / one) if isinstance(one, str) else one for one in files]


def _relative(value: object, folder: Path) -> object:
    """Rewrites the file names in a value, as in `trace:<file>` and `<path>.o`, relative to another folder."""
    if isinstance(value, dict):
        return {key: _relative(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_relative(inner, folder) for inner in value]
    if isinstance(value, str):
        if _OBJECT.fullmatch(value):
            return str(folder / value)
        return _FILE.sub(lambda found: f"{found[1]}{found[2]}{folder / found[3]}", value)
    return value
