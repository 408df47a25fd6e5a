"""A program in the place of `ssh` that behaves as a hostile agent. The name of the host says how.

It uses no code of the package: it writes frames as `crates/messages/src/frames.rs` describes them.
"""

import json
import os
import sys
import time
from pathlib import Path

PROTOCOL = int(os.environ["PROTOCOL"])
NAME = sys.argv[-2]
NOW = 10**18


def frame(content: bytes, kind: int = 0) -> None:
    """Sends a frame."""
    send(len(content).to_bytes(4, "little") + bytes([kind]) + content)


def send(content: bytes) -> None:
    """Sends bytes, until the controller has ended."""
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)


def say(**message: object) -> None:
    """Sends a message."""
    frame(json.dumps(message).encode())


def received() -> dict[str, object]:
    """The next message of the controller that is not a sign of life."""
    while True:
        header = sys.stdin.buffer.read(5)
        if len(header) < 5:
            os._exit(0)
        message: dict[str, object] = json.loads(sys.stdin.buffer.read(int.from_bytes(header[:4], "little")))
        if message["kind"] != "alive":
            return message


def end(ended: str = "finished") -> None:
    """The end of a run."""
    say(kind="ended", ended=ended, message="", errors=[])
    say(kind="restored", problems=[])


def hostile() -> None:  # noqa: C901, PLR0912, PLR0915 - a table
    """What the agent does instead of sending its recording."""
    match NAME:
        case "traversal":
            say(kind="file", name="../../../evil", size=4)
            frame(b"evil", 1)
        case "absolute":
            say(kind="file", name="/tmp/evil", size=4)  # noqa: S108 - it must not be written
        case "twice":
            for _ in range(2):
                say(kind="file", name="events.parquet", size=1)
                frame(b"x", 1)
        case "longer":
            say(kind="file", name="events.parquet", size=4)
            frame(b"12345", 1)
        case "empty":
            say(kind="file", name="events.parquet", size=4)
            frame(b"", 1)
        case "drip":
            say(kind="file", name="events.parquet", size=1 << 30)
            while True:
                frame(b"x", 1)
        case "slow":
            # Each frame arrives long before the time limit of an answer.
            say(kind="file", name="events.parquet", size=1 << 30)
            while True:
                frame(bytes(1 << 20), 1)
                time.sleep(0.5)
        case "huge":
            say(kind="file", name="events.parquet", size=(4 << 30) + 1)
        case "instead":
            say(kind="file", name="events.parquet", size=4)
            say(kind="idle", at=0, idle=True)
        case "frame":
            send(b"\xff\xff\xff\xff\x00")
        case "kind":
            frame(b"{}", 9)
        case "deep":
            frame(b"[" * 1_000_000)
        case "endless":
            while True:
                send(bytes(range(256)) * 4096)
        case "silence":
            send(b"\x10\x00\x00\x00\x00{")
            received()
        case "unknown":
            say(kind="format_disk")
        case "unasked":
            say(kind="time", now=5)
        case "end":
            end("exploded")
        case "garbage":
            for name in ("recording.json", "part.json"):
                say(kind="file", name=name, size=8)
                frame(b"\x00garbage", 1)
            end()


def late(at: object) -> None:
    """Says that the start was too late, and notes how long after the last answer about the clock it was to be."""
    with Path(os.environ["LEADS"]).open("a", encoding="ascii") as leads:
        print(int(str(at)) - NOW, file=leads)
    say(kind="late")
    end("failed")


def main() -> None:  # noqa: C901 - a table
    """Answers as an agent does until the run has begun."""
    while True:
        message = received()
        match message["kind"]:
            case "hello":
                say(kind="welcome", protocol=PROTOCOL, version="\x1b[2J", root=True, release="6.1", boot="")
            case "claim":
                say(kind="claimed", restored=[])
                if NAME == "deaf":
                    time.sleep(600)
            case "run":
                say(kind="prepared")
            case "probe":
                say(kind="probed", paths=[])
            case "clock":
                say(kind="time", now=NOW)
            case "start":
                if NAME == "honest":
                    end()
                elif NAME == "late":
                    late(message["at"])
                else:
                    hostile()


if __name__ == "__main__":
    main()
