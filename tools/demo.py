"""The end of `make demo`: what was found, and where to look at it."""

import json
import shlex
import sys
from pathlib import Path

WANTED = "timeout-without-loss"


def main(folder: Path) -> None:
    """Prints what the oracle of the stalls found; fails when it found nothing."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))["findings"]
    stalls = [one for one in findings if one["oracle"] == WANTED]
    runs = {(one["case"], one["seed"]): one for one in stalls}
    if not runs:
        print(
            f"\nThe oracle `{WANTED}` found nothing in {len(result['runs'])} runs: that is a fault of this program."
        )
        sys.exit(1)
    first = stalls[0]
    print(f"\nIn {len(runs)} of {len(result['runs'])} runs a connection stopped although nothing was lost:\n")
    print(f"  {first['text']}\n")
    print("See it in your browser, with curves of every run that is kept:")
    print(f"    {(folder / 'report.html').resolve().as_uri()}")
    print("Run it again, to the same byte, and keep its packets for Wireshark:")
    print(f"    .venv/bin/{first['replay']} --packets --out {shlex.quote(str(folder.parent / 'stall'))}")
    print("The figures of the paper: make figures. Where to go from here: README.md.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
