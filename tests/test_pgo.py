"""Profile-guided optimisation (`make pgo`): the workload, and toolchains that do not support it."""

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tcpassay import _native
from tcpassay.plan import table

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def trainer() -> ModuleType:
    """The module `tools/pgo_train.py`."""
    spec = importlib.util.spec_from_file_location("pgo_train", TOOLS / "pgo_train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases() -> list[dict[str, object]]:
    return list(trainer().cases())


def test_what_a_profile_is_taken_from_can_be_run_and_is_not_what_the_benchmark_measures() -> None:
    some = cases()
    for case in some:
        _native.check_case(case, "/")  # type: ignore[arg-type]
    assert len(some) == 110
    assert {str(case["link.rate"]) for case in some} == {"5Gbit", "400Mbit", "2500Mbit"}
    assert not {case.get("app.flows") for case in some} & {100}


def test_a_profile_is_also_taken_from_the_oracles_and_a_run_gives_the_same_digest_again() -> None:
    module = trainer()
    judged = [number for number in range(110) if number % module.JUDGED == 0]
    assert len(judged) == 37
    case = next(module.cases()) | {"app.duration": "20ms"}
    first, again, unjudged = (module.train(case, number) for number in (0, 0, 1))
    assert first == again
    assert len(first.split()) == len(unjudged.split()) == 3


def test_a_profile_has_seen_every_profile_of_a_stack() -> None:
    seen = {case["stack.profile"] for case in cases()}
    assert seen == set(table.parameters()["stack.profile"].levels)


@pytest.fixture
def without_tools(tmp_path: Path) -> dict[str, str]:
    """An environment whose Rust has no component llvm-tools, and with no profile."""
    rustc = tmp_path / "rustc"
    rustc.write_text(
        f'#!/bin/sh\ncase $1 in -vV) echo "host: here" ;; *) echo {tmp_path} ;; esac\n', encoding="ascii"
    )
    rustc.chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CARGO_TARGET_DIR": str(tmp_path)}


def pgo(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(TOOLS / "pgo.sh"), *arguments], env=env, check=False, capture_output=True, text=True
    )


def test_without_the_tools_for_a_profile_the_missing_ones_are_listed(without_tools: dict[str, str]) -> None:
    asked, told = pgo("possible", env=without_tools), pgo("take", "python", env=without_tools)
    assert (asked.returncode, told.returncode) == (1, 2)
    for answer in (asked, told):
        assert "llvm-profdata of this Rust is missing (rustup component add llvm-tools)" in answer.stderr


def test_without_a_profile_what_is_built_is_built_as_ever_and_with_one_by_it(
    without_tools: dict[str, str], tmp_path: Path
) -> None:
    show = ("use", "/bin/sh", "-c", 'echo "$RUSTFLAGS-$CARGO_BUILD_TARGET-$CARGO_TARGET_DIR"')
    env = without_tools | {"RUSTFLAGS": "", "CARGO_BUILD_TARGET": ""}
    assert pgo(*show, env=env).stdout.strip() == f"--{tmp_path}"
    (tmp_path / "pgo").mkdir()
    (tmp_path / "pgo" / "1.profdata").touch()
    told = pgo(*show, env=env).stdout.strip()
    assert told == f"-Cprofile-use={tmp_path}/pgo/1.profdata-here-{tmp_path}/pgo"
    assert pgo("use", "/bin/sh", "-c", "exit 7", env=env).returncode == 7
