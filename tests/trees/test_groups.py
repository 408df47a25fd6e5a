"""Groups of pairs by the first event that differs, and scripts that tell two kernels apart."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from test_trees import TRIAL, compared, printed, tree_pair
from typer.testing import CliRunner

from plans import STALL, write
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.interface import EventsColumn
from tcpassay.recording import Recording
from tcpassay.results import load
from tcpassay.script.model import answer
from tcpassay.script.report import Packetdrill, Report
from tcpassay.trees import comparison, examples, scripts
from tcpassay.trees.causes import TreeCause
from tcpassay.trees.examples import Example, Script
from tcpassay.trees.first import First, first
from tcpassay.trees.groups import Group, Kind, first_rows, groups, kind_of, row_words
from tcpassay.trees.junit import junit
from tcpassay.trees.pairs import TreePair
from tcpassay.trees.scripts import PairScript


def log(*rows: dict[str, int | str]) -> pl.DataFrame:
    columns = {
        name: pl.Series(name, [row.get(name) for row in rows], dtype=pl.String if name in {"kind", "why"} else pl.Int64)
        for name in map(str, EventsColumn)
    }  # fmt: skip
    return pl.DataFrame(columns)


SYN = {"time_ns": 0, "kind": "out", "flags": 2, "window_bytes": 64240, "value_ns": 7}
DATA = {"time_ns": 5, "kind": "out", "flags": 16, "len": 1000, "window_bytes": 64256}
PROBE = {"time_ns": 9, "kind": "window", "why": "", "cwnd_bytes": 14480}


WRITE = {"time_ns": 4, "kind": "app", "why": "write", "value_ns": 1000}


def found(*logs: pl.DataFrame) -> tuple[tuple[str, ...], object, object] | None:
    """What differs before, and the times of the first rows that differ."""
    rows = first_rows(*logs)
    if rows is None:
        return None
    return rows.quiet, *(None if one is None else one["time_ns"] for one in (rows.base, rows.head))


def test_a_timestamp_of_a_segment_is_random_and_no_difference() -> None:
    assert found(log(SYN, DATA), log(SYN | {"value_ns": 99}, DATA)) is None


def test_a_value_of_another_event_is_a_difference() -> None:
    rtt = {"time_ns": 3, "kind": "rtt", "value_ns": 7}
    assert found(log(SYN, rtt), log(SYN, rtt | {"value_ns": 8})) == ((), 3, 3)


def test_advertised_windows_are_compared_apart_from_everything_else() -> None:
    larger = DATA | {"window_bytes": 65000}
    later = PROBE | {"time_ns": 11, "cwnd_bytes": 15928}
    windows = ("advertised windows",)
    assert found(log(SYN, DATA, PROBE), log(SYN, larger, PROBE)) == (windows, None, None)
    assert found(log(SYN, DATA, PROBE), log(SYN, larger, later)) == (windows, 9, 11)
    assert found(log(SYN, DATA, PROBE), log(SYN, DATA)) == ((), 9, None)
    # A window that differs afterwards is not named.
    assert found(log(SYN, PROBE, DATA), log(SYN, later, larger)) == ((), 9, 11)


def test_a_row_is_shown_with_its_time_its_host_and_its_numbers() -> None:
    row = {
        "time_ns": 1_500_000,
        "host": 1,
        "kind": "out",
        "why": "ECT",
        "seq": 7,
        "len": 5,
        "flags": 16,
        "value_ns": 3,
    }
    assert row_words(row, ["a", "b"]) == "1.5 ms, b: data is sent, position 7, length 5"
    assert row_words(None, []) == "no further event"


def test_psh_flags_and_writes_of_applications_are_compared_apart() -> None:
    pushed = DATA | {"flags": 24}
    assert found(log(SYN, DATA), log(SYN, pushed)) == (("PSH flags",), None, None)
    assert found(log(SYN, DATA), log(SYN, DATA | {"flags": 17})) == ((), 5, 5)
    assert found(log(SYN, WRITE, DATA), log(SYN, DATA)) == (("writes of applications",), None, None)
    assert found(log(SYN, WRITE, DATA, PROBE), log(SYN, DATA)) == (("writes of applications",), 9, None)


def test_the_first_state_of_an_accepted_connection_is_not_compared() -> None:
    first = {"time_ns": 2, "kind": "state", "why": "Listen->SynReceived"}
    established = {"time_ns": 2, "kind": "state", "why": "SynReceived->Established"}
    assert found(log(SYN, DATA), log(SYN, first, DATA)) is None
    assert found(log(SYN, DATA), log(SYN, established, DATA)) == ((), 5, 2)


def test_the_largest_group_comes_first_with_the_settings_that_only_its_pairs_have() -> None:
    late, other = Kind("data is sent: time", ("advertised windows",)), Kind("ACK is sent: time")
    pairs = [
        tree_pair(stack__cc="reno", link__loss="0"),
        tree_pair(stack__cc="cubic", link__loss="0"),
        tree_pair(stack__cc="reno", link__loss="1%"),
        tree_pair(stack__cc="cubic", link__loss="1%"),
    ]
    made = groups([(pairs[0], other), (pairs[2], late), (pairs[3], Kind(late.text))], [pairs[1]])
    assert [(one.kind, len(one.pairs)) for one in made] == [(late.text, 2), (other.text, 1)]
    assert made[0].separation.text == "link.loss=1% (2 of 2 runs with that)"
    assert made[0].words == "data is sent: time (before it: advertised windows)"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Recording]]:
    """Recordings of a receiver that forgets an ACK and of one that does not."""
    home = tmp_path_factory.mktemp("recorded")
    text = STALL.replace('recordings = "none"', 'recordings = "all"\n[collect]\nevents = true')
    text = text.replace('"linux-4.6"', '"linux"\n"stack.timestamps" = false').replace("500ms", "250ms")
    out = home / "out"
    ran = ["run", str(write(home, text)), "--out", str(out), "--jobs", "1"]
    CliRunner().invoke(app, ran, catch_exceptions=False)
    results = load(out)
    by_receiver = {str(run["triples"]["stack.dctcp_receiver"]): run for run in results.runs}
    order = [by_receiver["clear-timer"], by_receiver["rearm"]]
    return home, [Recording.open(results.place_of(run)) for run in order]


def test_the_kind_of_a_difference_names_the_event_and_is_none_for_equal_runs(
    recorded: tuple[Path, list[Recording]],
) -> None:
    base, head = recorded[1]
    assert kind_of(base, base) is None
    assert kind_of(base, head) == Kind("ack_forget (CeChange) on base, ack_now (EveryN) on head")


def test_the_first_decisions_that_differ_are_shown_with_their_times(
    recorded: tuple[Path, list[Recording]],
) -> None:
    base, head = recorded[1]
    found = first(base.folder, head.folder).decisions
    assert found is not None
    assert [text.partition(": ")[2].partition(" (")[0] for text in found] == ["ack_forget", "ack_now"]
    assert found[0].partition(",")[0] == found[1].partition(",")[0]
    assert first(base.folder, base.folder).decisions is None


def stack(receiver: str) -> scripts.Run:
    """The model with one of the receivers takes the place of a kernel."""

    def run(texts: Sequence[str]) -> list[Report]:
        changed = [text.replace("echo 1 >", f"echo {receiver} >") for text in texts]
        return [answer(Packetdrill(text, "linux", loose=True, options=scripts.OPTIONS)) for text in changed]

    return run


def test_the_script_of_a_difference_passes_on_the_first_and_fails_on_the_second_in_its_last_line(
    recorded: tuple[Path, list[Recording]],
) -> None:
    home, (base, head) = recorded
    triples = load(home / "out").runs[0]["triples"] | {"stack.dctcp_receiver": "clear-timer"}
    pair = scripts.Pair(base, head, triples, str(home), "Two stacks differ.")
    made = scripts.script_of(pair, stack("1"), stack("2"))
    assert (made.host, made.base["status"]) == ("receiver", "pass")
    assert made.head["status"] in {"fail", "time"}
    lines = made.text.rstrip("\n").split("\n")
    assert made.head["line"] == len(lines)
    assert lines[1] == "// Two stacks differ."
    assert len(lines) < 150


def test_a_script_that_passes_on_both_kernels_is_none(recorded: tuple[Path, list[Recording]]) -> None:
    home, (base, head) = recorded
    triples = load(home / "out").runs[0]["triples"] | {"stack.dctcp_receiver": "clear-timer"}
    pair = scripts.Pair(base, head, triples, str(home), "Two stacks differ.")
    with pytest.raises(UserError, match="passes on both kernels, or on neither"):
        scripts.script_of(pair, stack("1"), stack("1"))
    with pytest.raises(
        UserError,
        match="without timestamps, which a script does not have, the decisions of the stacks are identical",
    ):
        scripts.script_of(scripts.Pair(base, base, triples, str(home), ""), stack("1"), stack("1"))


class Maker:
    """Makes an example with a script, without runs."""

    def __init__(self, pair: TreePair, script: Script) -> None:
        self.pair, self.script = pair, script

    def made(self, cause: TreeCause | None, group: Group | None) -> Example:
        found = First(None, None, ("1 ms, sender: data is sent", "2 ms, sender: data is sent"), "not run")
        return Example(self.pair, cause, group, found, ("replay 1", "replay 2"), ("a", "b"), self.script, "")


def test_groups_and_scripts_are_in_the_output_the_json_and_the_junit_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Kind("data is sent: time", ("advertised windows",))
    monkeypatch.setattr(
        comparison, "grouped", lambda _, __, different, *___: groups([(one, late) for one in different])
    )
    report: Report = answer(Packetdrill("nonsense", "linux", loose=True, options=()))
    made = PairScript("receiver", "// one\n// two\n", report | {"status": "pass"}, report | {"line": 2})
    monkeypatch.setattr(
        examples, "_Maker", lambda _, __, pair, ___: Maker(pair, Script(tmp_path / "difference.pkt", made))
    )
    told = compared(tmp_path, TRIAL, monkeypatch)
    assert [len(one.pairs) for one in told.groups] == [2]
    said = told.as_json()["groups"]
    assert said == [
        {
            "kind": "data is sent: time",
            "before": ["advertised windows"],
            "separation": told.groups[0].separation.text,
            "smallest": None,
            "pairs": [{"case": "c-head", "seed": 1}, {"case": "c-head", "seed": 2}],
        }
    ]
    text = printed(told)
    assert "Group 1, first difference: data is sent: time (before it: advertised windows)" in text
    assert "apart from advertised windows, PSH flags and writes" in text
    assert "head: 2 ms, sender: data is sent" in text
    assert f"packetdrill script of receiver, 2 lines: {tmp_path}/difference.pkt" in text
    xml = junit(told)
    assert xml.count("first difference: data is sent: time") == 2
    assert xml.count(f"packetdrill script: {tmp_path}/difference.pkt") == 1
