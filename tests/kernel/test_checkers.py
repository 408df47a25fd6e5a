"""A kernel with checkers and planted faults; skipped with a reason where it is not built.

`make kernel-variants` builds it and runs these tests; CI does not. `test_splats.py` reads such consoles.
"""

from pathlib import Path

import pytest

from lossy import LOSSY
from tcpassay.kernel import series, store
from tcpassay.messages import Answer
from tcpassay.substrate import kernel as guest

PATCH = Path(__file__).parent / "patches" / "planted-faults.patch"


@pytest.fixture(scope="module")
def checked() -> store.Kernel:
    """The kernel with checkers and faults."""
    for kernel in store.kernels():
        if kernel.variant == "debug" and PATCH.stem in kernel.series:
            return kernel
    pytest.skip(f"no kernel has checkers and faults: tcpassay kernel build --debug --patch {PATCH}")


def go(kernel: store.Kernel, folder: Path, loss: str) -> Answer:
    answer = guest.run_case(
        triples=LOSSY | {"link.loss": loss},
        seed=1,
        base=str(folder),
        collect={"series": "10ms", "warmup": "0s", "events": False, "packets": False, "deliveries": False},
        folder=str(folder / "run"),
        kernel=kernel.name,
    )
    assert answer.outcome == "done", answer.message
    return answer


def test_the_patch_with_faults_touches_one_file_of_tcp() -> None:
    (patch,) = series.read([PATCH])
    assert list(patch.touches) == ["net/ipv4/tcp_input.c"]


def test_each_planted_fault_is_a_finding_of_the_run_that_reaches_it(
    checked: store.Kernel, tmp_path: Path
) -> None:
    found = {one.title for one in go(checked, tmp_path, "1%").findings if one.oracle == "kernel-splat"}
    assert found == {
        "the kernel reports KASAN: use-after-free in tcp_planted_faults",
        "the kernel reports UBSAN: shift-out-of-bounds in net/ipv4/tcp_input.c",
        "the kernel reports possible circular locking dependency detected",
        "the kernel reports net/ipv4/tcp_input.c tcp_planted_faults",
    }


def test_a_run_that_does_not_enter_recovery_has_no_report(checked: store.Kernel, tmp_path: Path) -> None:
    answer = go(checked, tmp_path, "0")
    assert [one for one in answer.findings if one.oracle == "kernel-splat"] == []
