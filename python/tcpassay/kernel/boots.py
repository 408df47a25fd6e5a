"""Whether a kernel that was just built boots: a guest whose init ends at once.

The end of init is a panic of every Linux; its exit code shows that init ran and ended without an error. With modules
init also prints the controllers that the kernel has registered.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.scratch import folder as scratch_folder
from tcpassay.substrate import kernel as guest

_REACHED: Final = "Attempted to kill init! exitcode=0x00000000"
_WORD: Final = "registered controllers:"
_LIST: Final = f"""
mount -t proc proc /proc && echo "{_WORD} $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
"""
_PATIENCE_S: Final = 120.0
_SHOWN: Final = 12
"""Lines of the console in a message."""


def require(image: Path, log: Path, controllers: Sequence[str] = ()) -> None:
    """Boots the kernel and writes its console to `log`.

    Raises `UserError` if it does not reach init, or has not registered one of the controllers.
    """
    with scratch_folder() as place:
        init = place / "init"
        init.write_text(f"#!/bin/sh\n{_LIST if controllers else ''}exit 0\n", encoding="utf-8")
        init.chmod(0o755)
        ended = guest.boot(image, place, 1, _PATIENCE_S)
    log.write_text(ended.console, encoding="utf-8")
    if _REACHED in ended.console:
        said = ended.console.partition(_WORD)[2].partition("\n")[0].split()
        if lacking := [name for name in controllers if name not in said]:
            raise UserError(
                f"the kernel boots, but its module did not register `{lacking[0]}`; registered are: "
                f"{', '.join(said) or 'none'}; its console is in {log}"
            )
        return
    how = f"it did not end within {_PATIENCE_S:g} s" if ended.late else f"exit code {ended.code}"
    last = "\n".join(f"    {line}" for line in ended.console.strip().splitlines()[-_SHOWN:])
    raise UserError(f"the kernel does not boot ({how}); its console is in {log}:\n{last or '    (nothing)'}")
