"""Comparison of two kernels: pairs, metrics, causes, first differences, and their output."""

import io
import os
import signal
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from folders import folder, run
from tcpassay.errors import UserError
from tcpassay.isolate.ran import Ran
from tcpassay.isolate.runner import Budget, ExhaustedError, Job
from tcpassay.kernel import store
from tcpassay.messages import Answer
from tcpassay.plan.model import PlanFile
from tcpassay.plan.read import read
from tcpassay.results import Results
from tcpassay.trees import Options, TreeComparison, examples
from tcpassay.trees import comparison as comparing
from tcpassay.trees.causes import Causes, Search, search_all
from tcpassay.trees.first import Packet, first_packets, packets_of
from tcpassay.trees.groups import Group
from tcpassay.trees.junit import junit
from tcpassay.trees.pairs import TreePair, beyond, pairs_of, shifts
from tcpassay.trees.show import show

BASE, HEAD = "kernel:base", "kernel:head"


def both(name: str, base: float, head: float, seed: int = 1, **settings: str) -> list[dict[str, Any]]:
    """A case on both kernels; the packets differ if the values do."""
    made = []
    for side, value in ((BASE, base), (HEAD, head)):
        one = run(f"{name}-{side[7:]}", seed, {"goodput": value, "lost": 0.0}, **settings)
        made.append(one | {"substrate": side, "trace": f"{name}{seed}{value}"})
    return made


TRIAL = [
    *both("a", 1.0, 1.0, stack__cc="reno", link__loss="1%"),
    *both("b", 1.0, 1.0, stack__cc="dctcp", link__loss="0"),
    *both("c", 1.0, 2.0, stack__cc="dctcp", link__loss="1%"),
    *both("c", 1.1, 2.2, 2, stack__cc="dctcp", link__loss="1%"),
]


def test_pairs_of_the_same_case_and_seed_are_identical_or_differ(tmp_path: Path) -> None:
    results = Results(folder(tmp_path / "r", TRIAL, [("late-ack", "c-head", 1), ("stall", "a-base", 1)]))
    found = pairs_of(results, BASE, HEAD)
    assert [(one.head["case"], one.seed, one.packets, one.metrics) for one in found] == [
        ("a-head", 1, False, ()),
        ("b-head", 1, False, ()),
        ("c-head", 1, True, ("goodput",)),
        ("c-head", 2, True, ("goodput",)),
    ]
    assert [(one.new, one.gone) for one in found] == [
        ((), ("stall",)),
        ((), ()),
        (("late-ack",), ()),
        ((), ()),
    ]
    assert [one.differs for one in found] == [True, False, True, True]


def test_a_pair_of_which_one_run_crashed_differs(tmp_path: Path) -> None:
    runs = both("a", 1.0, 1.0)
    runs[1] |= {"outcome": "crashed", "metrics": {}, "trace": ""}
    (found,) = pairs_of(
        Results(folder(tmp_path / "r", [*runs, *both("b", 1, 1, link__loss="1%")])), BASE, HEAD
    )[:1]
    assert found.packets
    assert found.metrics == ("goodput", "lost")


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ((1.0, 1.2), (1.3, 1.4), True),
        ((1.0, 1.2), (1.1, 1.4), False),
        ((1.0, 1.2), (1.25, 1.4), False),
        ((5.0, 6.0), (0.0, 1.0), True),
        ((0.0, 0.0), (0.0, 0.0), False),
        ((0.0, 0.0), (3.0, 4.0), True),
    ],
)
def test_a_metric_differs_if_it_is_beyond_all_seeds_by_five_percent(
    base: tuple[float, ...], head: tuple[float, ...], *, expected: bool
) -> None:
    assert beyond(base, head) is expected


def test_metrics_are_judged_only_where_several_seeds_show_the_variation(tmp_path: Path) -> None:
    results = Results(folder(tmp_path / "r", [*TRIAL, *both("d", 1.0, 9.0, link__loss="2%")]))
    found = shifts(results, pairs_of(results, BASE, HEAD))
    assert [(one.case, one.metric, one.base, one.head) for one in found] == [
        ("c-head", "goodput", (1.0, 1.1), (2.0, 2.2))
    ]
    assert found[0].change == 2.0


class Fake:
    """Runs of two kernels of which the second ignores losses with dctcp, or both panic without a controller."""

    jobs = 2

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self.runs: dict[str, Ran] = {}

    def known(self, key: str) -> Ran | None:
        return self.runs.get(key)

    def run(self, jobs: Sequence[Job]) -> list[Ran]:
        for job in jobs:
            if job.key not in self.runs and len(self.runs) >= self.most:
                raise ExhaustedError
            said = job.request.triples
            faulty = job.key.endswith("-1") and said.get("stack.cc") == "dctcp" and "link.loss" in said
            trace = "fault" if faulty else "same"
            self.runs[job.key] = Ran("done", "", trace, frozenset(), 0.1)
        return [self.runs[job.key] for job in jobs]


def tree_pair(**triples: str) -> TreePair:
    said = {name.replace("__", "."): value for name, value in triples.items()}
    one = {"case": "c", "seed": 1, "triples": said, "varied": said, "outcome": "done"}
    return TreePair(one, one, packets=True, metrics=(), new=(), gone=())


DCTCP = {"stack__cc": "dctcp", "stack__ecn": "dctcp", "link__loss": "1%", "app__duration": "300ms"}


def searched(runner: Fake, *different: TreePair) -> Causes:
    where = Search(Path(), ".", ("model", "model"), PlanFile(name="x"), 1, Budget())
    made = Causes(left=list(different))
    search_all(where, runner, [tree_pair(stack__cc="reno")], made)  # type: ignore[arg-type]
    return made


def test_the_cause_is_the_smallest_set_of_settings_and_each_is_proven_by_resetting_it() -> None:
    pairs = [
        tree_pair(**DCTCP, app__flows="4", nic__tso="true"),
        tree_pair(**DCTCP, link__delay="3ms"),
    ]
    made = searched(Fake(), *pairs)
    (cause,) = made.found
    assert cause.text == "link.loss=1%, stack.cc=dctcp, stack.ecn=dctcp"
    assert cause.complete
    assert cause.explains == pairs
    assert {(row.triple.path, row.gone) for row in cause.proof} >= {("link.loss", True), ("stack.cc", True)}
    assert made.left == []


def test_without_budget_the_smallest_set_so_far_is_reported_as_such() -> None:
    made = searched(Fake(most=6), tree_pair(**DCTCP, app__flows="4", nic__tso="true", link__delay="3ms"))
    assert made.stopped == "the budget is used up"
    assert [one.complete for one in made.found] in ([False], [])


def test_pairs_that_do_not_differ_again_have_no_cause() -> None:
    pairs = [tree_pair(stack__cc="reno", app__flows="2"), tree_pair(**DCTCP)]
    made = searched(Fake(), *pairs)
    assert [one.explains for one in made.found] == [[pairs[1]]]
    assert made.left == [pairs[0]]


def packet(time: int, seq: int, flags: int = 0x10, mark: int = 0) -> Packet:
    tcp = struct.pack("!2H2I2BHHH", 4000, 80, seq, 7, 8 << 4, flags, 512, 0, 0)
    tcp += bytes([1, 1, 5, 10]) + struct.pack("!2I", 11, 22)
    ip = struct.pack("!2BHHHBBH4s4s", 0x45, mark, 20 + len(tcp) + 100, 0, 0, 64, 6, 0, bytes(4), bytes(4))
    return Packet(time, 0, ip + tcp)


def test_the_first_packet_that_differs_is_shown_with_those_before_and_after() -> None:
    base = [packet(1_000_000 * n, n) for n in range(6)]
    head = [*base[:4], packet(4_000_000, 3, 0x18, 3), *base[5:]]
    found = first_packets(base, head, ["sender"])
    assert found is not None
    assert found.same == 4
    assert len(found.before) == 3
    assert found.base[0] == "4 ms at sender: 4000 > 80 ACK seq 4 ack 7 len 100 win 512 <sack 11 22>"
    assert found.head[0] == "4 ms at sender: 4000 > 80 PSH|ACK seq 3 ack 7 len 100 win 512 <sack 11 22> CE"
    assert first_packets(base, base, ["sender"]) is None


def test_a_run_that_ends_earlier_differs_at_its_end() -> None:
    base = [packet(n, n) for n in range(3)]
    found = first_packets(base, base[:2], [])
    assert found is not None
    assert (found.same, len(found.base), found.head) == (2, 1, ())


def test_packets_of_a_capture_have_their_times_in_ns() -> None:
    content = packet(0, 1).content
    block = struct.pack("<7I", 6, 32 + len(content), 0, 1, 5, len(content), len(content))
    block += content + struct.pack("<I", 32 + len(content))
    assert list(packets_of(block)) == [Packet((1 << 32) + 5, 0, content)]


def kernel(name: str, *patches: str) -> store.Kernel:
    return store.Kernel(name, "6.1", "tree", "k", "now", 1.0, list(patches), [], [])


PLAN = 'name = "x"\n[axes]\n"stack.cc" = ["reno", "cubic"]\n'


def compared(path: Path, runs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> TreeComparison:
    monkeypatch.setattr(examples, "again", lambda *_, **__: Answer("failed"))
    kernels = kernel("base", "0001"), kernel("head")
    options = Options(budget=Budget(runs=0))
    plan = read(PLAN, path / "plan.toml")
    return comparing.evaluate(kernels, plan, Results(folder(path / "r", runs)), options, 0, lambda _: None)


def printed(told: TreeComparison) -> str:
    out = io.StringIO()
    show(told, Console(file=out, width=200))
    return out.getvalue()


def test_an_interrupted_search_for_causes_leaves_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> list[Group]:
        os.kill(os.getpid(), signal.SIGINT)
        return []

    monkeypatch.setattr(comparing, "grouped", interrupted)
    told = compared(tmp_path, TRIAL, monkeypatch)
    assert told.interrupted
    assert told.different
    assert "interrupted: the result so far; `--resume` continues" in printed(told)
    assert f"{len(told.different)} different" in printed(told)
    assert told.as_json()["stopped"] == "interrupted"


def test_a_comparison_whose_runs_were_interrupted_searches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "causes", lambda *_: pytest.fail("a search"))
    kernels = kernel("base"), kernel("head")
    results = Results(folder(tmp_path / "r", [one | {"outcome": "not run", "metrics": {}} for one in TRIAL]))
    plan = read(PLAN, tmp_path / "plan.toml")
    told = comparing.evaluate(kernels, plan, results, Options(), 3, lambda _: None, interrupted=True)
    assert (told.pairs, told.interrupted) == ([], True)
    assert "No pair of runs has ended." in printed(told)


def test_no_difference_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = compared(tmp_path, TRIAL[:4], monkeypatch)
    assert told.different == []
    assert "No difference in 2 cases (2 pairs of runs)." in printed(told)
    assert "patches of tcpassay that only one of the kernels has: 0001" in printed(told)
    suite = ET.fromstring(junit(told))[0]  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")


def test_differences_are_shown_with_what_separates_them_and_the_commands_that_repeat_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = compared(tmp_path, TRIAL, monkeypatch)
    text = printed(told)
    assert "4 pairs of runs: 2 identical, 2 different" in text
    assert "settings of the different pairs: stack.cc=dctcp, link.loss=1% (2 of 2 runs with that)" in text
    assert "goodput differs by more than between seeds in 1 case; most in c-head" in text
    assert "2 pairs without a cause (no budget)" in text
    assert f"tcpassay replay {tmp_path}/r c-head --seed 1" in text
    suite = ET.fromstring(junit(told))[0]  # noqa: S314 - our own
    failures = [case.find("failure") for case in suite]
    assert [None if one is None else one.get("message") for one in failures] == [
        None, None, "the kernels differ in packets and metrics", "the kernels differ in packets and metrics",
    ]  # fmt: skip
    said = told.as_json()
    assert (said["pairs"], said["identical"]) == (4, 2)


def test_one_kernel_is_not_compared_with_itself() -> None:
    with pytest.raises(UserError, match=r"`6\.1` is given twice; give two kernels"):
        comparing.read_plan(None, "6.1", "6.1")
