"""Calls the oracles that need only packets on a capture, for the end at which the capture was taken."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tcpassay import _native, scratch
from tcpassay.captured.analyse import Limits, readable, unreadable
from tcpassay.captured.model import RECORDED, LoggedConnections
from tcpassay.errors import Place, UserError
from tcpassay.judge.folders import Judged, judge_folder


def judge_capture(
    file: Path,
    *,
    oracles: Iterable[str] | None = None,
    point: str | None = None,
    merge: bool = False,
    limits: Limits | None = None,
) -> Judged:
    """Judges a capture. Raises `UserError` for a file that is not a capture, or without a connection to judge."""
    names = None if oracles is None else list(oracles)
    limits = limits or Limits()
    with scratch.folder() as place:
        folder = place / "capture"
        try:
            text = _native.capture_recording(
                readable(file),
                str(folder),
                point,
                merge,
                (limits.connections, limits.expanded, limits.packets),
            )
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from None
        made = RECORDED.validate_json(text)
        said = _unlogged(made.connections)
        if made.connections.cut:
            said.append(
                f"only the first {limits.packets} packets are judged, which are in memory: `--max-packets` raises it"
            )
        if made.connections.logged == 0:
            why = "; ".join(said) or "it has no TCP connection"
            raise UserError(f"no connection of the capture can be judged: {why}", Place(file))
        judged = judge_folder(folder, oracles=names)
    unable = {name: why.replace("a kernel's log", "a capture") for name, why in judged.unjudged.items()}
    return replace(judged, notes=[*made.notes, *said, *judged.notes], unjudged=unable)


def _unlogged(connections: LoggedConnections) -> list[str]:
    """The connections that are not judged, with the reasons, each as a sentence."""
    said = []
    if count := connections.without_handshake:
        said.append(
            f"{_connections(count)} without a whole handshake not judged: positions and windows are unknown"
        )
    if count := connections.between:
        said.append(
            f"{_connections(count)} not judged: the capture was taken between the ends, so that it does not show "
            "in which order an end sent and received"
        )
    return said


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"
