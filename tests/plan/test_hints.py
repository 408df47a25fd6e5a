"""Hints for names, units and words that people type."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.plan import read


def said(tmp_path: Path, line: str) -> str:
    file = tmp_path / "plan.toml"
    file.write_text(f'name = "typed"\n{line}\n', encoding="utf-8")
    with pytest.raises(UserError) as refused:
        read.read_file(file)
    return "\n".join(problem.message for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ('"link.rate" = "1 Gbit/s"', "write `1Gbit`"),
        ('"link.rate" = "1Gbps"', "write `1Gbit`"),
        ('"link.rate" = "100 mbps"', "write `100Mbit`"),
        ('"app.duration" = "50 ms"', "write `50ms`"),
        ('"app.duration" = "5 seconds"', "write `5s`"),
        ('"queue.limit" = "100kb"', "write `100KB`"),
        ('"queue.limit" = "100 packets"', "write `100p`"),
        ('"stack.cc" = "BBR"', "did you mean `bbr`?"),
        ('"stack.cc" = "cubik"', "did you mean `cubic`?"),
        ('"link.bandwidth" = "1Gbit"', "did you mean `link.rate`?"),
        ('"link.rtt" = "10ms"', "did you mean `link.delay` (in one direction: half of the round-trip time)?"),
        ('"queue.size" = "1MB"', "did you mean `queue.limit`?"),
        ('"sender/stack.controller" = "reno"', "did you mean `sender/stack.cc`?"),
    ],
)
def test_what_people_type_has_a_hint_with_what_to_write(typed: str, hint: str, tmp_path: Path) -> None:
    assert said(tmp_path, f"[fixed]\n{typed}").endswith(f"; {hint}")


def test_a_unit_of_another_kind_is_no_hint(tmp_path: Path) -> None:
    assert "write" not in said(tmp_path, '[fixed]\n"link.rate" = "10 ms"')


def test_a_part_of_several_names_suggests_several(tmp_path: Path) -> None:
    assert said(tmp_path, 'metrics = ["p99"]').endswith(
        "did you mean `one_way_p99`, `rtt_p99`, `queue_delay_p99`, `completion_p99` or 6 others?"
    )


def test_an_allowed_word_that_contradicts_another_setting_has_no_hint(tmp_path: Path) -> None:
    assert "did you mean" not in said(tmp_path, '[fixed]\n"stack.cc" = "dctcp"')


@pytest.mark.parametrize("limit", ['case_time = "0s"', 'case_memory = "0B"', 'time = "0min"'])
def test_a_limit_with_which_no_run_can_complete_is_refused(limit: str, tmp_path: Path) -> None:
    name, value = limit.replace('"', "").split(" = ")
    assert said(tmp_path, f"[limits]\n{limit}") == (
        f"`limits.{name}` = `{value}`: no run can complete; give more than 0"
    )


def test_the_label_of_a_case_has_the_addresses_of_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        'name = "p"\n[fixed]\ntopology = "dumbbell:2"\n[axes]\n"sender1/stack.cc" = ["reno", "cubic"]\n',
        encoding="utf-8",
    )
    assert [case.label for case in read.read_file(file).cases] == ["sender1/cc=reno", "sender1/cc=cubic"]


def test_the_entities_of_a_topology_are_listed_to_the_last(tmp_path: Path) -> None:
    text = said(tmp_path, '[fixed]\ntopology = "dumbbell:2"\n"sender5/stack.cc" = "cubic"')
    assert "this topology has no entity `sender5`; it has " in text
    assert "sender0" in text
    assert "sender1" in text
