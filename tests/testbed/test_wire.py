"""Messages of agents, which may be hostile, and the commands that reach them."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from tcpassay.testbed import connection, messages, wire
from tcpassay.testbed.clock import Exchange, Offset, drift, estimate, known_after, settled
from tcpassay.testbed.file import Host
from tcpassay.testbed.session import places, problems_of
from tcpassay.testbed.wire import WireError


def parse(**message: object) -> messages.FromAgent:
    return wire.parse(json.dumps(message).encode())


def test_a_message_is_packed_with_length_and_kind() -> None:
    assert wire.pack(messages.Clock()) == b'\x11\0\0\0\0{"kind": "clock"}'


def test_messages_have_types() -> None:
    assert parse(kind="time", now=7) == messages.Time(now=7)
    assert parse(kind="idle", at=5, idle=True) == messages.Idle(at=5, idle=True)
    checked = parse(kind="checked", settings={"a": "1"}, errors=[])
    assert isinstance(checked, messages.Checked)
    assert checked.settings == {"a": "1"}


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "format_disk"},
        {"now": 7},
        {"kind": "time", "now": -1},
        {"kind": "time", "now": 2**63},
        {"kind": "time", "now": "7"},
        {"kind": "time", "now": 7, "more": 1},
        {"kind": "idle", "at": 5, "idle": 1},
        {"kind": "failed", "message": "x" * 100_001},
    ],
)
def test_a_message_with_other_fields_or_values_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(WireError):
        parse(**message)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "recording.json/..", "", "a\nb", "other.json"]
)
def test_a_file_that_is_no_part_of_a_recording_is_refused(name: str) -> None:
    message = parse(kind="file", name=name, size=1)
    assert isinstance(message, messages.File)
    with pytest.raises(WireError):
        wire.file_name(message, 100)


def test_a_file_that_is_larger_than_what_is_left_for_a_recording_is_refused() -> None:
    message = parse(kind="file", name="events.parquet", size=100)
    assert isinstance(message, messages.File)
    assert wire.file_name(message, 100) == "events.parquet"
    with pytest.raises(WireError):
        wire.file_name(message, 99)


@pytest.mark.parametrize(
    ("length", "kind"), [(messages.LONGEST + 1, 0), (messages.CHUNK + 1, 1), (2**32 - 1, 0), (1, 2)]
)
def test_a_frame_that_is_too_long_or_of_another_kind_is_refused(length: int, kind: int) -> None:
    with pytest.raises(WireError):
        wire.header(length.to_bytes(4, "little") + bytes([kind]))


def test_random_bytes_are_refused_or_a_message_and_nothing_else() -> None:
    rng = random.Random(1)  # noqa: S311 - examples
    valid = b'{"kind":"ended","ended":"finished","message":"","errors":[{"path":"a","other":null,"value":"","why":""}]}'
    refused = 0
    for _ in range(3000):
        some = bytearray(valid)
        for _ in range(rng.randrange(1, 4)):
            some[rng.randrange(len(some))] = rng.randrange(256)
        try:
            wire.parse(bytes(some))
        except WireError:
            refused += 1
    assert refused > 2000
    with pytest.raises(WireError):
        wire.parse(b"[" * 100_000)


def test_the_host_is_an_argument_after_two_dashes_and_the_command_has_nothing_of_the_user() -> None:
    host = Host(name="a", ssh="user@a.lab", role="sender", sudo=True)
    command = connection.ssh_command(host, Path("/t/config"), connection.start_command(host, "ab" * 32))
    assert command[0] == "ssh"
    assert "BatchMode=yes" in command
    assert command[-5:-1] == ["-F", "/t/config", "--", "user@a.lab"]
    assert command[-1] == (
        f'[ "$(sha256sum < "$HOME"/.cache/tcpassay/agent-{"ab" * 32} 2>/dev/null)" = "{"ab" * 32}  -" ] || exit 79; '
        f'exec sudo -n "$HOME"/.cache/tcpassay/agent-{"ab" * 32} remote "$SSH_CONNECTION"'
    )
    installed = Host(name="a", ssh="a", role="sender", agent="/opt/tcpassay-agent")
    assert connection.start_command(installed, "") == 'exec /opt/tcpassay-agent remote "$SSH_CONNECTION"'


def test_an_agent_that_cannot_be_copied_whole_leaves_nothing_on_the_host(tmp_path: Path) -> None:
    def copied(limit: str) -> tuple[int, list[tuple[str, int]]]:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{limit}{connection.copy_command('ab')}"],
            input=b"x" * 100_000, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, capture_output=True,
            check=False,
        )  # fmt: skip
        files = (tmp_path / ".cache/tcpassay").iterdir()
        return done.returncode, [(one.name, one.stat().st_mode & 0o777) for one in files]

    assert copied("ulimit -f 8; ") == (1, [])
    assert copied("") == (0, [("agent-ab", 0o700)])


def test_the_offset_of_a_clock_is_that_of_the_shortest_exchange() -> None:
    # The other clock is 1000 ahead; the second answer took 10 there and 10 back, the others longer on one way.
    exchanges = [Exchange(0, 1100, 120), Exchange(200, 1210, 220), Exchange(300, 1310, 900)]
    assert estimate(exchanges) == Offset(1000, 10)


def test_the_error_of_an_offset_covers_any_split_of_the_round_trip() -> None:
    for there in range(101):
        found = estimate([Exchange(5000, 5000 + there - 700, 5100)])
        assert abs(found.ahead - -700) <= found.error == 50


def test_exchanges_end_when_six_in_sequence_have_not_shortened_the_shortest_round_trip_by_a_tenth() -> None:
    def enough(*trips: int) -> bool:
        return settled([Exchange(0, 0, trip) for trip in trips])

    assert not enough(100, *[100] * 5)
    assert enough(100, *[100] * 6)
    assert enough(100, *[91] * 6)
    assert not enough(100, *[100] * 5, 90)
    assert enough(500, 100, *[100] * 6)


def test_an_exchange_suffices_that_is_at_most_a_tenth_longer_than_the_shortest_known_one() -> None:
    def enough(known: int, *trips: int) -> bool:
        return settled([Exchange(0, 0, trip) for trip in trips], known)

    assert enough(100, 110)
    assert not enough(100, 111)
    assert enough(100, 300, 110)
    # Otherwise the rule above holds, but not while the host is busy.
    assert enough(100, *[200] * 7)
    assert not enough(100, *[201] * 7)


def test_the_shortest_known_round_trip_grows_by_a_fifth_at_most() -> None:
    def after(known: int | None, *trips: int) -> int:
        return known_after([Exchange(0, 0, trip) for trip in trips], known)

    assert after(None, 300, 200) == 200
    assert after(200, 300, 150) == 150
    assert after(200, 230, 400) == 230
    assert after(200, 300) == 240


def test_hosts_with_one_kernel_have_places_in_the_order_of_their_roles() -> None:
    hosts: list[tuple[messages.Role, str]] = [
        ("receiver", "x"), ("sender", "x"), ("router", "y"), ("sender", "x"), ("receiver", ""), ("sender", ""),
    ]  # fmt: skip
    assert places(hosts) == [2, 0, None, 1, None, None]


def test_an_offset_needs_an_exchange_and_a_clock_that_goes_forward() -> None:
    for exchanges in ([], [Exchange(10, 5, 9)]):
        with pytest.raises(ValueError, match=r"clock|exchange"):
            estimate(exchanges)
    assert drift(Offset(1000, 10), Offset(1500, 20)) == 500


def test_a_problem_that_not_all_hosts_have_is_named_with_their_names() -> None:
    def checked(*whys: str) -> messages.Checked:
        errors = [messages.CaseProblem(path="queue.kind", other=None, value="red", why=why) for why in whys]
        return messages.Checked(settings={}, errors=errors)

    here = "host `c` of the testbed: it has no ring"
    answers = {"a": checked("no netem", "no red"), "b": checked("no red"), "c": checked("no red", here)}
    told = problems_of(answers)
    assert [why for _, _, _, why in told] == ["no netem (host `a`)", "no red", here]
    answers["b"] = checked("no netem", "no red")
    assert problems_of(answers)[0] == ("queue.kind", None, "red", "no netem (hosts `a`, `b`)")
