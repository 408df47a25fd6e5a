"""Kills at random moments: the hosts are as they were before.

`make check` has a sample. `make testbed` has a hundred (the environment variable TCPASSAY_KILLS); TCPASSAY_KILLS_SEED
draws other ones.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import beds
import testbeds
from beds import LARGE, plan, start
from patience import until

KILLS = int(os.environ.get("TCPASSAY_KILLS", "12"))
SEED = int(os.environ.get("TCPASSAY_KILLS_SEED", "1"))
STAGES = ("connected", "reserved", "begun", "running")
VICTIMS = {
    "ssh": STAGES[1:],
    # An agent that only checked the case is not missed by a run that has begun.
    "agent": STAGES[1:],
    "supervisor": STAGES[1:],
    "run": STAGES[2:],
    "controller": STAGES,
}
"""For each kind of process the stages of a run at which it exists."""
MARGIN_S = 0.3
"""A kill follows the stage of a run by a random time up to this one, in seconds."""


def reached(testbed: testbeds.Testbed, stage: str) -> bool:
    """Whether a run is at this stage or behind it."""
    living = testbed.processes()
    match stage:
        case "connected":
            return bool(testbed.serving())
        case "reserved":
            return bool(living.supervisors)
        case "begun":
            return bool(living.runs)
        case _:
            return len(living.runs) == len(beds.ROLES) and all(beds.netns(one) for one in living.runs)


def victims(testbed: testbeds.Testbed, kind: str) -> list[int]:
    """The processes of this kind that exist now."""
    living = testbed.processes()
    match kind:
        case "ssh":
            return living.ssh
        case "agent":
            return living.agents or testbed.serving()
        case "supervisor":
            return living.supervisors
        case _:
            return living.runs


def killed(one: int) -> bool:
    """Kills a process; false if it has ended."""
    try:
        os.kill(one, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill(testbed: testbeds.Testbed, draw: random.Random, process: subprocess.Popen[bytes], kind: str) -> str:
    """Kills a process of this kind, or the controller if there is none. Returns the kind of what was killed."""
    if kind != "controller" and (there := victims(testbed, kind)) and killed(draw.choice(there)):
        # Without its supervisor a run goes on; then the controller is killed, too.
        if kind != "supervisor":
            return kind
        time.sleep(draw.uniform(0, MARGIN_S))
    else:
        kind = "controller"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return kind


def test_hosts_are_as_before_after_kills_at_random_moments(testbed: testbeds.Testbed, tmp_path: Path) -> None:
    draw = random.Random(SEED)  # noqa: S311 - moments of a test
    before = beds.states_after_a_check(testbed)
    count: Counter[str] = Counter()
    changed = 0
    # The stages are drawn first: how many processes there are to choose from depends on the moment.
    kinds = [list(VICTIMS)[number % len(VICTIMS)] for number in range(KILLS)]
    stages = [draw.choice(VICTIMS[kind]) for kind in kinds]
    for number, (kind, stage) in enumerate(zip(kinds, stages, strict=True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start(testbed, plan(testbed, folder, "300s", LARGE), folder / "out")
        until(
            lambda stage=stage, process=process: process.poll() is not None or reached(testbed, stage), stage
        )
        assert process.poll() is None, process.communicate()[0]
        time.sleep(draw.uniform(0, MARGIN_S))
        changed += "mtu 4000" in testbed.call("gamma", "ip", "link", "show", "eth1")
        count[kill(testbed, draw, process, kind)] += 1
        process.communicate()
        # 2: the connection ended while the plan was checked.
        assert process.returncode in {1, 2, -signal.SIGKILL}, (stage, kind)
        until(lambda: not testbed.serving(), f"the agents end after a kill of {kind}")
        testbed.settled(before)
        for name in beds.ROLES:
            assert testbed.call(name, "ls", "/var/lib") == "", (stage, kind, name)
    # The kills met each kind of process, and hosts that were changed.
    assert set(count) == set(VICTIMS) or KILLS < 12
    assert changed > 0
    assert count.total() == KILLS
