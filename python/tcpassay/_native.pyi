"""The data plane: conversions to and from `crates/`, and no logic. Compared with the module by a test."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

__version__: Final[str]

class TomlError(ValueError):
    """Text that is not TOML: `args` are (message, line, column)."""

class CaseError(Exception):
    """A case that cannot be run: `args[0]` lists (path, other path or None, value or None, what is wrong)."""

class StackError(Exception):
    """A real TCP cannot be used any more: `args` are (outcome of the run, reason)."""

def adapter_sources() -> dict[str, str]:
    """Sources of the adapter of smoltcp, by their place in the folder of a build."""

class StackHost:
    """One host with another TCP, without a network. Times are nanoseconds that never decrease. Raises `StackError`."""

    def __init__(
        self, command: str | None, address: str, mtu: int, seed: int, options: dict[str, int]
    ) -> None:
        """`command`: of a process; without it smoltcp. `options`: settings of docs/stacks.md that not every TCP has."""

    def about(self) -> tuple[str, str]:
        """Name and version, as a run reports them."""

    def granularity(self) -> int:
        """Resolution of its clock in nanoseconds."""

    def input(self, now_ns: int, packet: bytes) -> None: ...
    def advance(self, now_ns: int) -> None: ...
    def deadline(self, now_ns: int) -> int | None: ...
    def listen(self, now_ns: int, port: int) -> None: ...
    def connect(self, now_ns: int, port: int, to: str, to_port: int) -> int: ...
    def write(self, now_ns: int, socket: int, data: bytes) -> int: ...
    def read(self, now_ns: int, socket: int, most: int) -> bytes: ...
    def shutdown(self, now_ns: int, socket: int) -> None: ...
    def close(self, now_ns: int, socket: int) -> None: ...
    def abort(self, now_ns: int, socket: int) -> None: ...
    def drain(
        self,
    ) -> tuple[
        list[bytes],
        list[tuple[int, int, str, int]],
        list[tuple[int, bool, int, int, bool, bool, bool]],
    ]:
        """What it did since the last call.

        Packets; accepted connections (socket, local port, remote address and port); sockets whose status has changed
        (socket, established, bytes to read, room for a write, end of stream, closed, failed).
        """

class PanicException(BaseException):
    """A bug in the data plane."""

def read_toml(text: str) -> tuple[dict[str, object], dict[tuple[str | int, ...], tuple[int, int]]]:
    """The document, and the place (line, column), from 1, of every key and element by its path."""

def params_json() -> str:
    """The parameter table, a JSON list."""

def metrics_json() -> str:
    """The metrics, a JSON list."""

def interface_json() -> str:
    """What Rust declares and Python uses, a JSON object; `tools/interface.py` writes `interface.py` from it."""

def state_change(why: str) -> tuple[str | None, str | None, str | None] | None:
    """The reason of an event `state`: `(before, after, None)`, or `(None, None, cause)` of an abort; else `None`."""

def congestion_change(why: str) -> tuple[str, str, str, bool, bool] | None:
    """The reason of an event `congestion`; `None` for other text.

    The states before and after, the cause, whether a reduction was undone, and whether the window after the change is
    known.
    """

def check_case(triples: Mapping[str, bool | float | str], base: str, remote: bool = False) -> dict[str, str]:
    """Checks a case; files that values name are relative to `base`. What is not at its default, as text.

    Nothing of the files is executed. With `remote` the case is one for the hosts of a testbed.
    """

def linux_changes(triples: Mapping[str, bool | float | str], base: str, host: int) -> str:
    """What the `stack` parameters of a host change in Linux: a JSON list of `kind`, `name`, `value`, `path`.

    Kinds are `sysctl` (below `net.ipv4`), `route`, `module` (below `/sys/module`) and `other`. The first row is the
    congestion controller. Raises `ValueError` for a host that the case does not have.
    """

class Ran:
    """A run whose recording is in memory; `len()` is the number of rows of its event log."""

    ended: Final[str]
    """`duration`, `finished` or `event limit`."""
    trace: Final[str]
    """Equal for runs that took the same steps."""
    metrics: Final[dict[str, float | None]]
    """Of the whole run by name; none where the run has nothing to say."""
    partly_judged: Final[bool]
    """Whether some oracles cannot judge it: a host had another TCP than the model, or the path changed packets."""

    def __len__(self) -> int: ...
    def write(self, folder: str, events: bool) -> None:
        """Writes the recording (whole or not at all), with the event log only if `events`."""

    def index(self) -> str:
        """The text of `recording.json`, but that no other files are listed; nothing is written."""

    def digest(self) -> str:
        """A checksum of everything but the event log."""

    def times(self) -> bytes:
        """Times of the rows of the event log in nanoseconds: 64-bit little-endian numbers."""

    def kinds(self) -> bytes:
        """Kinds of the rows of the event log, one byte each: the place in `EventKind`."""

    def rows(self, rows: Sequence[int]) -> str:
        """Rows of the event log, a JSON list of objects with the columns of `events.parquet`."""

    def judged(self, oracles: Sequence[str]) -> str:
        """What the oracles named find, a JSON list."""

    def reached(self) -> str:
        """Which behaviours the run reached, a JSON object of counts."""

    def capture(self) -> bytes:
        """`packets.pcapng`; empty when no packets were captured."""

def run_held(
    triples: Mapping[str, bool | float | str],
    seed: int,
    base: str,
    collect: Mapping[str, object],
    commands: Mapping[str, Mapping[int, Path]] | None = None,
) -> Ran:
    """Runs a case and keeps its recording in memory.

    `commands` are the commands of `exec:` that may be started, each with the files that are used instead of its words.
    """

def run_case(
    triples: Mapping[str, bool | float | str],
    seed: int,
    base: str,
    collect: Mapping[str, object],
    folder: str,
) -> str:
    """Runs a case and writes its recording to `folder`, whole or not at all.

    Returns a JSON object: `ended`, `events`, `hops`, `trace` and `metrics`.
    """

def follow_lacks(folder: str, header: str) -> str | None:
    """Why the model follows no end of a run on a kernel, of which this is the header; `None` if it follows some."""

def oracles_json() -> str:
    """What the oracles of the data plane say of themselves, a JSON list."""

def judge_folder(folder: str, oracles: Sequence[str]) -> str:
    """What the oracles named find in the recording in a folder, a JSON list. Raises `ValueError` for damage."""

def follow_folder(folder: str, base: str, time_ns: int, counted: Sequence[str]) -> str:
    """How far the model follows each end of a recording, a JSON object. Raises `ValueError` for damage."""

def follow_capture(
    path: str,
    profiles: Sequence[str],
    place: tuple[str | None, bool, str | None, int | None],
    limits: tuple[int, int, int],
) -> str:
    """How far each profile follows the ends of a capture, a JSON object.

    `place`: capture point, whether all points are one, address of the host, nanoseconds within which an end acts.
    Raises `OSError`, and `ValueError` for a file that is no capture, an unknown profile, or a wrong address.
    """

def capture_profiles() -> list[str]:
    """The profiles that `follow_capture` knows."""

def reached_in_folder(folder: str) -> str:
    """Which behaviours the recording in a folder reached, a JSON object of counts. Raises `ValueError` for damage."""

def event_text(folder: str, flow: int | None) -> bytes:
    """The event log of a recording, a line an event; of one flow when its place is given.

    Raises `ValueError` for damage.
    """

def siftr_text(folder: str, host: int) -> bytes:
    """The event log of one host in the format of FreeBSD's siftr. Raises `ValueError` for damage."""

class CaptureAnalysis:
    """The analysis of a packet capture, step by step."""

    def __new__(
        cls,
        path: str,
        interface: str | None,
        merge_interfaces: bool,
        most_connections: int,
        most_expanded: int,
    ) -> Self:
        """Opens a capture. Raises `OSError`, and `ValueError` for a file that is no capture."""

    def rounds(self, flow: int | None, json: bool) -> bytes | None:
        """Reads on: the rounds that ended meanwhile, of one flow if given, a line each; `None` at the end."""

    def summary(self) -> str:
        """The summary of what was read without flows, a JSON object."""

    def flows(self, after: int, most: int) -> str:
        """The summaries of the flows after the first `after`, at most `most`, a JSON list."""

def siftr_summary(path: str, connections: int, expanded: int) -> str | None:
    """The summary of a log of siftr with at most `connections`, which expands to at most `expanded` bytes.

    A JSON object; `None` for another file. Raises `OSError`.
    """

def capture_judged(
    path: str,
    interface: str | None,
    merge_interfaces: bool,
    oracles: list[str],
    limits: tuple[int, int, int],
) -> str:
    """What the oracles that are named find in a capture, and which of them did not judge which end, as JSON.

    Raises `OSError`, and `ValueError` for a file that is no capture.
    """

def parquet(
    columns: Sequence[tuple[str, Sequence[int] | Sequence[float | None] | Sequence[str | None]]],
) -> bytes:
    """A Parquet file of named columns of equal length."""

def checksum(bytes: bytes) -> str:  # noqa: A002
    """XXH3-64 of some bytes, as sixteen hexadecimal digits; to notice accidental damage."""

def run_script(text: str, profile: str, loose: bool, options: Sequence[Sequence[str]]) -> str:
    """Runs a packetdrill script against the model and returns a JSON object.

    `options` are those of packetdrill's command line, (name, value) without dashes. The object holds `status`
    (`pass`, `time`, `fail`, `unsupported`, `syntax`), `line`, `column`, `reason`, `details`, `drift_usecs`,
    `virtual_time_usecs`, `events` and `printed`.
    """

def run_script_on_stack(text: str, command: str | None, loose: bool, options: Sequence[Sequence[str]]) -> str:
    """Runs a packetdrill script against the process `command`, or smoltcp without one; otherwise as `run_script`.

    `status` may be `crashed`: the process ended or broke the rules of its interface.
    """

class ControllerError(Exception):
    """A controller in Python failed: `args[0]` has the traceback."""

class Steps:
    """Counts the rounds of the loops of a controller; raises `RuntimeError` when there are too many in one event."""

    def __call__(self) -> bool: ...

class Control:
    """The answer of a controller: window, threshold (`None`: as it is), pacing rate (`None`: the stack's rule)."""

    def __new__(cls, cwnd: int, ssthresh: int | None = None, pacing_bps: int | None = None) -> Self: ...
    @property
    def cwnd(self) -> int: ...
    @property
    def ssthresh(self) -> int | None: ...
    @property
    def pacing_bps(self) -> int | None: ...

class View:
    """The state of the sender: time, MSS, window, threshold (`None`: not yet one), flight, round-trip times."""

    def __new__(
        cls,
        now_ns: int,
        mss: int,
        cwnd: int,
        ssthresh: int | None = None,
        pacing_bps: int | None = None,
        flight: int = 0,
        srtt_ns: int | None = None,
        min_rtt_ns: int | None = None,
        limited: str = "cwnd",
        next_send_ns: int = 0,
    ) -> Self: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def mss(self) -> int: ...
    @property
    def cwnd(self) -> int: ...
    @property
    def ssthresh(self) -> int | None: ...
    @property
    def pacing_bps(self) -> int | None: ...
    @property
    def flight(self) -> int: ...
    @property
    def srtt_ns(self) -> int | None: ...
    @property
    def min_rtt_ns(self) -> int | None: ...
    @property
    def limited(self) -> str:
        """What limited the sender: `cwnd`, `app` or `rwnd`."""

    @property
    def next_send_ns(self) -> int:
        """The time before which pacing lets nothing leave."""

class Established:
    """The handshake is complete."""

    def __new__(cls) -> Self: ...

class Sent:
    """Payload bytes were sent; only for controllers with `wants_sent = True`."""

    def __new__(cls, bytes: int, app_limited: bool = False, idle_ns: int | None = None) -> Self: ...  # noqa: A002
    @property
    def bytes(self) -> int: ...
    @property
    def app_limited(self) -> bool: ...
    @property
    def idle_ns(self) -> int | None: ...

class Ack:
    """An ACK was processed: bytes newly acknowledged, delivered, lost and marked; samples; the round trip."""

    def __new__(
        cls,
        acked: int,
        delivered: int,
        lost: int = 0,
        marked: int = 0,
        rtt_ns: int | None = None,
        sample_bytes: int | None = None,
        sample_ns: int | None = None,
        sample_sent_ns: int | None = None,
        app_limited: bool = False,
        round: int = 0,  # noqa: A002
        reordered: bool = False,
    ) -> Self: ...
    @property
    def acked(self) -> int: ...
    @property
    def delivered(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def marked(self) -> int: ...
    @property
    def rtt_ns(self) -> int | None: ...
    @property
    def sample_bytes(self) -> int | None: ...
    @property
    def sample_ns(self) -> int | None: ...
    @property
    def sample_sent_ns(self) -> int | None: ...
    @property
    def app_limited(self) -> bool: ...
    @property
    def round(self) -> int: ...
    @property
    def reordered(self) -> bool: ...

class Congestion:
    """A reduction begins: `cause` is `loss` or `ecn`; `flight` is the flight size before it."""

    def __new__(cls, cause: str, flight: int) -> Self: ...
    @property
    def cause(self) -> str: ...
    @property
    def flight(self) -> int: ...

class RecoveryExit:
    """The recovery ends: whether it was spurious, and the largest window that the exit rule allows (`None`: any)."""

    def __new__(cls, spurious: bool, exit: int | None = None) -> Self: ...  # noqa: A002
    @property
    def spurious(self) -> bool: ...
    @property
    def exit(self) -> int | None: ...

class Timeout:
    """The retransmission timer fired: flight size before, and whether it is not the first time in a row."""

    def __new__(cls, flight: int, again: bool) -> Self: ...
    @property
    def flight(self) -> int: ...
    @property
    def again(self) -> bool: ...

class Resume:
    """The first transmission after an idle time longer than the retransmission timeout."""

    def __new__(cls, idle_ns: int, rto_ns: int, restart: int) -> Self: ...
    @property
    def idle_ns(self) -> int: ...
    @property
    def rto_ns(self) -> int: ...
    @property
    def restart(self) -> int: ...

def try_controller(source: str, file: str, class_name: str) -> None:
    """Creates an object of a class in Python, which executes its source. Raises `ControllerError`."""

def check_controller(
    source: str, file: str, class_name: str, contract: str, histories: int = 200
) -> tuple[int, list[tuple[str, str, str, str, list[str]]]]:
    """Plays the histories of the conformance kit on a controller in Python.

    Returns how many events they had, and the violated clauses: name, rule, reason, what happened, and the steps of the
    shortest history. `contract` is `any`, `window` or `rate`. Raises `ControllerError` with the traceback.
    """

def contract_clauses() -> list[tuple[str, str, str, str]]:
    """The clauses of the contract between controllers and senders: name, contract (or `all`), rule, reason."""

def play_controller(
    trace: Sequence[tuple[View, object]], name: str, source: str | None = None
) -> list[tuple[int, int | None, int | None]]:
    """The answers of a controller to a trace: window, threshold, pacing rate.

    `name` is a controller of the model; with `source`, a class of this text. Each view shows the last answer as the
    control in force. Raises `ControllerError`, and `ValueError` for an unknown controller.
    """
