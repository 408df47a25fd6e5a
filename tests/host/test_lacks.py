"""Without root, `tc` or BPF: messages, and the remaining features. Programs are hidden in a mount namespace."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tcpassay.substrate.agent import agent_program

TC = shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin:/bin")
NO_TC = f"mount --bind /dev/null {TC and os.path.realpath(TC)}"
NO_TYPES = "mount -t tmpfs none /sys/kernel/btf"
LIMITER = ("limiter", "apply", "lo", "1Gbit", "30KB", "data", "auto")


def without(hide: str, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The agent where something is hidden; in a network namespace of its own, should it do something all the same."""
    command = f"{hide} && exec {shlex.join([str(agent_program()), *words])}"
    return subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", command],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def errors(hide: str, triples: dict[str, Any]) -> dict[str, str]:
    """The refused settings of a case, with the reasons."""
    told = without(hide, "check", "host", given=json.dumps({"triples": triples, "base": "/"}) + "\n")
    assert told.returncode == 0, told.stderr
    return {error["path"]: error["why"] for error in json.loads(told.stdout).get("errors", [])}


@pytest.fixture(scope="module", autouse=True)
def _hides() -> None:
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")


def test_without_tc_it_is_named_with_its_package() -> None:
    for words in (("check", "host"), ("host",), LIMITER):
        told = without(NO_TC, *words, given=json.dumps({"triples": {}, "base": "/"}) + "\n")
        said = told.stdout + told.stderr
        assert "`tc` cannot be run" in said, said
        assert "iproute2" in said


def test_without_the_kernels_types_programs_are_refused_and_the_rest_is_not() -> None:
    if not Path("/sys/kernel/btf").exists():
        pytest.skip("this kernel does not describe its types anyway")
    told = without(NO_TYPES, "bpf")
    assert told.returncode == 1
    assert "CONFIG_DEBUG_INFO_BTF" in told.stderr or "this build has no BPF" in told.stderr
    told = without(NO_TYPES, *LIMITER)
    assert told.returncode == 1
    assert "CONFIG_DEBUG_INFO_BTF" in told.stderr or "this build has no BPF" in told.stderr
    asked = {"link.delay": "0s", "queue.kind": "htb", "queue.rate": "1Gbit", "queue.ecn_threshold": "30KB"}
    refused = errors(
        NO_TYPES, asked | {"queue.ecn_mark": "ack", "stack.ecn": "classic", "stack.cc_engine": "shim"}
    )
    assert {"queue.ecn_mark", "stack.cc_engine"} <= set(refused)
    assert errors(NO_TYPES, asked | {"stack.cc": "cubic"}) == {}


def test_without_root_the_limiter_reports_that_it_needs_root() -> None:
    # The agent may be in a folder that other users cannot read.
    with agent_program().open("rb") as program:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "--", f"/dev/fd/{program.fileno()}", *LIMITER],
            pass_fds=[program.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "root" in done.stderr, done.stderr
