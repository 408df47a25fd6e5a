"""Configures and compiles a kernel with its own makefiles, and turns their output into messages."""

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel.source import Say
from tcpassay.kernel.variant import Variant

CONFIG: Final = Path(__file__).with_name("linux.config")
# Options that must take effect; others depend on the version.
NEEDED: Final = {
    "UML_TIME_TRAVEL_SUPPORT",
    "STATIC_LINK",
    "HOSTFS",
    "NET_NS",
    "INET",
    "VETH",
    "NET_SCHED",
    "HIGH_RES_TIMERS",
}
_ERROR: Final = re.compile(
    r": (fatal )?error: |^make.*\*\*\*|^(.*/)?ld: |undefined reference|No space left on device"
)
_CONFIG_ERROR: Final = re.compile(
    r"^[^\s:]+: ?\d+:(?!\s*warning)|: error: |: not found|^make.*\*\*\*|No space left on device"
)
"""An error of Kconfig (`net/Kconfig:8: syntax error`), of the compiler of its programs, or of the shell."""
STEPS: Final = "1,200"
"""About the number of steps of a whole build: 1,229 for Debian's 6.1."""
WHOLE: Final = f"compiling, about {STEPS} steps"
"""The stage of a build without object files of an earlier one."""
_STEP: Final = re.compile(r"^  ([A-Z]\w*) +(?:\[M\] +)?(\S+)")
_MOST_WORDS: Final = 12


def configure(tree: Path, build: Path, log: Path, variant: Variant, say: Say) -> list[str]:
    """Writes `.config`, and returns the symbols that this version does not have.

    Raises `UserError` if the tree cannot be configured, or lacks what the substrate needs.
    """
    say("configuring")
    build.mkdir(exist_ok=True)
    wanted = CONFIG.read_text(encoding="utf-8") + variant.lines
    fragment = build / "tcpassay.config"
    fragment.write_text(wanted, encoding="utf-8")
    made = subprocess.run(  # noqa: S603
        _command(tree, build, f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"),
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    log.write_text(made.stdout + made.stderr, encoding="utf-8")
    if made.returncode != 0:
        said = _from_first((made.stdout + made.stderr).splitlines(), _CONFIG_ERROR)
        raise UserError(f"the kernel cannot be configured; the full output is in {log}:\n{said}")
    took = set((build / ".config").read_text(encoding="utf-8").splitlines())
    absent = []
    for line in wanted.splitlines():
        symbol, equals, value = line.removeprefix("CONFIG_").partition("=")
        if equals and value != "n" and line not in took:
            absent.append(symbol)
    if lacking := (NEEDED | variant.needed).intersection(absent):
        raise UserError(f"this kernel cannot be used: it has no {', '.join(sorted(lacking))}")
    return absent


def make(  # noqa: PLR0913, PLR0917 - where it is built, and the observers
    tree: Path,
    build: Path,
    log: Path,
    variant: Variant,
    jobs: int,
    say: Say,
    stepped: Callable[[str], None],
    lock: int,
) -> None:
    """Compiles files that are not up to date. Raises `UserError` with the first error of the compiler.

    Make and its children inherit the file descriptor `lock` of the lock of the tree. If this process is killed, the
    tree remains locked until they have ended.
    """
    say("compiling" if (build / "vmlinux").exists() else WHOLE)
    words: deque[str] = deque(maxlen=400)
    with (
        log.open("w", encoding="utf-8") as written,
        subprocess.Popen(  # noqa: S603
            _command(tree, build, f"-j{jobs}", *variant.arguments(tree), "linux"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=_environment(),
            start_new_session=True,
            pass_fds=(lock,),
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                written.write(line)
                words.append(line.rstrip())
                if step := _STEP.match(line):
                    stepped(step[2])
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0:
        said = _from_first(list(words), _ERROR)
        raise UserError(f"the kernel does not compile; the full output is in {log}:\n{said}")


def _command(tree: Path, build: Path, *arguments: str) -> list[str]:
    return ["make", "--no-print-directory", "-C", str(tree), "ARCH=um", f"O={build}", *arguments]


def _environment() -> dict[str, str]:
    # The same source gives the same image. The version is otherwise the number of the build in its tree; the kernel
    # mixes it into its random numbers (random_init), so that kernels of one tree would differ in every run.
    fixed = {
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        "KBUILD_BUILD_USER": "tcpassay",
        "KBUILD_BUILD_HOST": "tcpassay",
    }
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MAKE", "MFLAGS", "KBUILD", "KCONFIG"))
    }
    return kept | fixed | {"LC_ALL": "C", "ARCH": "um"}


def _from_first(lines: list[str], error: re.Pattern[str]) -> str:
    """The lines from the first error on, or the last ones if none is recognized."""
    last = max(0, len(lines) - _MOST_WORDS)
    first = next((at for at, line in enumerate(lines) if error.search(line)), last)
    return "\n".join(f"    {line}" for line in lines[first : first + _MOST_WORDS])
