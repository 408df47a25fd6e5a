"""Modules of congestion controllers: what is read of them, and that of modified Vegas in a kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.kernel import modules, store
from tcpassay.kernel.series import kernel_name

OPS = 'static struct tcp_congestion_ops my_ops = {\n\t.init = my_init,\n\t.name\t= "mine",\n};\n'
KERNEL = "6.1+mvegas"


def module(place: Path, **files: str) -> Path:
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(text)
    return place


def test_a_folder_is_the_files_of_one_module_with_the_names_that_it_registers(tmp_path: Path) -> None:
    place = module(
        tmp_path / "tcp_mine", a__c=OPS, b__c="int helper;\n", a__h="extern int helper;\n", Makefile="obj-m"
    )
    module(place, a__mod__c="MODULE_INFO(vermagic);\n")
    (one,) = modules.read([place])
    assert (one.name, one.controllers, sorted(one.files)) == ("mine", ["mine"], ["a.c", "a.h", "b.c"])
    assert kernel_name("6.1", [one]) == "6.1+mine"
    tree = tmp_path / "tree"
    (tree / "net/ipv4").mkdir(parents=True)
    (tree / "net/ipv4/Makefile").write_text("obj-y := tcp.o")
    one.apply(tree)
    assert (tree / "net/ipv4/Makefile").read_text() == "obj-y := tcp.o\nobj-y += a.o b.o\n"
    assert (tree / "net/ipv4/a.h").read_text() == "extern int helper;\n"
    with pytest.raises(UserError, match=r"this kernel has a file `net/ipv4/a\.c` itself"):
        one.apply(tree)


def test_a_bare_name_is_a_module_of_the_package_unless_it_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (ours,) = modules.read([Path("mvegas")])
    assert (ours.name, ours.controllers, list(ours.files)) == ("mvegas", ["mvegas"], ["tcp_mvegas.c"])
    module(tmp_path / "mvegas", own__c=OPS)
    assert modules.read([Path("mvegas")])[0].controllers == ["mine"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"notes__txt": "no code"}, "a module is a folder with C files"),
        ({"a__c": "int x;"}, "it has no controller"),
        ({"a__c": f"/* {OPS} */"}, "it has no controller"),
        ({"a b__c": OPS}, "only letters, digits"),
        ({"a__c": OPS + " " * (1 << 20)}, "at most 1 MB"),
    ],
)
def test_what_is_no_module_is_refused_with_the_reason(
    tmp_path: Path, files: dict[str, str], why: str
) -> None:
    with pytest.raises(UserError, match=why):
        modules.read([module(tmp_path / "m", **files)])


def test_two_modules_have_different_names(tmp_path: Path) -> None:
    first, second = module(tmp_path / "m1", a__c=OPS), module(tmp_path / "m2", b__c=OPS)
    with pytest.raises(UserError, match="`mine` is also in the module"):
        modules.read([first, second])


def test_a_module_runs_only_in_kernels_with_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('name = "m"\nsubstrates = ["model"]\n[fixed]\n"stack.cc" = "module:mine"\n')
    done = subprocess.run(
        [sys.executable, "-m", "tcpassay", "plan", plan],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stdout
    assert "a module runs in a kernel: on the substrates kernel, host and remote" in done.stderr


PLAN = f"""
name = "mvegas"
substrates = ["kernel:{KERNEL}"]
seeds = [1]
oracles = false
[fixed]
"link.rate" = "20Mbit"
"link.delay" = "20ms"
"queue.limit" = "200KB"
"stack.profile" = "linux"
# Random growth would need the random numbers of the kernel: with equal bounds its chance is 1 in 64, at six packets.
"stack.cc.alpha" = 6
"stack.cc.beta" = 6
"app.workload" = "bulk"
"app.duration" = "1500ms"
[axes]
"stack.cc" = ["mvegas", "module:mvegas"]
[collect]
events = true
packets = true
"""


def test_the_model_follows_the_module_of_modified_vegas_in_linux(tmp_path: Path) -> None:
    """Each segment of Linux with the module is sent when the model sends it: the windows of both are equal."""
    if store.read(KERNEL) is None:
        pytest.skip(f"the kernel {KERNEL} is not built: tcpassay kernel build --debian 6.1 --module mvegas")
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)

    def tcpassay(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tcpassay", *map(str, arguments)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)

    done = tcpassay("run", plan, "--out", tmp_path / "results", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    # The name of the module and that of the controller of the model are the same controller in Linux.
    assert "gave the same runs" in done.stdout
    told = json.loads(tcpassay("follow", tmp_path / "results", "--json").stdout)
    followed = [end for end in told["ends"] if end["rows"] > 500]
    assert [end["followed"] == end["rows"] for end in followed][:2] == [True, True], told["causes"]
