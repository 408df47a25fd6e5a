"""Diagnosis of the substrates: which of them this machine can run, and what is missing for the others.

The checks change nothing. Whether this version of tcpassay supports a substrate is reported separately from whether the
machine could run it.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from tcpassay import _native, scratch
from tcpassay._native import __version__
from tcpassay.errors import UserError
from tcpassay.kernel import build, store
from tcpassay.messages import METRICS_ONLY, Outcome, Triples
from tcpassay.stacks.build import RECIPES, is_built
from tcpassay.stacks.catalogue import version
from tcpassay.substrate import kernel as guest
from tcpassay.substrate.agent import agent_program, check_case, how_to_get_agent

Mark = Literal["ok", "missing", "worse"]

_TRY_SECONDS: Final = 10
# A case of a few milliseconds.
_TRIPLES: Final[Triples] = {"app.duration": "5ms", "link.rate": "10Mbit"}
_BOOT_SECONDS: Final = 60
_ABOUT: Final = {
    "model": "the model TCP in virtual time",
    "kernel": "a Linux kernel as a process, in virtual time",
    "host": "the running kernel of this machine, in real time",
    "remote": "the hosts of a testbed, in real time",
}


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement of a substrate."""

    what: str
    mark: Mark
    """`worse`: the substrate works without it, with limitations."""
    found: str
    do: str = ""
    """How to satisfy the requirement."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a substrate can be used."""

    substrate: str
    about: str
    built: bool
    """Whether this version of tcpassay supports the substrate."""
    checks: tuple[Check, ...]

    @property
    def able(self) -> bool:
        """Whether the machine satisfies the requirements."""
        return all(check.mark != "missing" for check in self.checks)

    @property
    def usable(self) -> bool:
        """Whether a plan can run on the substrate now."""
        return self.built and self.able

    def as_json(self) -> dict[str, object]:
        """The diagnosis as a JSON object."""
        return asdict(self) | {"able": self.able, "usable": self.usable}


def diagnose() -> list[Diagnosis]:
    """Checks every substrate."""
    made = {
        "model": (True, model()),
        "kernel": (True, kernel()),
        "host": (True, host()),
        "remote": (True, remote()),
    }
    return [Diagnosis(name, _ABOUT[name], built, tuple(checks)) for name, (built, checks) in made.items()]


def model() -> list[Check]:
    """Runs a case of a few milliseconds; the model needs only the native module."""
    try:
        with scratch.folder() as folder:
            _native.run_case(_TRIPLES, 1, str(folder), METRICS_ONLY, str(folder / "run"))
    except OSError as error:
        why = f"a run cannot be written to {scratch.parent()}: {error}"
        return [Check("a run", "missing", why, "make space there, or set TMPDIR")]
    return [Check("a run", "ok", f"data plane {__version__} ran a case"), *map(_stack, RECIPES)]


def _stack(name: str) -> Check:
    """Whether hosts of the model can have a TCP that is built on request."""
    what, how = f"TCP {name}", f"tcpassay stack build {name}"
    if not is_built(name):
        return Check(what, "worse", "not built", how)
    try:
        return Check(what, "ok", version(name))
    except _native.StackError as error:
        return Check(what, "worse", error.args[1].splitlines()[0], how)


def kernel() -> list[Check]:
    """Checks for a built kernel that boots, or for the requirements of a build."""
    machine = platform.machine()
    checks = [
        Check("processor", "ok", machine)
        if machine == "x86_64"
        else Check("processor", "missing", f"User-Mode Linux has no {machine}", "use an x86_64 machine")
    ]
    try:
        checks.append(Check("agent", "ok", str(agent_program())))
    except UserError as error:
        checks.append(_no_agent(error))
    checks += [_package(*one) for one in (("ip", "iproute2"), ("tc", "iproute2"), ("setarch", "util-linux"))]
    try:
        there = store.kernels()
    except (UserError, OSError) as error:
        return [*checks, Check("kernels", "missing", str(error), "make the cache readable (TCPASSAY_CACHE)")]
    if there:
        checks.append(Check("kernels", "ok", ", ".join(f"{one.name} (Linux {one.release})" for one in there)))
        whole = all(check.mark == "ok" for check in checks)
        return [*checks, _boots(there[0].name)] if whole else checks
    tools = build.missing_tools()
    if tools:
        checks.append(
            Check(
                "compiler and tools",
                "missing",
                f"not installed: {', '.join(tools)}",
                f"apt-get install {' '.join(tools)}",
            )
        )
    else:
        checks.append(Check("compiler and tools", "ok", "all tools for a build"))
    sources = [path.name for path in sorted(Path("/usr/src").glob("linux-source-*.tar.*"))]
    can_fetch = bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))
    if sources or can_fetch:
        checks.append(Check("Linux source", "ok", ", ".join(sources) or "can be fetched by apt"))
    else:
        do = "apt-get install linux-source-6.1, or `tcpassay kernel build --source DIR`"
        checks.append(Check("Linux source", "missing", "no linux-source package in /usr/src and no apt", do))
    checks.append(
        Check("kernels", "missing", "none is built", "tcpassay kernel build (about ten minutes of CPU)")
    )
    return checks


def _boots(name: str) -> Check:
    """Runs a case of a few milliseconds: a guest boots, builds a path and verifies it."""
    with scratch.folder() as folder:
        answer = guest.run_case(
            triples=_TRIPLES,
            seed=1,
            base=str(folder),
            collect=METRICS_ONLY,
            folder=f"{folder}/run",
            kernel=name,
            patience_s=_BOOT_SECONDS,
        )
    if answer.outcome == Outcome.DONE:
        return Check("a run", "ok", f"{name} ran a case in {answer.cpu_s:.1f} s of CPU")
    said = " ".join(answer.message.split())
    return Check("a run", "missing", f"{answer.outcome}: {said[:200]}", "tcpassay kernel build")


def _package(tool: str, package: str) -> Check:
    place = _tool(tool)
    if place:
        return Check(tool, "ok", place)
    return Check(tool, "missing", "not in PATH", f"apt-get install {package}")


def remote() -> list[Check]:
    """Checks what the controller of a testbed needs; `tcpassay testbed check` checks the hosts."""
    try:
        checks = [Check("agent", "ok", str(agent_program()))]
    except UserError as error:
        checks = [_no_agent(error)]
    return [*checks, _package("ssh", "openssh-client")]


def host() -> list[Check]:
    """Checks root, namespaces and tools; also features that the kernel lacks but that are not required."""
    root = os.geteuid() == 0
    checks = [
        Check("root", "ok", "yes")
        if root
        else Check("root", "missing", f"user {os.geteuid()}", "run it as root (sudo)"),
        Check("Linux", "ok", platform.release())
        if platform.system() == "Linux"
        else Check("Linux", "missing", platform.system(), "use a Linux machine"),
    ]
    checks += [_package(*one) for one in (("ip", "iproute2"), ("tc", "iproute2"))]
    checks.append(_namespaces())
    try:
        agent: Path | None = agent_program()
        checks.append(Check("agent", "ok", str(agent)))
    except UserError as error:
        agent = None
        checks.append(_no_agent(error))
    if root and agent and all(check.mark == "ok" for check in checks):
        checks += list(_queues())
    checks.append(_controllers())
    checks += _bpf(agent)
    return checks


def _queues() -> Iterator[Check]:
    """The queueing disciplines and devices of the kernel, which the agent tries in a separate namespace."""
    bare = {"link.delay": "0s"}
    try:
        lacks = _refused(bare)
        yield (
            Check("htb, bfifo", "missing", lacks, "a kernel with CONFIG_NET_SCH_HTB and CONFIG_NET_SCH_FIFO")
            if lacks
            else Check("htb, bfifo", "ok", "rates and queues")
        )
        left = "delay, jitter, loss and duplicates are refused; rates, queues, marks, controllers and workloads work"
        yield (
            Check("netem", "worse", "this kernel has none", f"CONFIG_NET_SCH_NETEM; without it {left}")
            if _refused(bare | {"link.delay": "1ms"})
            else Check("netem", "ok", "delay, jitter, loss")
        )
        kinds = ("tbf", "red", "codel", "fq_codel", "pie", "fq")
        absent = [kind for kind in kinds if _refused(bare | {"queue.kind": kind, "queue.rate": "100Mbit"})]
        yield (
            Check(
                "other queues",
                "worse",
                f"not {', '.join(absent)}",
                "CONFIG_NET_SCH_*; queue.kind refuses these",
            )
            if absent
            else Check("other queues", "ok", ", ".join(kinds))
        )
    except (UserError, OSError) as error:
        yield Check("queues", "missing", str(error), how_to_get_agent())


def _refused(triples: Triples) -> str:
    """The reason why the agent refuses a case on this kernel; empty if it accepts the case."""
    try:
        check_case(triples, "/", "host")
    except _native.CaseError as error:
        return "; ".join(why for _, _, _, why in error.args[0])
    return ""


def _namespaces() -> Check:
    """Whether a network namespace with a veth pair can be created; it is removed with its process."""
    command = ["unshare", "--net", "ip", "link", "add", "assay0", "type", "veth", "peer", "name", "assay1"]
    if not (shutil.which("unshare") and _tool("ip")):
        return Check(
            "namespaces, veth",
            "missing",
            "unshare or ip is not installed",
            "apt-get install util-linux iproute2",
        )
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TRY_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("namespaces, veth", "missing", str(error), "allow network namespaces")
    if done.returncode == 0:
        return Check("namespaces, veth", "ok", "a namespace was created and removed")
    said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Check(
        "namespaces, veth", "missing", said, "root with CAP_NET_ADMIN, and a kernel with NET_NS and VETH"
    )


def _controllers() -> Check:
    try:
        text = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii")
    except OSError:
        return Check("controllers", "missing", "the kernel does not list them", "mount /proc")
    return Check("controllers", "ok", text.strip())


def _bpf(agent: Path | None) -> list[Check]:
    """Checks BPF: step marking, the limiter, model controllers on the real kernel."""
    left = (
        "without it queue.ecn_mark, `limiter` and controllers of the model are refused; everything else works"
    )
    if agent is None:
        return [Check("BPF", "worse", "only the agent can check it", how_to_get_agent())]
    if os.geteuid() != 0:
        return [Check("BPF", "worse", "only root may load programs", f"run it as root (sudo); {left}")]
    try:
        lacks = _lacks(agent, "bpf")
        if lacks:
            return [Check("BPF", "worse", lacks, left)]
        lacks = _lacks(agent, "bpf", "shim")
    except OSError as error:
        return [Check("BPF", "worse", str(error), how_to_get_agent())]
    shim = (
        Check("stack.cc_engine", "worse", lacks, "`shim` is refused; everything else works")
        if lacks
        else Check("stack.cc_engine", "ok", "kernel, shim, object files")
    )
    return [Check("BPF", "ok", "step marking, limiter"), shim]


def _no_agent(error: UserError) -> Check:
    """The check for a missing agent; the error message contains the remedy."""
    remedy = how_to_get_agent()
    return Check("agent", "missing", str(error).removesuffix(f"; {remedy}"), remedy)


def _lacks(agent: Path, *question: str) -> str:
    """The features that are missing according to the agent; empty if none."""
    told = subprocess.run([agent, *question], capture_output=True, text=True, check=False)  # noqa: S603
    return told.stderr.strip() if told.returncode else ""


def _tool(name: str) -> str | None:
    # The path of ordinary users often lacks the folders of administration tools.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
