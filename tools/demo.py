"""The last step of `make demo`: prints the stalls that were found, and the next commands."""

import json
import shlex
import sys
from pathlib import Path

from tcpassay.results import load

WANTED = "timeout-without-loss"


def main(folder: Path) -> None:
    """Prints the findings of the oracle of stalls; fails if there are none."""
    count = len(load(folder).runs)
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))["findings"]
    stalls = [one for one in findings if one["oracle"] == WANTED]
    runs = {(one["case"], one["seed"]): one for one in stalls}
    if not runs:
        print(f"\nThe oracle `{WANTED}` found nothing in {count} runs: this is a bug of tcpassay.")
        sys.exit(1)
    first = stalls[0]
    print(f"\nIn {len(runs)} of {count} runs a connection stopped although nothing was lost:\n")
    print(f"  {first['text']}\n")
    print("Report for the browser, with the curves of every kept recording:")
    print(f"    {(folder / 'report.html').resolve().as_uri()}")
    print("Repeat the run with identical bytes, and capture its packets for Wireshark:")
    print(f"    .venv/bin/{first['replay']} --packets --out {shlex.quote(str(folder.parent / 'stall'))}")
    print("`make figures` draws the figures of the paper. README.md describes further commands.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
