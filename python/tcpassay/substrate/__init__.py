"""Substrates: the interface for checking and running cases on the model, a guest, this machine or a testbed.

A plan names substrates: `model`, `model:STACK`, `kernel`, `kernel:NAME`, `host` or `remote:NAME`. Plans, workers
and replay use the interface `Substrate` and do not depend on a particular substrate.
"""

import platform
from functools import cache
from typing import Final

from tcpassay.errors import UserError
from tcpassay.substrate.base import Substrate
from tcpassay.substrate.model import Model

BUILT: Final = ("model", "model:STACK", "kernel", "kernel:NAME", "host", "remote:NAME")
"""The substrates that plans may use in this version."""


def substrate_of(name: str) -> Substrate:
    """The substrate of this name. Raises `UserError` for an unknown name."""
    kind, _, which = name.partition(":")
    if kind == "kernel":
        from tcpassay.substrate.kernel import Kernel  # noqa: PLC0415 - a worker of the model starts without it

        return Kernel(which or None)
    if name == "host":
        from tcpassay.substrate.host import Host  # noqa: PLC0415 - a worker of the model starts without it

        return Host()
    if kind == "remote" and which:
        from tcpassay.substrate.remote import Remote  # noqa: PLC0415 - a worker of the model starts without it

        return Remote(which)
    if kind == "model" and which:
        return Model(which)
    if name != "model":
        raise UserError(f"this version has no substrate `{name}`; allowed are {', '.join(BUILT)}")
    return Model()


@cache
def release(name: str) -> str | None:
    """The Linux version of a substrate with the hash of its source, or the version of its TCP; `None` for the model."""
    kind, _, which = name.partition(":")
    if kind == "host":
        return platform.release()
    if kind == "remote" and which:
        from tcpassay.substrate import remote  # noqa: PLC0415 - a worker of the model starts without it

        return remote.release(which)
    if kind == "model" and which:
        from tcpassay.stacks.catalogue import column  # noqa: PLC0415 - a worker of the model starts without it

        return column(which)
    if kind != "kernel":
        return None
    from tcpassay.kernel import store  # noqa: PLC0415 - a worker of the model starts without it

    try:
        found = store.find(which or None)
    except UserError:
        return None
    return f"{found.release} ({found.key[:12]})"
