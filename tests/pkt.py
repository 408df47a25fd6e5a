"""Scripts of tests, and a function that calls the command `script`."""

from pathlib import Path

from typer.testing import CliRunner, Result

from tcpassay import cli

# A handshake; and one after which a FIN is expected 2 ms too late.
GOOD = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32792 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
"""
LATE = (
    GOOD
    + "+.1 < . 1:1(0) ack 1 win 32792\n+0 accept(3, ..., ...) = 4\n+0 close(4) = 0\n+.002 > F. 1:1(0) ack 1\n"
)


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.pkt").write_text(text)
    return folder


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["script", *map(str, words)])
