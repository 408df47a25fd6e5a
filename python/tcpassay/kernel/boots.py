"""Whether a kernel that was just built boots: a guest whose init ends at once.

The end of init is a panic of every Linux; its exit code shows that init ran and ended without an error.
"""

from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.scratch import folder as scratch_folder
from tcpassay.substrate import kernel as guest

_REACHED: Final = "Attempted to kill init! exitcode=0x00000000"
_PATIENCE_S: Final = 120.0
_SHOWN: Final = 12
"""Lines of the console in a message."""


def require(image: Path, log: Path) -> None:
    """Boots the kernel and writes its console to `log`. Raises `UserError` if it does not reach init."""
    with scratch_folder() as place:
        init = place / "init"
        init.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        init.chmod(0o755)
        ended = guest.boot(image, place, 1, _PATIENCE_S)
    log.write_text(ended.console, encoding="utf-8")
    if _REACHED in ended.console:
        return
    how = f"it did not end within {_PATIENCE_S:g} s" if ended.late else f"exit code {ended.code}"
    last = "\n".join(f"    {line}" for line in ended.console.strip().splitlines()[-_SHOWN:])
    raise UserError(
        f"the kernel was built, but does not boot ({how}); its console is in {log}:\n{last or '    (nothing)'}"
    )
