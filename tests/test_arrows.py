"""The allowed dependencies between crates, and between the parts of the Python package."""

import ast
import json
import re
import subprocess
import tomllib
from functools import cache

import plans

PACKAGE = plans.REPOSITORY / "python" / "tcpassay"

# All crates that each crate may depend on.
ARROWS = {
    "units": set(),
    "states": set(),
    "wire": {"units"},
    "cc": {"units"},
    "tcp": {"units", "states", "wire", "cc"},
    "workload": {"units"},
    "measure": {"units", "states", "wire"},
    "case": {"units", "cc", "tcp", "workload", "measure"},
    "stack": {"units", "wire"},
    "sim": {"units", "wire", "cc", "tcp", "workload", "measure", "case", "stack"},
    "script": {"units", "wire", "cc", "tcp", "stack"},
    "linux": set(),
    "bpf": {"units", "states", "cc"},
    "messages": {"case", "measure"},
    "agent": {
        "linux",
        "case",
        "script",
        "tcp",
        "cc",
        "bpf",
        "workload",
        "measure",
        "messages",
        "units",
        "wire",
    },
    "capture": {"units", "states", "wire"},
    "judge": {"units", "wire", "cc", "tcp", "case", "measure", "capture"},
    "follow": {"units", "wire", "capture", "cc", "tcp", "case", "measure", "judge"},
    "python": {
        "case",
        "cc",
        "sim",
        "stack",
        "script",
        "tcp",
        "judge",
        "follow",
        "measure",
        "messages",
        "units",
        "capture",
    },
}

# Further crates that the tests of a crate may depend on: those of scripts compare the knobs of Linux with their
# declarations, those of oracles run cases whose hosts do not do what they say.
TESTED_WITH = {"script": {"case"}, "judge": {"sim"}, "follow": {"sim"}}

# What the Rust crates declare, generated for Python, and the forms of messages and results: every module may use them.
DECLARED = {"interface", "reasons", "messages", "finding", "result_format", "recording_format"}

# Deterministic crates must not use libraries with a clock, threads, network access or unordered maps.
PURE = {"arrayvec", "libm", "rand_core", "rand_distr", "rand_xoshiro", "thiserror", "etherparse", "strum"}


@cache
def packages() -> dict[str, list[dict[str, str]]]:
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"]
    out = subprocess.run(command, cwd=plans.REPOSITORY, check=True, capture_output=True, text=True).stdout
    made = json.loads(out)["packages"]
    return {package["name"].removeprefix("tcpassay-"): package["dependencies"] for package in made}


def test_what_rust_declares_needs_nothing_of_the_package() -> None:
    assert imports("interface") == set()
    assert imports("reasons") == {"_native"}


def test_the_workspace_has_these_crates_and_each_has_a_list_of_allowed_dependencies() -> None:
    assert set(packages()) == set(ARROWS)


def test_a_crate_depends_only_on_the_allowed_crates() -> None:
    for crate, dependencies in packages().items():
        for d in dependencies:
            if d["name"].startswith("tcpassay-"):
                allowed = ARROWS[crate] | (TESTED_WITH.get(crate, set()) if d["kind"] == "dev" else set())
                assert d["name"].removeprefix("tcpassay-") in allowed, f"{crate} must not know {d['name']}"


def test_a_controller_cannot_see_the_sender_because_cc_depends_on_units_alone() -> None:
    assert [d["name"] for d in packages()["cc"] if d["kind"] is None] == ["tcpassay-units"]


def test_controllers_stack_and_workloads_depend_on_no_clock_and_no_io() -> None:
    for crate in ("units", "states", "wire", "cc", "tcp", "workload"):
        foreign = {
            d["name"]
            for d in packages()[crate]
            if d["kind"] is None and not d["name"].startswith("tcpassay-")
        }
        assert foreign <= PURE, f"{crate} uses {foreign - PURE}"


def test_each_crate_with_examples_in_its_documentation_runs_them() -> None:
    for manifest in (PACKAGE.parents[1] / "crates").glob("*/Cargo.toml"):
        if tomllib.loads(manifest.read_text(encoding="utf-8")).get("lib", {}).get("doctest") is not False:
            continue
        for file in (manifest.parent / "src").rglob("*.rs"):
            fences = re.findall(r"^\s*//[/!] ```(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert all(word in {"text", "toml", "console"} for word in fences[::2]), f"{file}: {fences}"


def imports(part: str) -> set[str]:
    """The parts of the package that the modules of `part` import."""
    found = set()
    for file in (PACKAGE / part).rglob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / f"{part}.py"]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcpassay"):
                parts = (node.module or "").split(".")
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found - {part, "__version__"} - DECLARED


def test_plans_do_not_depend_on_running_and_drawing() -> None:
    # `cover` and `search` for the cases that a strategy chooses, `judge` for names of oracles, `substrate` to have
    # cases checked, `script.files` for the profile that a script names, `plural` for words.
    assert imports("plan") <= {
        "_native",
        "errors",
        "cover",
        "judge",
        "plural",
        "regular",
        "script",
        "search",
        "substrate",
    }


def test_the_substrate_host_does_not_depend_on_guests_and_on_building_kernels() -> None:
    # What both share is `substrate.agent`.
    known = imports("substrate/host")
    assert "agent_program" in (PACKAGE / "substrate" / "host.py").read_text(encoding="utf-8")
    # Object files of engines are loaded from copies of `trust`, with consent.
    assert known == {"errors", "substrate", "trust"}
    assert "substrate.kernel" not in (PACKAGE / "substrate" / "host.py").read_text(encoding="utf-8")


def test_searches_make_cases_from_results_and_do_not_depend_on_running() -> None:
    # `kernel` for the store: whether a kernel has counters. `gcov` for what they count.
    assert imports("search") <= {"_native", "errors", "gcov", "kernel", "plan", "substrate", "terminal"}


def test_covering_arrays_depend_on_plans_only() -> None:
    assert imports("cover") <= {"plan", "errors"}


def test_judging_and_comparing_read_results_and_do_not_depend_on_plans_and_running() -> None:
    assert imports("recording") <= {"errors", "regular", "seal"}
    # The type of a run in memory. Of running, the owner of a result folder, who writes through no links. `guard` for
    # control characters in texts of a run.
    assert imports("judge") <= {
        "recording",
        "results",
        "run",
        "errors",
        "_native",
        "guard",
        "output",
        "owner",
        "plural",
        "seal",
    }
    # Of running, the journal: it has the results until the run ends. `owner` tells whether a run goes on.
    tables = {"metric_table", "run_table"}
    assert imports("results") <= tables | {
        "recording",
        "judge",
        "errors",
        "owner",
        "plan",
        "regular",
        "run",
        "seal",
    }
    # Of plans the table of parameters and metrics.
    assert imports("compare") <= {
        "common",
        "errors",
        "levels",
        "plan",
        "plural",
        "quantile",
        "results",
        "run_table",
        "terminal",
    }


def test_a_report_reads_results_and_does_not_depend_on_running() -> None:
    tables = {"plan", "judge", "compare", "cover"}
    # A report is written into a folder, which has one owner at a time. It shows the drawings of findings.
    # `search` prints the values of its cases, `gcov` reads what runs reached in the code of a kernel.
    # `terminal` writes numbers with their units. Of running, the owner of a result folder.
    base = {
        "results",
        "run",
        "recording",
        "errors",
        "_native",
        "output",
        "owner",
        "drawings",
        "gcov",
        "plural",
        "search",
        "terminal",
    }
    assert imports("report") <= base | tables
    assert imports("drawings") <= {"regular", "judge", "output"}


def test_only_main_and_the_command_line_depend_on_the_command_line() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    for part in parts - {"__main__", "__pycache__", "cli"}:
        assert "cli" not in imports(part), part
