"""Pairs of runs that differ in one setting: which degrade, and what explains it."""

import json
from pathlib import Path

import pytest

import folders
import tcpassay
from tcpassay.pairs import among, made
from tcpassay.pairs.relation import RELATIONS
from tcpassay.pairs.verdict import Verdict

RELATION = {relation.path: relation for relation in RELATIONS}


def verdicts(folder: Path, *runs: dict[str, object]) -> list[Verdict]:
    return among(tcpassay.load(folders.folder(folder / "made", list(runs))))


def goodput(mbit: float, **more: float) -> dict[str, float | None]:
    return {"goodput": mbit * 1e6, **more}


@pytest.mark.parametrize(
    ("path", "one", "other", "easier"),
    [
        ("link.delay", "10ms", "5000us", True),
        ("link.delay", "5ms", "10ms", False),
        ("link.loss", "1%", 0, True),
        ("link.loss", "0", "0", False),
        ("queue.limit", "30KB", "1MB", True),
        ("queue.limit", "30KB", "100p", False),
        ("queue.limit", "auto", "1MB", False),
    ],
)
def test_a_path_is_easier_with_less_delay_less_loss_or_a_larger_buffer(
    path: str, one: str, other: str | int, *, easier: bool
) -> None:
    assert RELATION[path].easier(one, other) is easier


def test_a_run_without_loss_that_delivers_less_is_named(tmp_path: Path) -> None:
    lossy = folders.run("aaaa000001", 1, goodput(20), link__loss="1%", stack__cc="reno")
    clean = folders.run("aaaa000002", 1, goodput(10), link__loss="0", stack__cc="reno")
    other = folders.run("aaaa000003", 1, goodput(1), link__loss="0", stack__cc="cubic")
    (one,) = verdicts(tmp_path, lossy, clean, other)
    assert (one.pair.setting, one.pair.before, one.pair.after) == ("link.loss", "1%", "0")
    assert (one.pair.case, one.pair.partner, one.ratio) == ("aaaa000001", "aaaa000002", 0.5)
    assert one.unexplained


def test_a_quarter_less_is_no_degradation(tmp_path: Path) -> None:
    small = folders.run("aaaa000001", 1, goodput(20), queue__limit="30KB")
    large = folders.run("aaaa000002", 1, goodput(15), queue__limit="1MB")
    (one,) = verdicts(tmp_path, small, large)
    assert not one.degraded


def test_more_timeouts_explain_a_degradation(tmp_path: Path) -> None:
    small = folders.run("aaaa000001", 1, goodput(20, timeouts=0), queue__limit="30KB")
    large = folders.run("aaaa000002", 1, goodput(5, timeouts=2), queue__limit="1MB")
    (one,) = verdicts(tmp_path, small, large)
    assert one.degraded
    assert not one.unexplained
    assert one.explanation == "more timeouts (0 to 2)"


def test_a_degradation_must_show_with_every_seed(tmp_path: Path) -> None:
    runs = [
        folders.run(case, seed, goodput(mbit), link__delay=delay)
        for case, delay, both in (("aaaa000001", "10ms", (20, 20)), ("aaaa000002", "5ms", (5, 19)))
        for seed, mbit in enumerate(both, 1)
    ]
    (one,) = verdicts(tmp_path, *runs)
    assert one.pair.seeds == (1, 2)
    assert not one.degraded


def test_model_and_kernel_are_compared_by_goodput_and_by_what_oracles_find(tmp_path: Path) -> None:
    model = folders.run("aaaa000001", 1, goodput(20), stack__cc="reno")
    kernel = folders.run("bbbb000001", 1, goodput(19), stack__cc="reno") | {"substrate": "kernel:6.1"}
    made_folder = folders.folder(tmp_path / "made", [model, kernel], [("late-ack", "bbbb000001", 1)])
    (one,) = among(tcpassay.load(made_folder))
    assert (one.pair.setting, one.pair.after, one.unexplained) == ("substrate", "kernel:6.1", True)
    assert one.pair.findings == ((), ("late-ack",))


def test_partners_are_made_with_half_the_delay_no_loss_and_four_times_the_buffer(tmp_path: Path) -> None:
    case = {"link.delay": "2ms", "link.loss": "1%", "queue.limit": "30KB", "link.rate": "100Mbit"}
    run = folders.run("aaaa000001", 1, goodput(20), **case) | {"triples": case | {"app.duration": "300ms"}}
    folder = tcpassay.load(folders.folder(tmp_path / "made", [run]))
    said: list[str] = []
    found = list(made(folder, most=1, seeds=1, watch=said.append))
    assert said == ["case 1 of 1"]
    assert [(one.pair.setting, one.pair.after) for one in found] == [
        ("link.delay", "1000000ns"),
        ("link.loss", "0"),
        ("queue.limit", "120000B"),
    ]
    lossless = found[1]
    assert lossless.ratio > 1.0
    assert not any(one.unexplained for one in found)
    assert json.dumps([one.as_json() for one in found])
