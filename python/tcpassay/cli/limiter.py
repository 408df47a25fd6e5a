"""The commands `limiter apply`, `limiter show` and `limiter remove`. They contain no rules."""

import json
import subprocess
from enum import StrEnum
from typing import Annotated, TypedDict

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError
from tcpassay.substrate.agent import agent_program

app = typer.Typer(
    name="limiter",
    no_args_is_help=True,
    help="The paper's low-latency rate limiter on a device of this machine (needs root).",
    context_settings={"help_option_names": ["-h", "--help"]},
)

DeviceArgument = Annotated[str, typer.Argument(help="The device. No other device is changed.", metavar="DEV")]


class Limiter(TypedDict):
    """A limiter and its counters, as the agent reports them (`crates/agent/src/limiter.rs`)."""

    device: str
    rate_bps: int
    limit_bytes: int
    threshold_bytes: int
    mark: str
    packets: int
    marks: int
    sent_bytes: int
    dropped_packets: int
    backlog_bytes: int


class Mark(StrEnum):
    """The packets that are marked while the backlog exceeds the threshold."""

    DATA = "data"
    ACK = "ack"


@app.command()
def apply(
    device: DeviceArgument,
    rate: Annotated[str, typer.Option(help="Rate including Ethernet headers, as in 2Gbit.")],
    threshold: Annotated[str, typer.Option(help="Backlog above which packets are marked, as in 30KB.")],
    mark: Annotated[
        Mark, typer.Option(help="data: set CE on outgoing packets; ack: set ECE on returning ACKs.")
    ],
    limit: Annotated[
        str, typer.Option(help="Queue limit, as in 1MB; auto: 100 ms of the rate, at least 1 MB.")
    ] = "auto",
    json_: JsonOption = False,
) -> None:
    """Install a limiter on a device, or change the installed one.

    Example: `tcpassay limiter apply eth0 --rate 2Gbit --threshold 30KB --mark data`.
    """
    _show(device, _ask("apply", device, rate, threshold, str(mark), limit), json_=json_)


@app.command()
def show(device: DeviceArgument, json_: JsonOption = False) -> None:
    """Show the limiter of a device and its counters.

    Example: `tcpassay limiter show eth0`.
    """
    _show(device, _ask("show", device), json_=json_)


@app.command()
def remove(device: DeviceArgument) -> None:
    """Remove the limiter of a device and restore the default queue.

    Example: `tcpassay limiter remove eth0`.
    """
    _ask("remove", device)


def _ask(*words: str) -> Limiter | None:
    # Arguments that begin with a dash are safe: the agent has no options.
    done = subprocess.run(  # noqa: S603 - our own program
        [agent_program(), "limiter", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UserError(f"limiter: {done.stderr.strip()}")
    limiter: Limiter | None = json.loads(done.stdout)
    return limiter


def _show(device: str, limiter: Limiter | None, *, json_: bool) -> None:
    if json_:
        terminal.print_json(limiter)
        return
    if limiter is None:
        typer.echo(f"{device}: no limiter")
        return
    what = "CE on data" if limiter["mark"] == Mark.DATA else "ECE on returning ACKs"
    typer.echo(
        f"{device}: {limiter['rate_bps'] / 1e6:g} Mbit/s, a queue of {limiter['limit_bytes']} B; "
        f"{what} above {limiter['threshold_bytes']} B"
    )
    typer.echo(
        f"  sent {limiter['sent_bytes']} B, dropped {limiter['dropped_packets']} packets, "
        f"backlog {limiter['backlog_bytes']} B; marked {limiter['marks']} of {limiter['packets']} packets"
    )
