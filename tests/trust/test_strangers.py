"""Plans and result folders of others: nothing of them is executed before the user has accepted it."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import folders
import sealed
from tcpassay import _native, load
from tcpassay.errors import UserError
from tcpassay.messages import METRICS_ONLY, CaseRequest
from tcpassay.run.journal import Journal
from tcpassay.run.pool import Limits, Pool
from tcpassay.substrate import host, substrate_of
from tcpassay.testbed import file as testbeds
from tcpassay.trust import accepted, ask, consent, needs
from tcpassay.trust.consent import Consent

# The file leaves a mark when it is executed.
CODE = """\
__import__("pathlib").Path({mark!r}).touch()


class Mine:
    def __init__(self, random): pass
    def on(self, view, event): pass
"""
PLAN = """\
name = "theirs"
[fixed]
"app.duration" = "50ms"
[axes]
"stack.cc" = ["reno", "python:mine.py:Mine"]
[collect]
events = true
"""
REFUSED = "the command would execute or read these files, which you have neither accepted nor run before"


class Place:
    """A folder with a plan, its code, and the results of another user's run of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = path / "executed"
        self.results = path / "theirs"
        self.code = CODE.format(mark=str(self.mark))
        (path / "mine.py").write_text(self.code, encoding="utf-8")
        (path / "plan.toml").write_text(PLAN, encoding="utf-8")

    def tcpassay(self, *words: str, user: str = "me") -> subprocess.CompletedProcess[str]:
        """A command of a user."""
        return subprocess.run(
            [sys.executable, "-m", "tcpassay", *words],
            cwd=self.path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=os.environ
            | {"XDG_STATE_HOME": str(self.path / user), "XDG_CONFIG_HOME": str(self.path / "config")},
        )

    def executed(self) -> bool:
        """Whether the code was executed since the last question."""
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return there

    def digest(self, name: str = "theirs/inputs/mine.py") -> str:
        return hashlib.sha256((self.path / name).read_bytes()).hexdigest()

    def case(self, cc: str = "python:mine.py:Mine") -> str:
        return next(run["case"] for run in load(self.results).runs if run["triples"]["stack.cc"] == cc)

    def change(self, **triples: str) -> None:
        """Changes the settings of all runs of the result, with correct checksums of all files."""
        result = folders.result(self.results)
        for run in result["runs"]:
            run["triples"] |= {name.replace("__", "."): value for name, value in triples.items()}
        for name in result["files"]:
            result["files"][name] = sealed.checksum((self.results / name).read_bytes())
        folders.write(self.results, result)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("made"))
    done = place.tcpassay("run", "plan.toml", "--out", "theirs", user="stranger")
    assert done.returncode == 0, done.stderr
    assert place.executed()
    return place


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    """A copy. Its code leaves the mark of the original."""
    shutil.copytree(made.path, tmp_path, dirs_exist_ok=True)
    copy = Place.__new__(Place)
    copy.path, copy.mark, copy.code = tmp_path, made.mark, made.code
    copy.results = tmp_path / "theirs"
    copy.mark.unlink(missing_ok=True)
    return copy


def test_a_plan_that_is_read_executes_nothing(place: Place) -> None:
    for words in (("plan", "plan.toml"), ("run", "plan.toml", "--dry-run"), ("inspect", "plan.toml")):
        done = place.tcpassay(*words)
        assert done.returncode == 0, done.stderr
        assert not place.executed(), words
    assert not (place.path / "me").exists()


def test_a_plan_with_a_class_that_is_not_there_is_refused_without_executing_the_file(place: Place) -> None:
    (place.path / "mine.py").write_text(place.code.replace("class Mine", "class Other"), encoding="utf-8")
    done = place.tcpassay("plan", "plan.toml")
    assert done.returncode == 2
    assert "mine.py has no class `Mine`" in done.stderr
    assert not place.executed()


def test_a_class_that_cannot_be_created_is_told_before_anything_is_written(place: Place) -> None:
    broken = place.code.replace("random): pass", "random): raise ValueError('of mine')")
    (place.path / "mine.py").write_text(broken, encoding="utf-8")
    done = place.tcpassay("run", "plan.toml", "--out", "new")
    assert done.returncode == 2
    assert "ValueError: of mine" in done.stderr
    assert not (place.path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        "report theirs",
        "table theirs",
        "compare theirs theirs",
        "inspect theirs",
        "pairs theirs",
        "log theirs CASE",
    ],
)
def test_commands_that_read_results_execute_nothing_and_need_no_consent(place: Place, words: str) -> None:
    done = place.tcpassay(*words.replace("CASE", place.case()).split())
    assert done.returncode == 0, done.stderr
    assert not place.executed()


@pytest.mark.parametrize(
    "words",
    [
        "judge theirs",
        "replay theirs CASE",
        "replay theirs RENO",
        "isolate theirs",
        "explain theirs x",
        "run --resume theirs",
    ],
)
def test_commands_that_repeat_runs_refuse_the_code_and_name_file_and_digest(place: Place, words: str) -> None:
    words = words.replace("CASE", place.case()).replace("RENO", place.case("reno"))
    done = place.tcpassay(*words.split())
    assert done.returncode == 2
    assert REFUSED in done.stderr
    assert f"theirs/inputs/mine.py: a controller in Python, SHA-256 {place.digest()}" in done.stderr
    assert not place.executed()
    assert not (place.path / "me").exists()


def test_a_folder_is_extended_with_a_plan_without_its_code_only_if_the_code_is_accepted(place: Place) -> None:
    (place.path / "plan.toml").write_text(
        PLAN.replace(', "python:mine.py:Mine"', ', "cubic"'), encoding="utf-8"
    )
    words = ("run", "plan.toml", "--extend", "--force", "--out", "theirs")
    done = place.tcpassay(*words)
    assert done.returncode == 2
    assert REFUSED in done.stderr
    done = place.tcpassay(*words, "--allow-code")
    assert done.returncode == 0, done.stderr
    assert not place.executed()


def test_accepted_code_is_executed_and_remembered_by_its_digest(place: Place) -> None:
    case = place.case()
    done = place.tcpassay("replay", "theirs", case, "--allow-code")
    assert done.returncode == 0, done.stderr
    assert place.executed()
    again = place.tcpassay("replay", "theirs", case)
    assert again.returncode == 0, again.stderr
    assert place.executed()
    list_ = place.path / "me" / "tcpassay" / "accepted.jsonl"
    (row,) = [json.loads(line) for line in list_.read_text(encoding="utf-8").splitlines()]
    assert row["sha256"] == place.digest()
    assert list_.stat().st_mode & 0o777 == 0o600
    # One byte more is another file.
    with (place.results / "inputs" / "mine.py").open("a", encoding="utf-8") as file:
        file.write("\n")
    changed = place.tcpassay("replay", "theirs", case)
    assert changed.returncode == 2
    assert place.digest() in changed.stderr
    assert not place.executed()


def test_a_plan_that_the_user_runs_is_consent_to_its_code_also_in_folders(place: Place) -> None:
    done = place.tcpassay("run", "plan.toml", "--out", "mine")
    assert done.returncode == 0, done.stderr
    assert place.executed()
    for folder in ("mine", "theirs"):
        done = place.tcpassay("replay", folder, place.case())
        assert done.returncode == 0, done.stderr
        assert place.executed()


def test_digests_that_a_folder_states_have_no_effect(place: Place) -> None:
    assert place.tcpassay("run", "plan.toml", "--out", "mine").returncode == 0
    assert place.executed()
    other = place.code + "# and something else\n"
    (place.results / "inputs" / "mine.py").write_text(other, encoding="utf-8")
    # All checksums are correct, and the name of the file contains the digest of accepted code.
    place.change(stack__cc=f"python:mine.py:Mine@{sealed.checksum(other.encode())}")
    done = place.tcpassay(
        "replay", "theirs", place.case(f"python:mine.py:Mine@{sealed.checksum(other.encode())}")[:4]
    )
    assert done.returncode == 2, done.stdout
    assert hashlib.sha256(other.encode()).hexdigest() in done.stderr
    assert not place.executed()


def asked(base: Path, allowed: Consent) -> tuple[str, str]:
    """Outcome and message of a run with the code in `base` by a worker with this consent."""
    case = {"app.duration": "20ms", "stack.cc": "python:mine.py:Mine"}
    request = CaseRequest(
        substrate="model", collect=METRICS_ONLY, triples=case, base=str(base), consent=allowed
    )
    ((answered,),) = Pool(1, Limits(60.0)).run([request])
    return answered[1].outcome, answered[1].message


def test_a_worker_executes_only_code_with_an_accepted_digest_whatever_the_request_names(place: Place) -> None:
    before = Consent(code=frozenset([place.digest("mine.py")]))
    assert asked(place.path, before)[0] == "done"
    assert place.executed()
    # The file is replaced after it was accepted.
    (place.path / "mine.py").write_text(place.code + "# replaced\n", encoding="utf-8")
    for allowed in (before, Consent()):
        outcome, message = asked(place.path, allowed)
        assert outcome == "failed"
        assert f"this code was not accepted (SHA-256 {place.digest('mine.py')})" in message
        assert not place.executed()


def test_a_check_of_a_case_executes_nothing_even_if_the_code_is_accepted(place: Place) -> None:
    consent.grant([place.digest("mine.py")])
    said = substrate_of("model").check({"stack.cc": "python:mine.py:Mine"}, str(place.path))
    assert said["stack.cc"].startswith("python:mine.py:Mine@")
    assert not place.executed()


@pytest.mark.parametrize("where", ["result", "plan", "journal", "cause", "recording"])
def test_code_is_found_wherever_a_folder_names_it(place: Place, where: str) -> None:
    (place.results / "inputs" / "other.py").write_text(place.code, encoding="utf-8")
    named = "python:other.py:Mine"
    if where == "result":
        place.change(sender0__x="1", **{"sender/stack.cc": named})
    elif where == "plan":
        (place.results / "plan.toml").write_text(PLAN.replace("mine.py", "other.py"), encoding="utf-8")
    elif where == "journal":
        with Journal.open(place.results) as journal:
            generation = [{"case": "x", "triples": {"stack.cc": named}}]
            journal.note(**{"generation.000001": json.dumps(generation)})
    elif where == "cause":
        (place.results / "isolate").mkdir()
        text = json.dumps({"cause": [{"path": "stack.cc", "value": named}]})
        (place.results / "isolate" / "x.json").write_text(text, encoding="utf-8")
    else:
        for index in (place.results / "recordings").glob("*/recording.json"):
            content = json.loads(index.read_text(encoding="utf-8"))
            content["header"]["case"] = [{"entity": "", "parameter": "stack.cc", "value": named}]
            sealed.write(index, content)
        (place.results / "result.json").unlink()
    assert "other.py" in {one.name for one in needs.of_folder(place.results).code}


@pytest.mark.parametrize("how", ["absolute", "climbs", "link"])
def test_a_file_outside_of_the_folder_is_not_read_without_consent(place: Place, how: str) -> None:
    secret = place.path / "secret.txt"
    secret.write_text("0 10Mbit\n", encoding="utf-8")
    if how == "link":
        (place.results / "inputs" / "up.txt").symlink_to(secret)
    name = {"absolute": str(secret), "climbs": "../../secret.txt", "link": "up.txt"}[how]
    place.change(link__rate=f"trace:{name}", stack__cc="reno")
    (place.results / "plan.toml").unlink()
    done = place.tcpassay("replay", "theirs", load(place.results).runs[0]["case"])
    assert done.returncode == 2
    assert REFUSED in done.stderr
    assert "a file that is not in the folder, SHA-256" in done.stderr


def test_a_script_of_a_folder_executes_no_shell_commands(place: Place) -> None:
    script = place.results / "inputs" / "s.pkt"
    script.write_text(
        f"0 `touch {place.mark}`\n+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n", encoding="utf-8"
    )
    result = folders.result(place.results)
    run = result["runs"][0]
    run["script"] = {"file": "s.pkt", "profile": "linux", "loose": False, "options": [["allow-shell", ""]]}
    run["triples"], result["files"] = {}, {}
    folders.write(place.results, result)
    done = place.tcpassay("replay", "theirs", run["case"], "--allow-code", "--json")
    assert not place.executed()
    assert json.loads(done.stdout)["message"] == "`allow-shell`: a case never executes shell commands"


def ssh_that_leaves_a_mark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = place.path / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f"#!/bin/sh\ntouch {place.mark}\nexit 255\n", encoding="utf-8")
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")


LAB = """\
[[host]]
name = "a"
ssh = "a"
role = "sender"
[[host]]
name = "b"
ssh = "b"
role = "receiver"
[[link]]
between = ["a:eth1", "b:eth1"]
"""


def test_a_plan_or_folder_does_not_choose_the_file_of_a_testbed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_that_leaves_a_mark(place, monkeypatch)
    for folder in (place.path, place.results / "inputs"):
        (folder / "lab.toml").write_text(LAB, encoding="utf-8")
    for named in ("./lab.toml", "lab.toml", "theirs/inputs/lab.toml", "~/lab.toml", "../lab"):
        text = PLAN.replace("[fixed]", f'substrates = ["remote:{named}"]\n[fixed]')
        (place.path / "remote.toml").write_text(text, encoding="utf-8")
        for words in (("plan", "remote.toml"), ("run", "remote.toml", "--dry-run"), ("run", "remote.toml")):
            done = place.tcpassay(*words)
            assert done.returncode == 2
            assert "`remote:NAME` for a testbed" in done.stderr
    result = folders.result(place.results)
    for run in result["runs"]:
        run["substrate"] = "remote:theirs/inputs/lab.toml"
    folders.write(place.results, result)
    done = place.tcpassay("replay", "theirs", place.case("reno"), "--allow-code")
    assert done.returncode == 2
    assert "its file is given by `--testbed FILE`" in done.stderr
    assert not place.executed()


@pytest.mark.usefixtures("agent")
def test_only_commands_that_run_cases_connect_to_a_testbed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_that_leaves_a_mark(place, monkeypatch)
    (place.path / "lab.toml").write_text(LAB, encoding="utf-8")
    text = (
        'name = "remote"\nsubstrates = ["remote:lab"]\n[fixed]\n"app.duration" = "1s"\n"stack.cc" = "cubic"\n'
    )
    (place.path / "remote.toml").write_text(text, encoding="utf-8")
    for words in (("plan",), ("run", "--dry-run"), ("inspect",)):
        done = place.tcpassay(*words, "remote.toml")
        assert done.returncode == 0, done.stderr
        assert not place.executed()
    unknown = place.tcpassay("run", "remote.toml", "--out", "new")
    assert unknown.returncode == 2
    assert "there is no testbed `lab`" in unknown.stderr
    assert not place.executed()
    for option in ("lab.toml", "lab=lab.toml"):
        done = place.tcpassay("run", "remote.toml", "--out", "new", "--testbed", option)
        assert done.returncode == 2
        assert "host `a`: ssh ended with exit code 255" in done.stderr
        assert place.executed()
        assert not (place.path / "new").exists()


def test_testbed_files_of_the_command_line_are_for_the_names_they_give_and_one_alone_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/settings")
    for name in ("old", "new"):
        (tmp_path / f"{name}.toml").write_text(LAB, encoding="utf-8")
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    ask.testbeds([str(old), f"head={new}"])
    assert [testbeds.find(name) for name in ("old", "head", "lab")] == [old, new, old]
    ask.testbeds([str(old), str(new)])
    assert [testbeds.find(name) for name in ("old", "new")] == [old, new]
    assert testbeds.find("lab") == Path("/settings/tcpassay/testbeds/lab.toml")
    with pytest.raises(UserError, match="there is no such file"):
        ask.testbeds(["none.toml"])


def test_inspect_lists_what_a_folder_needs_and_whether_it_is_accepted(place: Place) -> None:
    listed = json.loads(place.tcpassay("inspect", "theirs", "--json").stdout)
    (code,) = listed["code"]
    assert (code["sha256"], code["accepted"]) == (place.digest(), False)
    assert code["file"] == "theirs/inputs/mine.py"
    assert listed["made_by"]["tcpassay"] == listed["this_version"]["tcpassay"]
    assert (listed["substrates"], listed["outside"]) == (["model"], [])
    assert place.tcpassay("judge", "theirs", "--allow-code").returncode == 0
    assert json.loads(place.tcpassay("inspect", "theirs", "--json").stdout)["code"][0]["accepted"] is True


def test_inspect_lists_testbeds_and_kernels_of_a_plan_that_this_machine_lacks(place: Place) -> None:
    text = 'name = "x"\nsubstrates = ["remote:lab", "kernel:6.99", "host"]\n[fixed]\n"stack.cc_engine" = "cc.o"\n'
    (place.path / "x.toml").write_text(text, encoding="utf-8")
    (place.path / "cc.o").write_bytes(b"\x7fELF")
    listed = json.loads(place.tcpassay("inspect", "x.toml", "--json").stdout)
    assert (listed["testbeds"], listed["kernels"]) == ({"lab": False}, {"6.99": False})
    (code,) = listed["code"]
    assert (code["is"], code["sha256"]) == ("a controller as BPF object file", place.digest("cc.o"))


def test_a_list_of_another_form_or_of_another_user_accepts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    digest = "a" * 64
    accepted.place().parent.mkdir()
    lines = ["", "[1]", "{", '{"sha256": 7}', '{"sha256": "abc"}', "[" * 5000, json.dumps({"sha256": digest})]
    accepted.place().write_text("\n".join(lines), encoding="utf-8")
    assert accepted.known() == {digest}
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self: replace_owner(stat(self)))
    assert accepted.known() == frozenset()


def replace_owner(status: os.stat_result) -> os.stat_result:
    values = list(status)
    values[4] = status.st_uid + 1
    return os.stat_result(values)


def test_nothing_is_written_if_the_list_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert "not a directory" in accepted.add([("a" * 64, tmp_path)])
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert accepted.place() == tmp_path / ".local" / "state" / "tcpassay" / "accepted.jsonl"


@pytest.mark.parametrize("text", ["(" * 5000, "a" * (1 << 20) + "b", "\0", "x = " + "-" * 100_000 + "1"])
def test_a_source_that_cannot_be_read_is_refused_with_a_message(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(_native.CaseError) as refused:
        substrate_of("model").check({"stack.cc": "python:mine.py:Mine"}, str(tmp_path))
    assert refused.value.args[0][0][0] == "stack.cc"


def test_consent_is_a_part_of_each_request() -> None:
    request = CaseRequest(substrate="model", collect=METRICS_ONLY)
    assert request.consent == Consent()
    consent.grant(["a" * 64])
    made = CaseRequest(substrate="model", collect=METRICS_ONLY)
    assert made.consent == replace(Consent(), code=frozenset(["a" * 64]))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("report theirs", "report.html"),
        ("isolate theirs --allow-code", "isolate"),
        ("judge theirs --allow-code", "isolate"),
    ],
)
def test_nothing_is_written_through_a_link_in_a_folder(place: Place, words: str, name: str) -> None:
    victim = place.path / "victim"
    if name == "report.html":
        victim.write_text("mine", encoding="utf-8")
    else:
        (victim / ".work" / "mine").mkdir(parents=True)
    (place.results / "findings.json").unlink(missing_ok=True)
    (place.results / name).symlink_to(victim)
    done = place.tcpassay(*words.split())
    assert f"theirs/{name}: it is a symbolic link; results are not written through links" in (
        "".join((done.stdout + done.stderr).replace("\n", " ").split("  "))
    )
    assert not (place.results / "findings.json").exists()
    assert (victim / ".work" / "mine").is_dir() if victim.is_dir() else victim.read_text("utf-8") == "mine"


def test_an_agent_reads_the_object_file_that_was_accepted_whatever_becomes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, asked = tmp_path / "cc.o", tmp_path / "asked"
    file.write_bytes(b"\x7fELF accepted")
    agent = tmp_path / "agent"
    # It also tries to change the content.
    agent.write_text(
        f"""#!{sys.executable}
import json, os, sys
request = json.load(sys.stdin)
content = request["objects"]["cc.o"]
try:
    os.write(os.open(content, os.O_RDWR), b"changed")
except OSError as error:
    refused = error.errno
print(open(content, "rb").read(), refused, file=open({str(asked)!r}, "w"))
""",
        encoding="utf-8",
    )
    agent.chmod(0o755)
    monkeypatch.setenv("TCPASSAY_AGENT", str(agent))
    real = consent.require

    def changed(content: bytes, name: str) -> None:
        real(content, name)
        file.write_bytes(b"\x7fELF another")

    def ran() -> str:
        return host.run_case(
            triples={"sender/stack.cc_engine": "cc.o"},
            seed=1,
            base=str(tmp_path),
            collect={},
            folder=str(tmp_path / "out"),
        ).message

    assert "cc.o: this code was not accepted" in ran()
    assert not asked.exists()
    consent.grant([hashlib.sha256(b"\x7fELF accepted").hexdigest()])
    monkeypatch.setattr(consent, "require", changed)
    assert "the agent ended with exit code 0" in ran()
    assert asked.read_text(encoding="utf-8") == rf"b'\x7fELF accepted' {errno.EPERM}" + "\n"
