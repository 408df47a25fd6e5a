"""Tables of a folder are replaced by small files that stand for large ones: readers take little memory."""

import resource
from pathlib import Path
from typing import Any

from trial import Fault, Trial, command, fork

MOST = 1 << 30
"""Maximum resident bytes of a reader, most of which are libraries."""


def trial(trial: Trial) -> None:
    """One table, enlarged in one of two ways, with valid checksums, and commands that read it."""
    out = trial.copy()
    tables = sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))
    name = trial.dice.choice(("runs.parquet", "metrics.parquet", trial.dice.choice(tables)))
    way, rows = trial.dice.choice(("rows", "texts")), trial.dice.choice((100_000, 1_000_000, 100_000_000))
    code, said = fork(lambda: _enlarge(out, name, way, rows))
    if code:
        raise AssertionError(said)
    case = min(path.name for path in (trial.calm / "recordings").iterdir()).split("-")[0]
    for arguments in (("table", "out"), ("compare", "out", "out"), ("report", "out"), ("log", "out", case)):
        ran = trial.sane(command(*arguments, cwd=trial.folder, preexec_fn=_watched))
        used = int((trial.folder / "peak").read_text(encoding="ascii") or 0)
        if used > MOST:
            raise Fault(f"{name}, {rows} {way}: {arguments[0]} took {used >> 20} MiB: {ran.err[-200:]}")


def _watched() -> None:
    """Writes the peak of resident memory to a file when the process ends."""
    import os  # noqa: PLC0415

    end = os._exit

    def told(code: int) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        Path("peak").write_text(str(peak), encoding="ascii")
        end(code)

    os._exit = told  # type: ignore[assignment]


def _enlarge(out: Path, name: str, way: str, rows: int) -> None:
    """Writes a table of `rows` equal numbers, or of a thousand equal texts of `rows` characters."""
    import polars as pl  # noqa: PLC0415
    from hostile import sealed  # noqa: PLC0415

    from tcpassay.seal import checksum  # noqa: PLC0415

    file = out / name
    first = pl.read_parquet(file).head(1)
    if way == "rows":
        numbers = {column: kind for column, kind in first.schema.items() if kind.is_numeric()}
        columns = [pl.zeros(rows, kind, eager=True).alias(column) for column, kind in [*numbers.items()][:2]]
        pl.DataFrame(columns).write_parquet(file)
    else:
        texts = [column for column, kind in first.schema.items() if kind == pl.String] or ["message"]
        rows, length = 1_000, min(rows, 1_000_000)
        wide = first.with_columns(pl.lit("x" * length).alias(texts[-1]))
        pl.concat([wide] * rows).write_parquet(file)
    raw = file.read_bytes()
    folder, _, last = name.rpartition("/")

    def change(index: dict[str, Any]) -> None:
        if folder:
            index["files"][last] |= {"xxh3": checksum(raw), "rows": rows}
        else:
            index["files"][name] = checksum(raw)

    sealed(out / folder / "recording.json" if folder else out / "result.json", change)
