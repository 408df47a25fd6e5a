"""Plans for tests."""

from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
PLANS = REPOSITORY / "plans"

# A run of a few milliseconds; each change of a test affects at most one line.
SMALL = """\
name = "small"
doc = "Two controllers, one seed."
seeds = [7]
oracles = false
[fixed]
"app.duration" = "20ms"
"link.rate" = "100Mbit"
"link.delay" = "1ms"

[axes]
"stack.cc" = ["reno", "cubic"]

[collect]
series = "1ms"

[[check]]
metric = "timeouts"
op = "=="
value = 0
why = "nothing is lost"
"""

# The same plan with one more line: every recording is kept.
KEPT = SMALL.replace("oracles = false\n", 'oracles = false\nkeep.recordings = "all"\n')


def write(folder: Path, text: str = SMALL, name: str = "plan.toml") -> Path:
    """The text as a file."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def line_of(text: str, part: str) -> int:
    """The number, from 1, of the one line that holds `part`."""
    (line,) = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    return line


STALL = """\
name = "stall"
seeds = [1]
[fixed]
"link.rate" = "10Gbit"
"link.delay" = "10us"
"link.jitter" = "20ns"
"nic.tso" = true
"nic.gro" = true
"nic.rx_usecs" = "50us"
"queue.kind" = "htb"
"queue.rate" = "2Gbit"
"queue.ecn_threshold" = "30KB"
"queue.ecn_mark" = "data"
"stack.profile" = "linux-4.6"
"stack.cc" = "dctcp"
"stack.ecn" = "dctcp"
"app.flows" = 2
"app.duration" = "500ms"
[axes]
"stack.dctcp_receiver" = ["clear-timer", "rearm"]
[keep]
recordings = "none"
"""
"""A plan in which the old DCTCP receiver of profile `linux-4.6` forgets an ACK, and the repaired one does not."""
