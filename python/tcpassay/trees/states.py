"""The states of a bisection: revisions of a git repository, a growing series of patches, or kernels that are built."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel import build as building
from tcpassay.kernel import store
from tcpassay.kernel.progress import Counted
from tcpassay.kernel.revision import Revision
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import Source, last_line, run
from tcpassay.kernel.variant import PLAIN, Variant, kernel_name
from tcpassay.trees.bisect import Line, UnbuildableError

NONE: Final = "no patch"
"""The state without any patch of the series."""
_NAME: Final = "bisect"


class Commits:
    """The commits between two revisions, with merges; git chooses which to try (`git rev-list --bisect-all`)."""

    def __init__(self, repository: Path, good: str, bad: str) -> None:
        self._repository = repository
        self.good = Revision(repository, good).commit
        self.bad = Revision(repository, bad).commit
        inside = run(["git", "-C", str(repository), "merge-base", "--is-ancestor", self.good, self.bad])
        if inside.returncode != 0:
            raise UserError(
                f"`{good}` is not an ancestor of `{bad}`, so that no commit between them can be found"
            )

    def candidates(self, good: Sequence[str], bad: str) -> list[str]:
        """See `History`: commits that divide the rest into equal halves come first."""
        listed = run([
            "git", "-C", str(self._repository), "rev-list", "--bisect-all", bad, *(f"^{one}" for one in good),
        ])  # fmt: skip
        if listed.returncode != 0:
            raise UserError(
                f"git cannot list the commits of `{self._repository}`: {last_line(listed.stderr)}"
            )
        return [line.split()[0] for line in listed.stdout.splitlines() if line.split()[0] != bad]


def commit_text(repository: Path, commit: str) -> str:
    """A commit with its subject."""
    told = run(["git", "-C", str(repository), "log", "-1", "--format=%h %s", commit]).stdout.strip()
    return told or commit


def patches_line(patches: Sequence[Patch]) -> Line:
    """The states of a series: no patch, the first one, the first two, and so on.

    A state has the name of its last patch. Raises `UserError` if a name occurs twice.
    """
    names = [patch.name for patch in patches]
    if len(set(names)) < len(names) or NONE in names:
        raise UserError("the patches of a series need different names")
    return Line([NONE, *names])


@dataclass
class Builder:
    """Builds the state of a series or a revision: as the kernel `bisect`, which the next state replaces, or `named`."""

    source: Callable[[str], tuple[Source, list[Patch]]]
    """The source and the patches of a state."""
    jobs: int
    say: Callable[[str], None]
    named: Callable[[str, list[Patch]], str] = lambda _source, _patches: _NAME
    """The name of the kernel of a source, which is given by its name, with patches."""
    variant: Variant = PLAIN

    def __call__(self, state: str) -> str:
        """The name of the kernel. Raises `UnbuildableError`."""
        counted = Counted(lambda text: self.say(f"{state}: {text}"))
        try:
            source, patches = self.source(state)
            kernel, _ = building.build(
                source,
                kernel_name(self.named(source.name, patches), self.variant),
                users=patches,
                variant=self.variant,
                jobs=self.jobs,
                say=counted.say,
                stepped=counted.stepped,
            )
        except UserError as error:
            raise UnbuildableError(str(error)) from None
        return kernel.name


def built(state: str) -> str:
    """A state that is a kernel of the store."""
    return store.find(state).name
