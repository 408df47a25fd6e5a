"""How far the build of a kernel is, on a terminal and in the log of a CI."""

from collections.abc import Callable
from typing import Final, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tcpassay.kernel.kbuild import STEPS, WHOLE
from tcpassay.pace import Pace

_SHOWN: Final = 50
"""Characters of the name of a file on a terminal."""


class Counted:
    """Turns the steps of a build into words: `step 412, net/ipv4/tcp_input.o`, of about how many in a whole build."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._count = 0
        self._of = ""
        self.words = ""
        """The last step."""

    def say(self, text: str) -> None:
        """The next stage."""
        self._of = f" of about {STEPS}" if text == WHOLE else ""
        self._count = 0
        self._tell(text)

    def stepped(self, file: str) -> None:
        """A file that make has written."""
        self._count += 1
        self.words = f"step {self._count}{self._of}, {file[-_SHOWN:]}"
        self._tell(self.words)


class Building:
    """The progress of `kernel build`: `with Building("6.1", console) as progress`.

    Without a terminal each stage is a line, and while files are compiled a line comes every half minute.
    """

    def __init__(self, name: str, console: Console) -> None:
        self._name = name
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            TextColumn("{task.fields[made]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(f"kernel {name}", total=None, made="")
        self._pace = Pace(console)
        self._counted = Counted(lambda text: self._progress.update(self._task, made=text))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def say(self, text: str) -> None:
        """The next stage of the build."""
        self._counted.say(text)
        if not self._console.is_terminal:
            self._console.print(f"kernel {self._name}: {text}", highlight=False, markup=False, soft_wrap=True)

    def stepped(self, file: str) -> None:
        """A file that make has written."""
        self._counted.stepped(file)
        self._pace.say(lambda: f"kernel {self._name}: {self._counted.words}")
