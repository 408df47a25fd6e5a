"""The last step of `make figures`: prints the files, and what each figure shows."""

import json
import sys
from pathlib import Path

FIGURES = (
    ("rate-limiter-latency", "rtt", "Figure 1: a shaper's queue multiplies the round-trip time"),
    ("rate-limiter-mark-data", "throughput", "Figure 2: CE on data packets; throughput oscillates"),
    ("rate-limiter-mark-ack", "throughput", "Figure 3: ECE on the returning ACKs; no oscillation"),
    ("rate-limiter-sequence", "sequence", "Figure 4: the sender stalls for 200 ms, nothing was lost"),
    ("rate-limiter-fixed", "throughput", "Figure 7: two corrections of the receiver"),
)


def main(out: Path) -> None:
    """Prints a line for each figure; fails if a check of a plan failed."""
    print("\nThe rate limiter of 'Rethinking TCP test', in virtual time:\n")
    ok = True
    for plan, figure, shows in FIGURES:
        result = json.loads((out / plan / "result.json").read_text(encoding="utf-8"))
        held = sum(check["holds"] for check in result["checks"])
        ok &= result["ok"]
        print(f"  {shows}")
        print(
            f"    {out / plan / 'figures' / figure}.svg (or .png); {held} of {len(result['checks'])} checks hold"
        )
    print(
        "\nEach folder holds the plan, result.json, the tables of runs and a recording of every run; Wireshark opens"
    )
    print(
        "packets.pcapng of rate-limiter-sequence. Change a plan and run it: tcpassay run plans/papers/NAME.toml"
    )
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
