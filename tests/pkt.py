"""Scripts that tests write, and the command `script` as they call it."""

from pathlib import Path

from typer.testing import CliRunner, Result

from tcpassay import cli


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.pkt").write_text(text)
    return folder


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["script", *map(str, words)])
