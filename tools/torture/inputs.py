"""Invalid plans, scripts and environments must give a message, without a hang or a traceback."""

import os
import resource
import signal
import subprocess
from pathlib import Path

from trial import PLAN, Fault, Trial, command, ended, start

SECRET = "SECRET-CONTENT"  # noqa: S105 - it is what must not be told
MANY_KEYS, MANY_SEEDS = 200_000, 1_000_000
FASTEST = 120
"""Maximum CPU seconds for refusing a plan; usually it takes a few."""


def trial(trial: Trial) -> None:
    """One of the ways below."""
    ways = (
        _pipe,
        _device,
        _large,
        _foreign,
        _control,
        _bytes,
        _output,
        _descriptors,
        _name,
        _read_only,
        _mutated,
        _mutated,
    )
    trial.dice.choice(ways)(trial)


def _refused(trial: Trial, *arguments: str | bytes | Path, **how: object) -> None:
    ran = trial.sane(command(*arguments, cwd=trial.folder, **how))
    if ran.code != 2:
        raise Fault(f"exit code {ran.code} for {arguments!r}")
    if SECRET in ran.out + ran.err:
        raise Fault(f"the content of a file is quoted: {ran.err[-300:]}")


def _pipe(trial: Trial) -> None:
    """A pipe as a plan, as a base, as a file that a value names, as a script."""
    os.mkfifo(trial.folder / "pipe")
    way = trial.dice.choice(("plan", "extends", "trace", "script"))
    text = {
        "plan": "",
        "extends": 'name = "x"\nextends = "pipe"\n',
        "trace": PLAN.replace('"100Mbit"', '"trace:pipe"'),
        "script": 'name = "x"\n[[scripts]]\nfiles = ["pipe"]\n',
    }[way]
    (trial.folder / "plan.toml").write_text(text, encoding="utf-8")
    _refused(trial, trial.dice.choice(("plan", "run")), "pipe" if way == "plan" else "plan.toml")


def _device(trial: Trial) -> None:
    (trial.folder / "plan.toml").write_text('name = "x"\nextends = "/dev/zero"\n', encoding="utf-8")
    _refused(
        trial,
        "plan",
        trial.dice.choice(("/dev/zero", "/dev/null", "/dev/full", "/dev/tty", ".", "plan.toml")),
    )


def _large(trial: Trial) -> None:
    """Plans with excessive numbers of keys or seeds; limits are in CPU time, because the machine may be busy."""
    way = trial.dice.choice(("seeds", "keys", "levels", "dotted"))
    if way == "seeds":
        text = PLAN.replace("[1, 2]", str(list(range(MANY_SEEDS))))
    elif way == "keys":
        text = PLAN + "[fixed2]\n" + "".join(f"k{n} = 1\n" for n in range(MANY_KEYS))
    elif way == "levels":
        text = PLAN.replace('["reno", "cubic"]', str([f"x{n}" for n in range(MANY_KEYS)]))
    else:
        text = PLAN.replace("[axes]\n", "".join(f'"a{n}.b" = 1\n' for n in range(MANY_KEYS)) + "[axes]\n")
    (trial.folder / "plan.toml").write_text(text, encoding="utf-8")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (FASTEST, FASTEST + 5))

    if way == "seeds":
        # A plan with this number of seeds is valid, and the command ends within the limit.
        ran = trial.sane(command("plan", "plan.toml", cwd=trial.folder, preexec_fn=limited))
        if ran.code not in {0, 2}:
            raise Fault(f"exit code {ran.code} for {MANY_SEEDS} seeds")
        return
    _refused(trial, "plan", "plan.toml", preexec_fn=limited)


def _foreign(trial: Trial) -> None:
    """The content of a file that is no plan does not appear in messages."""
    text = trial.dice.choice(
        (
            f"{SECRET}\n",
            f"root:{SECRET}:0:0\n",
            f'"{SECRET}',
            f"[{SECRET}",
            f"a = {SECRET}\n",
            f"{{{SECRET}}}",
        )
    )
    (trial.folder / "secret").write_text(text, encoding="utf-8")
    (trial.folder / "plan.toml").write_text('name = "x"\nextends = "secret"\n', encoding="utf-8")
    _refused(trial, trial.dice.choice(("plan", "run")), trial.dice.choice(("secret", "plan.toml")))


def _control(trial: Trial) -> None:
    """Control characters of terminals in every text of a plan."""
    evil = trial.dice.choice((r"\u001b[31m", r"\u009b2J", r"\u0007", r"\u202e", r"\r", r"\u007f"))
    old, new = trial.dice.choice(
        (
            ('"torture"', f'"t{evil}"'),
            ("seeds = [1, 2]", f'doc = "{evil}"\nseeds = [1]'),
            ('"reno"', f'"re{evil}no"'),
            ("a check to be read back", f"why {evil}"),
            ('"stack.cc"', f'"stack.{evil}cc"'),
            ("[[check]]", f'["{evil}"]\nx = 1\n[[check]]'),
        )
    )
    (trial.folder / "plan.toml").write_text(PLAN.replace(old, new), encoding="utf-8")
    for arguments in (("plan", "plan.toml"), ("run", "plan.toml", "--out", "out")):
        trial.sane(command(*arguments, cwd=trial.folder))


def _bytes(trial: Trial) -> None:
    (trial.folder / "plan.toml").write_bytes(trial.dice.randbytes(trial.dice.choice((1, 100, 10_000))))
    _refused(trial, "plan", "plan.toml")


def _output(trial: Trial) -> None:
    """Standard output is closed, full, or a pipe without a reader."""
    trial.plan()
    arguments = trial.dice.choice(
        (("metrics",), ("params", "--json"), ("plan", "plan.toml"), ("run", "plan.toml", "--out", "out"))
    )
    way = trial.dice.choice(("closed", "full", "gone", "no error"))
    if way == "closed":
        ran = ended(start(*arguments, cwd=trial.folder, preexec_fn=lambda: os.close(1)))
    elif way == "full":
        with Path("/dev/full").open("wb") as full:
            ran = ended(start(*arguments, cwd=trial.folder, stdout=full))
    elif way == "no error":
        ran = ended(start(*arguments, cwd=trial.folder, preexec_fn=lambda: os.close(2)))
    else:
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as gone:
            ran = ended(start(*arguments, cwd=trial.folder, stdout=gone))
        if ran.code == 128 + signal.SIGPIPE:
            return
    trial.sane(ran)


def _descriptors(trial: Trial) -> None:
    """Few open files."""
    trial.plan()
    most = trial.dice.randint(6, 80)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    process = start("run", "plan.toml", "--out", "out", "--jobs", "8", cwd=trial.folder, preexec_fn=limited)
    ran = ended(process)
    if ran.code == 127 or "error while loading shared libraries" in ran.err or "init_" in ran.err:
        return  # the interpreter itself could not start
    trial.sane(ran)


def _name(trial: Trial) -> None:
    """Names that are not UTF-8, have control characters, or are as long as can be."""
    trial.plan()
    name = trial.dice.choice(
        (b"a\xff", b"\x1b[31m", b"a b", b"-", b"x" * 240, b"x" * 255, "\u202e".encode(), b"'\"$(x)")
    )
    ran = trial.sane(command("run", "plan.toml", b"--out=" + name, cwd=trial.folder))
    if ran.code not in {0, 1, 2}:
        raise Fault(f"exit code {ran.code} for --out {name!r}")
    made = [path for path in trial.folder.iterdir() if path.name != "plan.toml"]
    if ran.code != 2 and [os.fsencode(path.name) for path in made] != [name]:
        raise Fault(f"--out {name!r} made {made}")


def _read_only(trial: Trial) -> None:
    """A folder, or a part of it, that cannot be written: by a mount, because root may write everything else."""
    out = trial.copy()
    (out / ".work").mkdir()
    part = trial.dice.choice((out, out / ".work", out / "recordings"))
    if trial.dice.random() < 0.5:
        (out / "result.json").unlink()
    case = min(path.name for path in (trial.calm / "recordings").iterdir()).split("-")[0]
    commands = (
        ("judge", "out"),
        ("report", "out"),
        ("run", "--resume", "out"),
        ("replay", "out", case, "--seed", "1"),
    )
    arguments = trial.dice.choice(commands)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77; shift; exec "$@"'
    import sys  # noqa: PLC0415

    from trial import Skip, environment  # noqa: PLC0415

    whole = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        script,
        "sh",
        str(part),
        sys.executable,
        "-m",
        "tcpassay",
        *arguments,
    ]
    process = subprocess.Popen(
        whole, cwd=trial.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    ran = ended(process)
    if ran.code == 77 or "unshare" in ran.err:
        raise Skip("this user may not mount a file system")
    trial.sane(ran)


def _mutated(trial: Trial) -> None:
    """A mutated plan is accepted or refused, with identical messages for identical plans."""
    from damage import WAYS  # noqa: PLC0415

    raw = PLAN.encode()
    for _ in range(trial.dice.randint(1, 3)):
        raw = WAYS[trial.dice.choice(sorted(WAYS))](raw, trial.dice) or b"#"
    (trial.folder / "plan.toml").write_bytes(raw)
    trial.sane(command("plan", "plan.toml", cwd=trial.folder))
