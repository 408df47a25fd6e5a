"""The files of docs/plan.md that values name run as they are written."""

import re
from pathlib import Path

from typer.testing import CliRunner

import plans
from tcpassay import load
from tcpassay.cli import app

TEXT = (plans.REPOSITORY / "docs" / "plan.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## Files that values name")[2].partition("\n## ")[0]
TOPOLOGY, SIZES, TRACE = re.findall(r"```(?:toml)?\n(.*?)```", SECTION, re.DOTALL)


def test_a_parking_lot_a_distribution_of_sizes_and_a_trace_run_as_written(tmp_path: Path) -> None:
    for name, text in (
        ("lot.toml", TOPOLOGY),
        ("sizes.txt", SIZES),
        ("rate.txt", TRACE),
        ("lte.txt", "1\n3\n3\n4\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "plan.toml").write_text(
        """name = "files"
oracles = false
[fixed]
"topology" = "file:lot.toml"
"app.duration" = "3s"
[axes]
"link.rate" = ["20Mbit", "trace:rate.txt", "trace:lte.txt"]
"app.flow_size" = ["endless", "file:sizes.txt"]
""",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    runs = load(tmp_path / "out").runs
    assert {run["outcome"] for run in runs} == {"done"}
    table = CliRunner().invoke(
        app, ["table", str(tmp_path / "out"), "--per", "host", "--by", "host", "--metric", "share",
              "--where", "app.flow_size=endless", "--where", "link.rate=20Mbit", "--format", "csv"],
    )  # fmt: skip
    share = {row.split(",")[2]: float(row.split(",")[3]) for row in table.stdout.splitlines()[1:]}
    # The flow through both bottlenecks gets less than each of the others.
    assert share["long"] < share["first"]
    assert share["long"] < share["second"]
