"""Whether a script of a finding shows it on the TCP that has it: the script is run there."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.explain.adapted import adapted
from tcpassay.explain.packetdrill import TOLERANCE_US
from tcpassay.messages import Triples
from tcpassay.script import model
from tcpassay.script.files import REAL
from tcpassay.script.report import Packetdrill, Report
from tcpassay.stacks.catalogue import checked_name
from tcpassay.trust.consent import STACK

_OPTIONS: Final = (("tolerance_usecs", str(TOLERANCE_US)),)
_ROUNDS: Final = 200
"""Largest number of expectations that are replaced by what the TCP does in the script."""
_SENT: Final = re.compile(r" > (?:\[\w+\] )?([A-Z.]+ \d+:\d+\(\d+\)(?: ack \d+)?)")


@dataclass(frozen=True, slots=True)
class Tried:
    """The script that shows a finding."""

    text: str | None
    """`None` if none does, or if none was run."""
    ran: bool
    why: str = ""
    command: str = ""
    """The command that runs it."""


def reproduced(texts: Sequence[str], settings: Triples, host: str) -> Tried:
    """The first of these scripts that passes on the TCP of a host, as it is or with the behaviour in the script.

    A script with other expectations counts only if its last packet, which the finding is about, stays the same.
    """
    stack = settings.get(f"{host}/{STACK}", settings.get(STACK, "model"))
    name = str(stack)
    if name == "model":
        return Tried(
            None, ran=False, why="`tcpassay explain --script` runs scripts of the model and of Linux"
        )
    run = partial(_run, name)
    why = ""
    try:
        checked_name(name)
        for text in texts:
            report = run(text)
            if report["status"] == "pass" or (shown := _adapted(text, run)) is not None:
                passing = text if report["status"] == "pass" else shown
                where = shlex.quote(name)
                command = f"tcpassay script --on {where} --compare loose --tolerance_usecs={TOLERANCE_US} script.pkt"
                return Tried(passing, ran=True, command=command)
            line = "" if report["line"] is None else f"line {report['line']}: "
            why = why or f"{line}{report['reason']}"
    except (UserError, _native.StackError) as error:
        return Tried(None, ran=False, why=str(error).splitlines()[0])
    return Tried(None, ran=True, why=why)


def _run(stack: str, text: str) -> Report:
    return model.answer(Packetdrill(text, REAL, loose=True, options=_OPTIONS, stack=stack))


def _adapted(text: str, run: Callable[[str], Report]) -> str | None:
    """The script with the behaviour in it, if it ends with the same packet."""
    made = adapted(text, run, _ROUNDS)
    if made is None:
        return None
    before, after = _SENT.findall(text), _SENT.findall(made)
    return made if before and after and before[-1] == after[-1] else None
