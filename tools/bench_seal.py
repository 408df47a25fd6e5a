"""Measures the cost of the checksums of a result folder.

    python tools/bench_seal.py FOLDER

Prints the CPU time (the minimum of several rounds) of the checksums of all files of FOLDER, of sealing its largest JSON
file, and of the checksum of a row of the journal. The files are read before, so that no disk is measured.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tcpassay import seal

ROUNDS = 20
REPEATS = 1000


def least(action: Callable[[], object]) -> float:
    """Seconds of CPU of the fastest of several calls."""
    taken = []
    for _ in range(ROUNDS):
        before = time.process_time()
        action()
        taken.append(time.process_time() - before)
    return min(taken)


def main(folder: Path) -> None:
    """Measures and prints."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    sealed = [raw for raw in files if seal.is_whole(raw)]
    if not sealed:
        sys.exit(f"{folder}: no sealed file; give a folder that `tcpassay run` has written")
    size = sum(map(len, files))
    seconds = least(lambda: [seal.checksum(raw) for raw in files])
    print(
        f"{len(files)} files, {size / 1e6:.2f} MB: {seconds * 1e3:.3f} ms ({size / seconds / 1e9:.1f} GB/s)"
    )
    text = seal.unseal(max(sealed, key=len).decode())
    seconds = least(lambda: [seal.seal(text) for _ in range(REPEATS)]) / REPEATS
    print(f"JSON of {len(text)} bytes sealed: {seconds * 1e6:.1f} us")
    row = bytes(1200)
    seconds = least(lambda: [seal.checksum(row) for _ in range(REPEATS)]) / REPEATS
    print(f"row of {len(row)} bytes: {seconds * 1e6:.2f} us")


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
