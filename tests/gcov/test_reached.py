"""The code reached by several runs, as tables, lcov and groups of unreached lines, with literal sources."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from tcpassay.errors import UserError
from tcpassay.gcov import reasons
from tcpassay.gcov.catalogue import Branch, Catalogue, File, Function
from tcpassay.gcov.lcov import lcov
from tcpassay.gcov.reached import Reach, reach_of, require
from tcpassay.gcov.show import show
from tcpassay.result_format import RunRow

INPUT = File(
    "net/ipv4/tcp_input.c",
    (Function("tcp_ack", 1, 5), Function("tcp_md5", 6, 9)),
    (1, 2, 3, 4, 7, 8),
    (Branch(2, "tcp_ack", 0), Branch(2, "tcp_ack", 1), Branch(7, "tcp_md5", 0), Branch(7, "tcp_md5", 1)),
)
FIFO = File("net/sched/sch_fifo.c", (Function("enqueue", 1, 3),), (2, 3), ())
TOOL = Path(__file__).parents[2] / "tools" / "kernel_coverage.py"
CATALOGUE = Catalogue((INPUT, FIFO))


def bits(*, lines: tuple[int, ...] = (), branches: tuple[int, ...] = (), fifo: bool = False) -> int:
    """A set with lines by number and branches by place of the first file, and the other file as a whole."""
    made = sum(1 << CATALOGUE.start(INPUT, "lines") + INPUT.lines.index(line) for line in lines)
    made |= sum(1 << CATALOGUE.start(INPUT, "branches") + place for place in branches)
    made |= 1 << CATALOGUE.start(INPUT, "functions")
    return made | (CATALOGUE.mask(FIFO, "lines") | CATALOGUE.mask(FIFO, "functions") if fifo else 0)


def runs() -> list[RunRow]:
    rows = [
        ("a", 1, bits(lines=(1, 2, 3), branches=(0,))),
        ("a", 2, bits(lines=(1, 2), branches=(0,))),
        ("b", 1, bits(lines=(1, 2, 4), branches=(0, 1), fifo=True)),
    ]
    made: list[RunRow] = [
        {
            "case": case,
            "seed": seed,
            "substrate": "kernel:cov",
            "varied": {"stack.cc": case, "substrate": "kernel:cov"},
            "covered": CATALOGUE.encode(reached),
        }
        for case, seed, reached in rows
    ]
    return [*made, {"case": "c", "seed": 1, "substrate": "kernel:cov", "outcome": "crashed"}]


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    (tmp_path / "coverage").mkdir()
    (tmp_path / "coverage" / "cov.json").write_text(CATALOGUE.as_text())
    return require(tmp_path, runs(), "made")


def test_runs_together_reach_what_one_of_them_reaches(reach: Reach) -> None:
    assert [reach.amounts(INPUT, kind) for kind in ("lines", "branches", "functions")] == [
        (4, 6),
        (2, 4),
        (1, 2),
    ]
    assert reach.amounts(FIFO, "lines") == (2, 2)
    assert reach.unreached(INPUT) == [7, 8]
    assert reach.uncounted == 1


def test_a_case_has_all_its_seeds_and_what_no_case_before_it_reached(reach: Reach) -> None:
    said = [
        (one.case, one.label, reach.total("lines", one.bits), reach.total("lines", one.new))
        for one in reach.cases
    ]
    assert said == [("a", "cc=a", 3, 3), ("b", "cc=b", 5, 3)]


def test_json_has_files_cases_and_unreached_lines(reach: Reach) -> None:
    said = json.loads(json.dumps(reach.as_json()))
    assert said["files"][0] == {
        "file": "net/ipv4/tcp_input.c",
        "lines": {"reached": 4, "of": 6},
        "branches": {"reached": 2, "of": 4},
        "functions": {"reached": 1, "of": 2},
        "unreached": [7, 8],
    }
    assert [(one["case"], one["new_lines"], one["new_branches"]) for one in said["cases"]] == [
        ("a", 3, 1),
        ("b", 3, 1),
    ]


def test_lcov_counts_the_runs(reach: Reach) -> None:
    assert lcov(reach).split("end_of_record\n")[0].splitlines() == [
        "TN:", "SF:net/ipv4/tcp_input.c", "FN:1,tcp_ack", "FN:6,tcp_md5", "FNDA:3,tcp_ack", "FNDA:0,tcp_md5", "FNF:2",
        "FNH:1", "BRDA:2,0,0,3", "BRDA:2,0,1,1", "BRDA:7,0,0,-", "BRDA:7,0,1,-", "BRF:4", "BRH:2", "DA:1,3", "DA:2,3",
        "DA:3,1", "DA:4,1", "DA:7,0", "DA:8,0", "LF:6", "LH:4",
    ]  # fmt: skip
    assert "SF:/src/net/sched/sch_fifo.c\n" in lcov(reach, Path("/src"))


def test_the_tables_fit_into_80_columns(reach: Reach) -> None:
    console = Console(width=80, record=True)
    show(reach, "6.1.192-tcpassay", console, cases=True)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "ipv4/tcp_input.c" in text
    assert "4 of 6  66 %" in text
    assert "1 runs did not end" in text


def test_runs_without_counters_are_an_error_with_what_to_do(tmp_path: Path) -> None:
    rows: list[RunRow] = [{"case": "a", "seed": 1, "substrate": "kernel"}]
    assert reach_of(tmp_path, rows, "made") == []
    with pytest.raises(UserError, match="kernel build --coverage"):
        require(tmp_path, rows, "made")


SOURCE = """static int tcp_close(struct sock *sk)
{
	if (tp->repair) {
		forget(sk);
	} else if (tcp_skb_pull(sk) &&
			sk->urg_data) {
		urgent(sk);
	}
	switch (state) {
	case TCP_CLOSE:
		if (!skb)
			return 7;
		simple(sk);
	}
	return 0;
}
""".splitlines()


@pytest.mark.parametrize(
    ("line", "reason"),
    [(4, "repair"), (7, "urgent"), (12, "memory"), (13, "reachable"), (15, "reachable")],
)
def test_a_line_is_in_the_group_of_the_conditions_around_it(line: int, reason: str) -> None:
    file = File("net/ipv4/tcp.c", (Function("tcp_shut", 1, 16),), (line,), ())
    (group,) = reasons.group(file, SOURCE, [line])
    assert (group.name, group.lines) == (reason, (line,))


def test_a_line_is_in_the_group_of_its_function_and_md5_and_repair_are_out_of_reach() -> None:
    file = File("net/ipv4/tcp.c", (Function("tcp_md5_do_add", 1, 16),), (13, 15), ())
    (group,) = reasons.group(file, SOURCE, [13, 15])
    assert group.name == "md5"
    assert reasons.out_of_reach(file, SOURCE) == [13, 15]
    plain = File("net/ipv4/tcp.c", (Function("tcp_shut", 1, 16),), (4, 7, 13), ())
    assert reasons.out_of_reach(plain, SOURCE) == [4]


@pytest.fixture
def tool() -> ModuleType:
    """The module that draws the tables of the document."""
    spec = importlib.util.spec_from_file_location("kernel_coverage", TOOL)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_function_of_a_line_is_that_of_the_definition_above_it(tool: ModuleType) -> None:
    source = [
        "int x;",
        "static void first(int a,",
        "\t\t  int b)",
        "{",
        "\tcall(a);",
        "out:",
        "\tcall(b);",
        "}",
    ]
    assert [tool.enclosing(source, line) for line in (1, 5, 7)] == ["?", "first", "first"]


def test_the_document_lists_files_in_the_order_of_its_columns(tool: ModuleType) -> None:
    names = ("tcp_timer", "tcp_input")
    files = tuple(replace(INPUT, name=f"net/ipv4/{name}.c") for name in sorted(names))
    document = SimpleNamespace(catalogue=Catalogue(files))
    assert [file.name for file in tool.Document.files(document, names)] == [
        "net/ipv4/tcp_timer.c",
        "net/ipv4/tcp_input.c",
    ]
