"""Other commands access the folder of an active runner: `run --force`, `--resume`, `--extend`, moving, removing."""

import json
import shutil
import signal
from pathlib import Path

from trial import PLAN, Fault, Ran, Trial, command, ended, fork, problems, start


def trial(trial: Trial) -> None:
    """A runner that does not end by itself, and a second command during its run."""
    text = PLAN.replace('"app.duration" = "10ms"\n', "").replace("events = true\npackets = true\n", "")
    text = text.replace("oracles = true", "oracles = false").replace(
        "[axes]\n", '[axes]\n"app.duration" = ["10ms", "3600s"]\n'
    )
    (trial.folder / "plan.toml").write_text(text, encoding="utf-8")
    (trial.folder / "other.toml").write_text(PLAN.replace("torture", "other"), encoding="utf-8")
    out = trial.folder / "out"
    live = start("run", "plan.toml", "--out", "out", "--jobs", "2", cwd=trial.folder)
    try:
        _wait(live, out)
        _come(trial, out, live)
        if live.poll() is not None:
            raise Fault(f"the live runner ended: {ended(live).err[-300:]}")
        there = out.exists() and (out / "journal.sqlite").exists()
    finally:
        live.send_signal(signal.SIGTERM)
        ran = ended(live)
    trial.sane(ran)
    if there:
        _whole(trial, out, ran)


def _wait(live: object, out: Path) -> None:
    """Until a run has ended."""
    import time  # noqa: PLC0415

    while live.poll() is None:  # type: ignore[attr-defined]
        if (out / "result.json").exists() and _has_ended_one(out):
            return
        time.sleep(0.05)
    raise Fault(f"the runner did not run: {ended(live).err[-300:]}")  # type: ignore[arg-type]


def _has_ended_one(out: Path) -> bool:
    """Whether a run has ended. In a child, as `load` starts threads."""

    def look() -> None:
        import tcpassay  # noqa: PLC0415

        if not any(run["outcome"] == "done" for run in tcpassay.load(out).runs):
            raise Fault("none has ended")

    return fork(look)[0] == 0


def _come(trial: Trial, out: Path, live: object) -> None:
    del live
    ways = ("force", "other", "resume", "extend", "link", "moved", "removed", "report", "judge")
    way = trial.dice.choice(ways)
    plan, target = "plan.toml", "out"
    if way == "other":
        plan = "other.toml"
    if way == "link":
        (trial.folder / "link").symlink_to("out")
        target = "link"
    if way == "moved":
        out.rename(trial.folder / "away")
    if way == "removed":
        shutil.rmtree(out)
    arguments: tuple[str, ...] = ("run", plan, "--out", target, "--force")
    if way == "resume":
        arguments = ("run", "--resume", target, "--force")
    if way == "extend":
        arguments = ("run", plan, "--out", target, "--extend", "--force")
    if way in {"report", "judge"}:
        arguments = (way, target)
    ran = trial.sane(command(*arguments, cwd=trial.folder))
    if way == "judge":
        if "findings.json is not written" not in ran.out:
            raise Fault("judge wrote into the folder of a live runner")
    elif ran.code != 2 or "another process" not in ran.err:
        raise Fault(f"{way}: exit code {ran.code} beside a live runner: {ran.err[-300:]}")
    if way == "moved":
        ran = trial.sane(command("run", "--resume", "away", "--force", cwd=trial.folder))
        if ran.code != 2 or "another process" not in ran.err:
            raise Fault(f"a folder that was moved was taken from its owner: exit code {ran.code}")
        (trial.folder / "away").rename(out)


def _whole(trial: Trial, out: Path, ran: Ran) -> None:
    """The runner that was there first has its results, of its own plan."""
    if ran.code != 130:
        raise Fault(f"the live runner ended with {ran.code}: {ran.err[-300:]}")
    index = json.loads((out / "result.json").read_text(encoding="utf-8"))
    if (index["plan"]["name"], index["status"]) != ("torture", "interrupted"):
        raise Fault(f"the results are of plan {index['plan']['name']}, {index['status']}")
    problems(out)
    del trial
