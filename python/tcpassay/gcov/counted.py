"""Runs a plan on a kernel with counters."""

from dataclasses import dataclass
from pathlib import Path

from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.plan.read import Plan
from tcpassay.run.choose import choose
from tcpassay.run.execute import Local, Watch, execute
from tcpassay.run.result import Result
from tcpassay.run.session import Beginning, Session
from tcpassay.substrate import substrate_of


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the run of a plan."""

    jobs: int = 1
    filters: tuple[str, ...] = ()
    force: bool = False
    """Replace existing results."""


def kernel_with_counters(name: str | None) -> store.Kernel:
    """The kernel of this name, or the only one with counters. Raises `UserError` if it has none."""
    if name is not None:
        kernel = store.find(name)
        if kernel.notes is None:
            raise UserError(
                f"kernel `{name}` has no counters; `tcpassay kernel build --coverage` builds one that has"
            )
        return kernel
    known = [kernel for kernel in store.kernels() if kernel.notes is not None]
    if not known:
        raise UserError("no kernel has counters; `tcpassay kernel build --coverage` builds one")
    if len(known) > 1:
        names = ", ".join(f"`{kernel.name}`" for kernel in known)
        raise UserError(f"several kernels have counters: {names}; choose one with --kernel")
    return known[0]


def run_plan(plan: Plan, folder: Path, options: Options, progress: Watch | None = None) -> Result:
    """Runs a plan for a kernel with counters; the results are an ordinary result folder. Raises `UserError`."""
    for substrate in plan.spec.substrates:
        substrate_of(substrate).ready()
    how = Beginning(choose(plan, options.filters), None, frozenset())
    with Session.begin(plan, folder, how, replace_=options.force) as session:
        return execute(session, Local(options.jobs), progress)
