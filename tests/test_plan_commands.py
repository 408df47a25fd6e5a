"""`tcpassay plan`: its output as text and as JSON, and its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

import plans

SWEEP = """\
name = "sweep"
doc = "Four things."
seeds = [1, 2]
constraints = ['IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"']

[axes]
"stack.cc" = ["reno", "cubic", "dctcp"]
"stack.ecn" = ["off", "dctcp"]
"app.flows" = [1, 2]
"link.loss" = [0, 0.01]

[negative]
"link.delay" = ["soon"]

[strategy]
kind = "t-way"
"""

# The documented part of the JSON output.
OUTPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        *("name", "file", "strategy", "factors", "product", "allowed", "seeds", "repetitions", "runs"),
        *("cases", "coverage", "notes"),
    ],
    "properties": {
        "name": {"type": "string"},
        "file": {"type": "string"},
        "strategy": {"type": "object", "required": ["kind"]},
        "factors": {"type": "integer"},
        "product": {"type": "integer"},
        "allowed": {"type": "integer"},
        "seeds": {"type": "array", "items": {"type": "integer"}},
        "repetitions": {"type": "integer"},
        "runs": {"type": "integer"},
        "cases": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["case", "varied", "triples", "expect"],
                "properties": {
                    "case": {"pattern": "^[0-9a-f]{10}$"},
                    "varied": {"type": "object"},
                    "triples": {"type": "object"},
                    "expect": {"enum": ["done", "refused"]},
                },
            },
        },
        "coverage": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "strength", "parameters", "possible", "covered", "excluded", "missing"],
                "properties": dict.fromkeys(
                    ("name", "strength", "parameters", "possible", "covered", "excluded", "missing"), True
                ),
            },
        },
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}


def plan(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", "plan", str(plans.write(folder, text)), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_prints_the_size_the_cases_and_what_they_cover(tmp_path: Path) -> None:
    done = plan(tmp_path, SWEEP)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "sweep  Four things.",
        "4 factors with 24 combinations; the constraints allow 20",
        "strategy t-way: 12 cases, 3 of which must be refused",
        "2 seeds, 1 repetition: 24 runs",
    ]
    assert sum("must be refused: link.delay" in line for line in lines) == 3
    assert [line.split() for line in lines if line.startswith(("all parameters", "invalid"))] == [
        ["all", "parameters", "2", "4", "29", "29", "1", "complete"],
        ["invalid", "values", "2", "4", "9", "9", "0", "complete"],
    ]


def test_as_json_it_is_one_value_with_every_case(tmp_path: Path) -> None:
    done = plan(tmp_path, SWEEP, "--json")
    made = json.loads(done.stdout)
    jsonschema.validate(made, OUTPUT)
    assert (made["product"], made["allowed"], made["runs"], len(made["cases"])) == (24, 20, 24, 12)
    assert made["strategy"] == {"kind": "t-way", "strength": 2, "seed": 1, "family": []}
    assert all(line["covered"] == line["possible"] for line in made["coverage"])


def test_another_strength_keeps_the_cases_and_adds_a_line(tmp_path: Path) -> None:
    two = json.loads(plan(tmp_path, SWEEP, "--json").stdout)
    three = json.loads(plan(tmp_path, SWEEP, "--json", "--strength", "3").stdout)
    assert three["cases"][: len(two["cases"])] == two["cases"]
    assert [line["strength"] for line in three["coverage"] if line["name"] == "all parameters"] == [2, 3]
    full = SWEEP.replace('"t-way"', '"full"')
    assert json.loads(plan(tmp_path, full, "--json", "--strength", "3").stdout)["cases"] == three["cases"]


def test_cases_are_listed_when_they_are_few_or_asked_for(tmp_path: Path) -> None:
    text = SWEEP.replace('"t-way"', '"full"').replace('[1, 2]\n"link', f'{list(range(1, 9))}\n"link')
    short = plan(tmp_path, text).stdout
    assert "strategy full: 81 cases, 1 of which must be refused" in short
    assert "(--cases lists the cases)" in short
    listed = plan(tmp_path, text, "--cases")
    assert listed.stdout.count("  cc=") == 81
    assert listed.returncode == 0


def test_combinations_that_a_strategy_omits_are_shown(tmp_path: Path) -> None:
    done = plan(tmp_path, SWEEP.replace('"t-way"', '"one-at-a-time"'))
    assert done.returncode == 0
    assert "missing: " in done.stdout


def test_a_level_that_no_case_can_have_and_a_value_that_is_no_level_are_noted(tmp_path: Path) -> None:
    text = SWEEP.replace(
        "constraints = [", "constraints = ['[stack.cc] <> \"reno\"', '[stack.cc] <> \"vegas\"',"
    )
    done = plan(tmp_path, text)
    assert 'note: `stack.cc` can never be `reno` because of: [stack.cc] <> "reno"' in done.stdout
    assert "note: `vegas` is not a level of `stack.cc`" in done.stdout


def test_a_plan_that_is_refused_is_reported_on_standard_error_with_exit_code_2(tmp_path: Path) -> None:
    done = plan(tmp_path, SWEEP.replace("constraints", "# constraints"))
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        'excluded by `constraints` =\n    \'IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"\','
        in done.stderr
    )
    assert plan(tmp_path, SWEEP, "--strength", "9").returncode == 2
