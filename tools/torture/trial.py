"""Common parts of trials: a plan, its undisturbed results, commands, and the conditions on every command."""

import ctypes
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from forked import Forked

PLAN: Final = """\
name = "torture"
seeds = [1, 2]
oracles = true
keep.recordings = "all"
[fixed]
"app.duration" = "10ms"
"link.rate" = "100Mbit"
"link.delay" = "1ms"
"queue.limit" = "20KB"
[axes]
"stack.cc" = ["reno", "cubic"]
"link.loss" = ["0%", "5%"]
[collect]
series = "1ms"
events = true
packets = true
[[check]]
metric = "timeouts"
op = ">="
value = 0
why = "a check to be read back"
"""
LONGEST: Final = 600.0
"""Seconds after which a command counts as hanging; normal commands take less than a hundredth of it."""
_NO_MOUNT: Final = "this user may not mount a file system"
_NEW_MOUNTS: Final = 0x20000
_NEW_USER: Final = 0x10000000
_PARTS: Final = ("status", "ok", "checks", "findings", "undetermined")


class Fault(Exception):  # noqa: N818 - what it found
    """A violated condition."""


class Skip(Exception):  # noqa: N818 - not an error
    """This machine cannot run these trials."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass
class Trial:
    """One trial, in a folder of its own."""

    kind: str
    seed: int
    number: int
    folder: Path
    scratch: Path
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.kind}-{self.seed}-{self.number}")  # noqa: S311 - repeatable

    @property
    def calm(self) -> Path:
        """The undisturbed results of the plan, computed once."""
        made = self.scratch / "calm"
        if not made.exists():
            made.mkdir()
            (made / "plan.toml").write_text(PLAN, encoding="utf-8")
            self.good(command("run", "plan.toml", "--out", "out", "--jobs", "2", cwd=made))
        return made / "out"

    def known(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that depends on the undisturbed results only, computed once in a child and kept in a file."""
        file = self.scratch / f"{name}.pickle"
        if not file.exists():
            draft = file.with_suffix(f".{os.getpid()}")
            draft.write_bytes(pickle.dumps(make()))
            draft.rename(file)
        return pickle.loads(file.read_bytes())  # noqa: S301 - written above

    def copy(self) -> Path:
        """A copy of them to be damaged."""
        return Path(shutil.copytree(self.calm, self.folder / "out"))

    def plan(self) -> Path:
        """The plan's file in the folder of the trial."""
        file = self.folder / "plan.toml"
        file.write_text(PLAN, encoding="utf-8")
        return file

    def good(self, ran: Ran) -> Ran:
        """A command that must succeed."""
        if ran.code not in {0, 1}:
            raise Fault(f"exit code {ran.code}: {ran.err.strip()[-400:]}")
        return self.sane(ran)

    def sane(self, ran: Ran) -> Ran:
        """Checks any ended command: no traceback, no crash, and a message if it failed."""
        for text in (ran.out, ran.err):
            if "Traceback" in text or "panicked" in text or "Exception ignored" in text:
                raise Fault(f"traceback: {text.strip()[-600:]}")
            if any(ord(one) < 32 and one not in "\n\t" for one in text):
                raise Fault(f"control characters are printed: {text!r:.300}")
        if ran.code not in {0, 1, 2, 130}:
            raise Fault(f"exit code {ran.code}: {ran.err.strip()[-400:]}")
        if ran.code == 2 and not (ran.err + ran.out).strip():
            raise Fault("exit code 2 without a message")
        return ran

    def same(self, out: Path) -> None:
        """Checks that the results equal those of the undisturbed run; files that only depend on the plan are equal."""
        calm = self.calm

        def compare() -> None:
            if essence(out) != self.known("essence", lambda: essence(calm)):
                raise Fault("the results are not those of an undisturbed run")

        code, said = fork(compare)
        if code:
            raise Fault(said.strip()[-700:])
        here, there = files(out), files(self.calm)
        if here != there:
            names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            raise Fault(f"other bytes in {', '.join(names[:5])}")


def essence(out: Path) -> dict[str, Any]:
    """The result without the machine and the times. Only for children: reading starts threads (`fork`)."""
    import tcpassay  # noqa: PLC0415

    results = tcpassay.load(out)
    said: list[dict[str, Any]] = [{**run, "metrics": dict(run.get("metrics") or {})} for run in results.runs]
    runs = [{k: v for k, v in run.items() if k not in {"cpu_s", "simulation_s"}} for run in said]
    index: dict[str, Any] = {**results.index}
    return {name: index[name] for name in _PARTS} | {"runs": runs}


def files(out: Path) -> dict[str, bytes]:
    """Every file that is a function of the plan."""
    named = ("plan.toml", "metrics.parquet", "findings.json", "recordings/**/*", "inputs/**/*")
    found = [file for name in named for file in out.glob(name) if file.is_file()]
    return {str(file.relative_to(out)): file.read_bytes() for file in found}


def environment() -> dict[str, str]:
    """The environment of commands: plain output, independent of the terminal."""
    return os.environ | {"NO_COLOR": "1", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}


def command(*arguments: str | bytes | Path, cwd: Path, **how: Any) -> Ran:
    """Runs `tcpassay` in a child of this process. Raises `Fault` if it hangs."""
    texts = [os.fsdecode(argument) for argument in arguments]
    return ended(Forked(texts, cwd, environment(), **how))


def start(*arguments: str | bytes | Path, cwd: Path, **how: Any) -> "subprocess.Popen[bytes]":
    """Starts `tcpassay` as a program of its own."""
    whole = [sys.executable, "-m", "tcpassay", *arguments]
    return subprocess.Popen(
        whole, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how),
    )  # fmt: skip


def ended(process: "subprocess.Popen[bytes] | Forked") -> Ran:
    """Waits for a command."""
    try:
        out, err = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=LONGEST)
        raise Fault(f"it hangs: {' '.join(map(str, process.args))}") from None  # type: ignore[arg-type]
    return Ran(
        process.returncode, (out or b"").decode(errors="replace"), (err or b"").decode(errors="replace")
    )


def fork(act: Callable[[], None]) -> tuple[int, str]:
    """Calls `act` in a child that has the libraries already; its exit code and the traceback, if it has one.

    A command line costs a second of imports, which thousands of trials cannot have.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(
            int(LONGEST)
        )  # a child that waits for a lock which a thread of the parent held never ends
        os.close(reader)
        code, said = 0, ""
        try:
            act()
        except BaseException:  # noqa: BLE001 - it is told to the parent
            import traceback  # noqa: PLC0415

            code, said = 1, traceback.format_exc()
        os.write(writer, said.encode(errors="replace")[-4000:])
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code, f"it hangs: it was ended after {LONGEST:g} s" if code == -signal.SIGALRM else said


def disk(trial: Trial, size: str, act: Callable[[], None]) -> None:
    """Calls `act` in a child with an own file system of this size in the trial's folder `disk`. Raises `Fault`, `Skip`.

    The commands of the child have it, too. It is in memory, in a namespace of its own, and ends with the child.
    """
    _ = trial.calm
    (trial.folder / "disk").mkdir()

    def inside() -> None:
        _own_namespace()
        resized(trial, size, "tmpfs")
        act()

    code, said = fork(inside)
    if _NO_MOUNT in said:
        raise Skip(_NO_MOUNT)
    if code:
        raise Fault(said.strip()[-700:])


def resized(trial: Trial, size: str, kind: str = "") -> None:
    """Gives the file system of `disk` another size."""
    how = ["-t", kind, "-o", f"size={size}", kind] if kind else ["-o", f"remount,size={size}"]
    mount(trial, *how, "disk")


def mount(trial: Trial, *arguments: str) -> None:
    """Mounts a file system on a folder of the trial, in the namespace of `disk`."""
    whole = ["mount", *arguments]
    if subprocess.run(whole, cwd=trial.folder, capture_output=True, check=False).returncode:
        raise Skip(_NO_MOUNT)


def _own_namespace() -> None:
    """Gives this process users and mounts of its own, as `unshare --map-root-user --mount` does."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None).unshare(_NEW_USER | _NEW_MOUNTS):
        raise Skip(_NO_MOUNT)
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    except OSError:
        raise Skip(_NO_MOUNT) from None


def problems(out: Path) -> None:
    """Raises `Fault` when `load` finds a problem in a folder; a folder that it refuses has none."""

    def look() -> None:
        import tcpassay  # noqa: PLC0415
        from tcpassay.errors import UserError  # noqa: PLC0415

        try:
            found = tcpassay.load(out).problems
        except UserError:
            return
        if found:
            raise Fault(str(found[0]))

    # In a child: `load` starts threads, and after that a child of this process may wait for ever for a lock of theirs.
    code, said = fork(look)
    if code:
        raise Fault(said.strip()[-700:])
