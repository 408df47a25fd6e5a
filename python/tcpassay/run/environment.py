"""The machine and the versions with which a plan was run. A run on the model does not depend on the machine."""

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tcpassay import _native
from tcpassay._native import __version__
from tcpassay.result_format import Environment
from tcpassay.substrate import release
from tcpassay.trust import consent

_LIBRARIES = ("numpy", "polars")


@cache
def table_version() -> str:
    """A digest of the tables of parameters and metrics, which define the meaning of cases and results."""
    tables = _native.params_json() + _native.metrics_json()
    return hashlib.sha256(tables.encode()).hexdigest()[:12]


def environment(substrates: Iterable[str], cases: Iterable[Mapping[str, object]]) -> Environment:
    """The machine, the versions, the systems of the substrates, and the programs that the cases start."""
    return {
        "tcpassay": __version__,
        "tables": table_version(),
        "kernel": platform.release(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "substrates": {name: release(name) for name in substrates},
        "commands": consent.command_digests(cases),
    }


def load() -> list[float] | None:
    """The load average over 1, 5 and 15 minutes, if the system provides it."""
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def _cpu() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
