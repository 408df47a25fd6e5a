"""Git repositories of tests."""

import subprocess
from pathlib import Path


def git(tree: Path, *arguments: str) -> str:
    """The output of a command of git in a tree."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", "-C", str(tree), *who, *arguments],  # noqa: S607
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()
