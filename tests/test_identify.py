"""`judge --as` and `identify` as a user runs them, on captures of runs of the model."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tcpassay import _native
from tcpassay.capture import blocks
from tcpassay.captured.followed import End, FollowedCapture, Outcome, Stop
from tcpassay.captured.identify import STACKS, Answer, identify
from tcpassay.cli import app
from tcpassay.errors import UserError

COLLECT: dict[str, str | bool | None] = {
    "series": None,
    "warmup": "0s",
    "deliveries": False,
    "events": True,
    "packets": True,
}
CASE: dict[str, bool | float | str] = {
    "link.rate": "10Mbit",
    "link.delay": "10ms",
    "link.loss": "1%",
    "app.duration": "2s",
}


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def capture(folder: Path, triples: Mapping[str, bool | float | str]) -> Path:
    _native.run_case({**CASE, **triples}, 1, ".", COLLECT, str(folder))
    return folder / "packets.pcapng"


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("linux") / "run", {"stack.profile": "linux"})


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("foreign") / "run", {"stack.implementation": "smoltcp"})


def test_the_profile_of_the_stack_follows_to_the_end_and_another_one_is_said_to_be_wrong(linux: Path) -> None:
    done = invoke("judge", linux, "--as", "linux-6.1")
    assert done.exit_code == 0, done.output
    assert "0 differences from linux-6.1; 2 ends followed, 2 to the end of the capture" in done.output
    assert "the capture was taken at the other end" in done.output
    done = invoke("judge", linux, "--as", "freebsd", "--point", "receiver")
    assert done.exit_code == 1
    assert "differs from freebsd an ACK that the model would not have sent" in done.output
    assert (
        "freebsd follows little of this capture: 1 end differs after fewer than 10 judged segments"
        in done.output.replace("\n", " ")
    )
    assert "violate" not in done.output


def test_the_result_for_machines_names_the_frame(linux: Path) -> None:
    told = json.loads(invoke("judge", linux, "--as", "freebsd", "--point", "receiver", "--json").stdout)
    assert told["profile"] == "freebsd"
    [first] = [end["first"] for end in told["ends"] if end["first"]]
    assert first["frame"] < 30
    assert first["expected"].startswith("nothing; its next timer fires at ")
    told = json.loads(invoke("judge", linux, "--as", "linux-6.1", "--point", "receiver", "--json").stdout)
    [end] = [end for end in told["ends"] if end["stop"] is None]
    assert end["followed"] == end["packets"] > 500
    assert end["acks"] > 200


def test_a_clock_that_goes_back_by_microseconds_does_not_end_the_comparison(
    linux: Path, tmp_path: Path
) -> None:
    def stop(back_ns: int) -> str | None:
        content, moved = b"", 0
        latest: dict[bytes, int] = {}
        for kind, block in blocks(linux.read_bytes()):
            if kind != 6:
                content += block
                continue
            interface = block[8:12]
            at = int.from_bytes(block[12:16], "little") << 32 | int.from_bytes(block[16:20], "little")
            before = latest.get(interface, 0)
            if before > back_ns and at - before <= 1000 and moved < 20:  # an ACK that leaves at once
                at, moved = before - back_ns, moved + 1
            latest[interface] = max(at, before)
            stamp = (at >> 32).to_bytes(4, "little") + (at & 0xFFFFFFFF).to_bytes(4, "little")
            content += block[:12] + stamp + block[20:]
        assert moved == 20
        (tmp_path / "back.pcapng").write_bytes(content)
        done = invoke("judge", tmp_path / "back.pcapng", "--as", "linux-6.1", "--point", "receiver", "--json")
        ends = [end for end in json.loads(done.stdout)["ends"] if end["acks"] > 0 or end["stop"]]
        assert all(end["first"] is None for end in ends)
        return next((end["stop"]["why"] for end in ends if end["followed"] > 0 and end["stop"]), None)

    assert stop(10_000) is None
    assert stop(10_001) == "the clock of the capture goes back"


def test_identify_names_the_profile_or_says_that_none_fits(linux: Path, foreign: Path) -> None:
    done = invoke("identify", linux)
    assert done.exit_code == 0, done.output
    assert "linux-6.1 or linux-7.3: the " in done.output
    assert done.output.startswith("linux-6.1     differs in 0 of 2 ends, follows 100.0 % of the packets")
    done = invoke("identify", foreign, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["answer"], told["profiles"]) == ("none fits", [])
    assert "offers no " in told["why"]


def test_identify_says_of_which_ends_and_why_they_were_not_followed_to_their_end(
    linux: Path, tmp_path: Path
) -> None:
    text = invoke("identify", linux).output
    assert "ends: 10.0.0.1:32768 > 10.0.0.2:5001, 10.0.0.2:5001 > 10.0.0.1:32768" in text
    assert "followed up to this" not in text
    # The snap length cuts the option of a first SACK block.
    content = b""
    for kind, block in blocks(linux.read_bytes()):
        if kind == 6 and int.from_bytes(block[20:24], "little") > 60:
            size = (92).to_bytes(4, "little")
            content += block[:4] + size + block[8:20] + (60).to_bytes(4, "little") + block[24:88] + size
        else:
            content += block
    (tmp_path / "cut.pcapng").write_bytes(content)
    text = invoke("identify", tmp_path / "cut.pcapng").output.replace("\n", " ")
    assert "2 ends are followed up to this: the captured bytes end inside of the options" in text


def test_a_capture_of_a_few_packets_is_too_little(tmp_path: Path) -> None:
    file = capture(
        tmp_path / "run", {"stack.profile": "linux", "app.flow_size": "3KB", "app.duration": "30ms"}
    )
    done = invoke("identify", file)
    assert done.exit_code == 3, done.output
    assert "too little: the ends at which the capture was taken sent " in done.output


def outcome(followed: int, *, differs: bool) -> Outcome:
    first = None
    if differs:
        first = {
            "row": followed,
            "time_ns": 0,
            "kind": "",
            "sent": "",
            "expected": "",
            "why": "",
            "source": "",
        }
        first |= {"cause": "", "frame": 1}
    return Outcome(100, followed, 30, 0, 50, first, None)  # type: ignore[arg-type]


def ends(differing: Mapping[str, int], number: int) -> FollowedCapture:
    made = []
    for place in range(number):
        done = {
            name: outcome(50 if place < count else 100, differs=place < count)
            for name, count in differing.items()
        }
        made.append(End(f"end {place}", 0, [], 30, 50, done))
    return FollowedCapture(cut=False, error=None, ends=made)


def test_the_order_of_the_options_of_a_syn_excludes_profiles(tmp_path: Path) -> None:
    # Too little for the ACKs to tell the profiles apart.
    quiet = {"link.loss": "0%", "app.duration": "100ms"}
    for profile, other in (("linux", "freebsd"), ("freebsd", "linux-6.1")):
        made = capture(tmp_path / profile / "run", {**quiet, "stack.profile": profile})
        ranked = {
            one["profile"]: one["disordered"]
            for one in json.loads(invoke("identify", made, "--json").stdout)["ranked"]
        }
        assert ranked["linux-6.1" if profile == "linux" else "freebsd"] == 0
        assert ranked[other] > 0
    alike = ends(dict.fromkeys(STACKS, 0), 1)
    [end] = alike.ends
    for name in ("freebsd", "freebsd-rack"):
        end.profiles[name] = replace(end.profiles[name], syn_order=False)
    found = identify(alike)
    assert (found.answer, found.names) == (Answer.FITS, ["linux-6.1", "linux-7.3", "linux-4.6"])
    assert found.why.endswith("the order of the options of its SYN is not that of freebsd and freebsd-rack")
    for name in STACKS:
        end.profiles[name] = replace(end.profiles[name], syn_order=False)
    found = identify(alike)
    assert (found.answer, found.why) == (Answer.NONE, "the options of its SYN are in an order of no profile")


def test_profiles_that_a_capture_does_not_tell_apart_are_all_named_and_two_ends_in_a_hundred_may_differ() -> (
    None
):
    few = dict.fromkeys(STACKS, 100) | {"freebsd": 0, "freebsd-rack": 2}
    found = identify(ends(few, 100))
    assert (found.answer, found.names) == (Answer.FITS, ["freebsd", "freebsd-rack"])
    found = identify(ends(dict.fromkeys(STACKS, 100) | {"linux-6.1": 3}, 100))
    assert (found.answer, found.names) == (Answer.NONE, [])
    assert found.why == "linux-6.1 goes furthest and differs in 3 of 100 ends"


def test_a_profile_of_which_next_to_nothing_was_judged_does_not_fit() -> None:
    stop = Stop(7, "the peer acknowledges data that the capture lacks")
    done = Outcome(1000, 6, 2, 0, 900, None, stop)
    made = [
        End("10.0.0.1:80 > 10.0.0.2:1000", 0, [], 800, 900, dict.fromkeys(STACKS, done)) for _ in range(4)
    ]
    found = identify(FollowedCapture(cut=False, error=None, ends=made))
    assert (found.answer, found.names) == (Answer.TOO_LITTLE, [])
    assert found.why == (
        "of 3200 ACKs without data only 8 could be judged; 10 are needed: "
        "the peer acknowledges data that the capture lacks"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--as", "freebsd", "--host", "192.0.2.99"),
            "`--host 192.0.2.99`: no TCP connection of the capture has this address",
        ),
        (
            ("--as", "linux-7.4"),
            "`--as linux-7.4`: there is no such profile; allowed are linux-6.1, linux-7.3, linux-4.6, ",
        ),
        (("--as", "freebsd", "--host", "here"), "`--host here`: it is not an IP address"),
        (
            ("--as", "freebsd", "--oracle", "ack-timing"),
            "`--as` is for captures, and excludes `--oracle` and `--junit`",
        ),
        (("--host", "10.0.0.1"), "`--host` and `--within` belong to `--as`"),
    ],
)
def test_wrong_options_give_one_message(linux: Path, options: tuple[str, ...], message: str) -> None:
    done = invoke("judge", linux, *options)
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)


def test_a_capture_that_ends_inside_a_packet_is_followed_up_to_there(linux: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng.gz"
    whole = linux.read_bytes()
    cut.write_bytes(gzip.compress(whole[: len(whole) // 2]))
    done = invoke("judge", cut, "--as", "linux-6.1", "--point", "receiver")
    assert done.exit_code == 0, done.output
    assert "note: the capture was not read to its end: the file ends inside a " in done.output
    assert "1 end followed, 1 to the end of the capture" in done.output


def test_a_capture_taken_elsewhere_is_not_followed_but_for_a_host_that_is_named(linux: Path) -> None:
    done = invoke("judge", linux, "--as", "linux-6.1", "--point", "receiver", "--host", "10.0.0.1")
    assert "not followed: " in done.output
    assert "it is not the end at which the capture was taken (`--host`)" in done.output
