"""Stacks in processes: what a right one does, and what becomes of a run with a wrong one."""

import ctypes
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import plans
from patience import until
from tcpassay import _native, load
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.messages import CaseRequest, Value
from tcpassay.run import worker
from tcpassay.substrate.model import held
from tcpassay.trust import consent

CASE = {
    "app.flow_size": "200KB",
    "app.duration": "30s",
    "link.rate": "20Mbit",
    "link.delay": "5ms",
    "link.loss": "2%",
    "stack.cc": "cubic",
}
GET_CHILD_SUBREAPER = 37  # prctl(2)
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": True}

PROXY = """
mode, adapter = sys.argv[1:]
child = subprocess.Popen([adapter], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def asked(content):
    send(child.stdin, content)
    return read(child.stdout)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def damaged(packet):
    packet = bytearray(packet)
    header = 20 + (packet[32] >> 4) * 4
    if mode == "none" or len(packet) - header < 100 or len(packet) % 2:
        return bytes(packet)
    if mode == "ip":
        packet[8] ^= 1
        return bytes(packet)
    packet[-1] ^= 1
    if mode == "content":
        packet[36:38] = bytes(2)
        pseudo = bytes(packet[12:20]) + struct.pack("!HH", 6, len(packet) - 20)
        packet[36:38] = struct.pack("!H", checksum(pseudo + bytes(packet[20:])))
    return bytes(packet)


own(asked(first).replace(b"batch=1\\n", b""))
while (content := read(sys.stdin.buffer)) is not None:
    answer = asked(content)
    out, at = answer[:12], 12
    while at < len(answer):
        kind = answer[at]
        if kind in {1, 4}:
            length = struct.unpack_from("<I", answer, at + 1)[0]
            body = answer[at + 5 : at + 5 + length]
            if kind == 1 and mode != "read":
                body = damaged(body)
            if kind == 4 and mode == "read" and length:
                body = body[:-1] + bytes([body[-1] ^ 1])
            out, at = out + item(kind, body), at + 5 + length
        else:
            length = {2: 13, 3: 14}[kind]
            out, at = out + answer[at : at + length], at + length
    own(out)
"""


def run(implementation: str, where: str = "sender", **more: str) -> _native.Ran:
    triples = CASE | {f"{where}/stack.implementation": implementation} | more
    accept(triples)
    return held(triples, 1, ".", COLLECT)


def accept(triples: Mapping[str, Value]) -> None:
    commands = [consent.command(str(value)) for value in triples.values()]
    consent.grant(consent.digest(consent.command_code(one)) for one in commands if one is not None)


def failure(implementation: str, where: str = "sender") -> tuple[str, str]:
    with pytest.raises(_native.StackError) as failed:
        run(implementation, where)
    outcome, reason = failed.value.args
    assert reason.startswith(f"{where}: ")
    return outcome, reason


def test_the_example_is_at_most_100_lines_and_is_the_one_of_the_documentation() -> None:
    text = (plans.REPOSITORY / "crates/stack/examples/adapter.rs").read_text()
    assert len(text.splitlines()) <= 100
    assert f"```rust\n{text}```" in (plans.REPOSITORY / "docs/stacks.md").read_text()


@pytest.mark.parametrize("where", ["sender", "receiver"])
def test_smoltcp_in_a_process_does_what_smoltcp_in_this_process_does(adapter: Path, where: str) -> None:
    inside, outside = run("smoltcp", where), run(f"exec:{adapter}", where)
    assert (inside.trace, inside.times()) == (outside.trace, outside.times())
    assert inside.capture() == outside.capture()
    stack = json.loads(outside.index())["header"]["stacks"][0]
    assert stack["name"] == "smoltcp-process"
    assert stack["version"] == "0.14.0 (socket-tcp-reno, socket-tcp-cubic)"
    assert len(stack["digest"]) == 16


def test_the_settings_of_the_case_reach_a_process(adapter: Path) -> None:
    settings = {
        "stack.timestamps": "on",
        "stack.delayed_ack": "2,100ms",
        "app.nodelay": "on",
        "app.sndbuf": "9KB",
        "app.keepalive": "5s",
        "app.user_timeout": "20s",
        "stack.mtu": "900B",
    }
    inside, outside = run("smoltcp", **settings), run(f"exec:{adapter}", **settings)
    assert inside.capture() == outside.capture()
    assert inside.trace != run("smoltcp").trace


def test_a_run_does_not_depend_on_how_long_a_process_takes(
    adapter: Path, program: Callable[[str], str]
) -> None:
    slow = program(PROXY.replace("    own(out)", "    time.sleep(0.002)\n    own(out)"))
    slowed, quick = run(f"{slow} none {adapter}"), run(f"exec:{adapter}")
    assert (slowed.trace, slowed.capture()) == (quick.trace, quick.capture())


@pytest.mark.parametrize(
    ("mode", "title", "where"),
    [
        ("content", "sent bytes that were not written", "sender"),
        ("tcp", "a wrong checksum", "sender"),
        ("ip", "a wrong checksum", "sender"),
        ("read", "delivered bytes that were not sent", "receiver"),
    ],
)
def test_damaged_contents_and_checksums_are_findings(
    adapter: Path, program: Callable[[str], str], mode: str, title: str, where: str
) -> None:
    found = [
        one
        for one in json.loads(run(f"{program(PROXY)} {mode} {adapter}", where).judged(["delivery"]))
        if one["title"] == title
    ]
    assert len(found) == 1
    assert found[0]["severity"] == "error"


def test_a_process_that_cannot_be_started_is_the_outcome_of_its_run() -> None:
    outcome, reason = failure("exec:/no/such/stack --x")
    assert outcome == "stack"
    assert "`/no/such/stack` cannot be started" in reason


def test_a_process_that_dies_gives_its_exit_code_and_what_it_said_last(
    program: Callable[[str], str],
) -> None:
    text = """
own(HELLO + b"cc")
read(sys.stdin.buffer)
print("noise\\n" * 10_000, "the last words", file=sys.stderr)
sys.exit(7)
"""
    outcome, reason = failure(program(text))
    assert outcome == "crashed"
    assert "it ended (exit status: 7)" in reason
    assert reason.endswith("the last words")
    assert len(reason) < 1000


def test_a_program_that_offers_to_fork_is_started_twice_and_each_further_run_is_a_fork(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    text = f"""
import os
import socket

started = os.getpid()
if first[0] == 11:
    os.write(1, bytes(4))
    control = socket.socket(fileno=os.dup(0))
    while True:
        told, files, _, _ = socket.recv_fds(control, 1, 2)
        if not told:
            os._exit(0)
        reads, writes = os.pipe()
        if os.fork() == 0:
            if made := os.fork():
                os.setpgid(made, made)
                os.write(writes, struct.pack("<I", made))
                os._exit(0)
            for place, file in enumerate((files[0], files[0], files[1])):
                os.dup2(file, place)
            os.closerange(3, 64)
            read(sys.stdin.buffer)
            break
        os.wait()
        control.sendall(os.read(reads, 4))
        for file in (*files, reads, writes):
            os.close(file)
open({str(tmp_path / "pids")!r}, "a").write(f"{{started}} {{os.getpid()}} {{os.getppid()}}\\n")
own(HELLO + b"cc\\nfork=1")
read(sys.stdin.buffer)
print("the last words", file=sys.stderr, flush=True)
os._exit(7)
"""
    command = program(text)
    for _ in range(4):
        outcome, reason = failure(command)
        assert outcome == "crashed"
        assert "it ended (exit status: 7)" in reason
        assert reason.endswith("the last words")
    runs = [[int(pid) for pid in line.split()] for line in (tmp_path / "pids").read_text().splitlines()]
    # The first run has a process that was started; then one that was started forks.
    assert [started == pid for started, pid, _ in runs] == [True, False, False, False]
    assert len({started for started, _, _ in runs[1:]}) == 1
    assert {parent for _, _, parent in runs} == {os.getpid()}
    assert not any(_lives(pid) for _, pid, _ in runs)
    assert _lives(runs[1][0])
    # Orphans of others are not adopted: nobody here would wait for them.
    adopts = ctypes.c_int(1)
    assert ctypes.CDLL(None).prctl(GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0) == 0
    assert adopts.value == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "sys.stdout.write('hello, world' * 99); sys.stdout.flush(); time.sleep(60)",
            "a frame of 1819043176 bytes",
        ),
        ("own(b'version=1')", "no lines `name=` and `version=`"),
        ("own(HELLO); read(sys.stdin.buffer); own(b'short')", "its answer is wrong: it ends inside an item"),
        ("own(HELLO); read(sys.stdin.buffer); own(idle(b'\\x63'))", "an item of kind 99"),
        ("own(HELLO + b'\\ngranularity_ns=0'); time.sleep(60)", "`granularity_ns` is not a number from 1"),
        ("own(b'error=no such buffer'); time.sleep(60)", "it refuses the settings: no such buffer"),
        (
            "sys.stdout.buffer.write(frame(HELLO) + frame(idle())); sys.stdout.flush(); time.sleep(60)",
            "without a request",
        ),
        (
            "own(HELLO); read(sys.stdin.buffer); own(idle(item(1, b'no packet'))); go_on()",
            "not one of its own",
        ),
        (
            "own(HELLO); read(sys.stdin.buffer); own(idle(item(5, b'out of sockets'))); time.sleep(60)",
            "out of sockets",
        ),
        (
            "own(HELLO)\nwhile read(sys.stdin.buffer) is not None: own(struct.pack('<QI', 0, 0))",
            "test asked 10000 times in a row to be called at once, and did nothing then",
        ),
        (
            "own(HELLO); read(sys.stdin.buffer)\nown(idle(struct.pack('<BIBII', 3, 0, 1, 70, 0)))\ngo_on()",
            "test says that 70 bytes can be read from socket 0, and a read returns none",
        ),
    ],
)
def test_a_process_that_breaks_the_protocol_ends_its_run_with_the_reason(
    program: Callable[[str], str], text: str, why: str
) -> None:
    command = program(text)
    triples = {key: value for key, value in CASE.items() if key != "stack.cc"}
    triples["sender/stack.implementation"] = command
    accept(triples)
    with pytest.raises(_native.StackError) as failed:
        held(triples, 1, ".", COLLECT)
    outcome, reason = failed.value.args
    assert outcome == "stack"
    assert why in reason, reason


def test_an_option_that_a_process_lacks_is_named(program: Callable[[str], str]) -> None:
    outcome, reason = failure(program("own(HELLO); time.sleep(60)"))
    assert outcome == "stack"
    assert "it has no option `cc`, which the case sets to `cubic`" in reason


def test_nothing_is_left_of_a_process_and_of_what_it_started(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    text = f"""
grandchild = subprocess.Popen(["sleep", "600"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{__import__('os').getpid()}} {{grandchild.pid}}")
own(HELLO)
read(sys.stdin.buffer)
own(b"wrong")
time.sleep(600)
"""
    outcome, _ = failure(program(text), "receiver")
    assert outcome == "stack"
    for pid in (tmp_path / "pids").read_text().split():
        until(lambda pid=pid: not _lives(int(pid)), "the process ends")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_command_of_a_folder_is_not_started_before_it_is_accepted(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    fixed = "\n".join(f'"{path}" = "{value}"' for path, value in CASE.items())
    plan.write_text(f'name = "x"\n[fixed]\n{fixed}\n"sender/stack.implementation" = "exec:{adapter}"\n')
    result = CliRunner().invoke(app, ["run", str(plan), "--out", str(out)])
    assert result.exit_code == 0, result.output
    run = load(out).runs[0]
    words = ["replay", str(out), run["case"]]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    # Another user has not run it.
    consent.use(consent.Consent())
    (tmp_path / "state" / "tcpassay" / "accepted.jsonl").unlink()
    with pytest.raises(UserError) as refused:
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert f"the command of a TCP (`{adapter}`)" in str(refused.value)
    assert CliRunner().invoke(app, [*words, "--allow-code"], catch_exceptions=False).exit_code == 0


def test_a_worker_starts_only_a_command_that_was_accepted(adapter: Path, tmp_path: Path) -> None:
    triples = CASE | {"sender/stack.implementation": f"exec:{adapter}"}
    request = CaseRequest(
        substrate="model", collect=COLLECT, triples=triples, seed=1, base=".", folder=str(tmp_path / "r")
    )
    answer = worker.work(request)
    assert answer.outcome == "failed"
    assert "this code was not accepted" in answer.message
    accepted = consent.digest(consent.command_code(str(adapter)))
    request = replace(request, consent=consent.Consent(frozenset({accepted})))
    assert worker.work(request).outcome == "done"


def test_other_runs_are_not_affected_by_a_stack_that_fails(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    wrong = program("own(b'nothing')")
    plan = tmp_path / "plan.toml"
    axis = json.dumps(["model", wrong, "smoltcp"])
    fixed = "\n".join(f'"{path}" = "{value}"' for path, value in CASE.items())
    plan.write_text(f'name = "x"\n[fixed]\n{fixed}\n[axes]\n"receiver/stack.implementation" = {axis}\n')
    result = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    runs = load(tmp_path / "out").runs
    outcomes = {run["varied"]["receiver/stack.implementation"]: run["outcome"] for run in runs}
    assert outcomes == {"model": "done", wrong: "stack", "smoltcp": "done"}
    (reason,) = [run["message"] for run in runs if run["outcome"] == "stack"]
    assert reason.startswith("receiver: ")
    assert "no lines `name=` and `version=`" in reason
