"""The command `script`: files, options of packetdrill, results in every form, exit codes."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pkt import GOOD, LATE, call, write
from tcpassay.errors import UserError
from tcpassay.run import pool
from tcpassay.script import batch, files, model


def test_all_pass_is_exit_code_0(tmp_path: Path) -> None:
    result = call(write(tmp_path, good=GOOD))
    assert result.exit_code == 0, result.output
    assert "pass" in result.output


def test_one_that_fails_is_exit_code_1_with_file_line_and_both_packets(tmp_path: Path) -> None:
    result = call(write(tmp_path, good=GOOD, bad=GOOD.replace("mss 1460", "mss 1461")))
    assert result.exit_code == 1
    assert f"{tmp_path}/bad.pkt:5:1  outbound packet: options differ" in result.output
    assert "expected: 0.000000000 S. 0:0(0) ack 1 <mss 1461>" in result.output
    assert "* options: expected mss 1461, live mss 1460" in result.output


def test_an_unsupported_script_does_not_pass(tmp_path: Path) -> None:
    result = call(write(tmp_path, odd="`reboot`\n" + GOOD))
    assert result.exit_code == 1
    assert "unsupported" in result.output


def test_a_syntax_error_is_exit_code_2_with_its_place(tmp_path: Path) -> None:
    result = call(write(tmp_path, broken="0 socket(\n"))
    assert result.exit_code == 2
    assert "broken.pkt:2:1  expected an argument" in result.output


def test_an_error_in_time_tells_the_tolerance_with_which_it_passes(tmp_path: Path) -> None:
    write(tmp_path, late=LATE)
    assert "passes with --tolerance_usecs=2000" in call(tmp_path).output
    assert call("--tolerance_usecs=2000", tmp_path).exit_code == 0
    assert call("--tolerance_usecs", "1999", tmp_path).exit_code == 1


def test_results_as_json(tmp_path: Path) -> None:
    made = json.loads(call(write(tmp_path, good=GOOD, late=LATE), "--json").output)
    assert made["summary"] == {"pass": 1, "time": 1, "fail": 0, "unsupported": 0, "syntax": 0, "crashed": 0}
    assert made["folders"][str(tmp_path)]["time"] == 1
    late = made["scripts"][1]
    assert (late["status"], late["line"], late["drift_usecs"]) == ("time", 9, 2000)


def test_results_as_junit(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    call(write(tmp_path, good=GOOD, late=LATE, odd="`reboot`\n" + GOOD), "--junit", out)
    suite = ET.parse(out).getroot()[0]  # noqa: S314 - our own output
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [child.tag for case in suite for child in case] == ["failure", "skipped"]


def test_defined_words_and_other_profiles(tmp_path: Path) -> None:
    folder = write(tmp_path, word=GOOD.replace("1460", "SEGMENT"))
    assert call("-D", "SEGMENT=1460", folder).exit_code == 0
    assert call("-DSEGMENT=1460", folder, "--profile", "freebsd").exit_code == 0


def test_a_script_runs_as_the_stack_that_its_first_line_names(tmp_path: Path) -> None:
    def profiles(*words: str) -> list[str]:
        result = call(folder, "--json", *words)
        assert result.exit_code == 0, result.output
        return [script["profile"] for script in json.loads(result.output)["scripts"]]

    folder = write(
        tmp_path, a="// profile: freebsd\n" + GOOD, b="// profile: freebsd-12\n" + GOOD, c="// plain\n" + GOOD
    )
    assert profiles() == ["freebsd", "freebsd-12", "linux"]
    assert profiles("--profile", "rfc") == ["rfc", "rfc", "rfc"]
    (tmp_path / "wrong").mkdir()
    wrong = call(write(tmp_path / "wrong", d="// profile: plan9\n" + GOOD))
    assert "`plan9` is not a profile" in str(wrong.exception)


OLD = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(3, SOL_TCP, TCP_SYNCNT, [2], 4) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) <...>
+1 > S 0:0(0) <...>
+2 > S 0:0(0) <...>
+4.1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0
"""
"""Linux before 6.5; later versions retransmit SYNs four more times."""


def test_a_script_for_an_older_version_says_so(tmp_path: Path) -> None:
    result = call(write(tmp_path, old=OLD))
    assert result.exit_code == 1
    assert "; passes with --sysctl net.ipv4.tcp_syn_linear_timeouts=0" in result.output
    assert call(write(tmp_path, old=OLD), "--sysctl", "net.ipv4.tcp_syn_linear_timeouts=0").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--profile", "windows"],
            "`windows` is not a profile; allowed are rfc, linux, linux-6.1, linux-7.3, linux-4.6",
        ),
        (["--nonsense=1"], "`--nonsense` is not an option"),
        (["--mtu=5"], "expected an MTU of 68 to 65535 bytes"),
        (["--compare", "vague"], "allowed are exact, loose"),
    ],
)
def test_errors_of_the_user_are_reported(tmp_path: Path, words: list[str], message: str) -> None:
    result = call(write(tmp_path, good=GOOD), *words)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "text", ["", "\n// nothing\n", "`rm -rf /nowhere/x`\n", "`touch /nowhere/x`\n0 `rm /nowhere/x`\n"]
)
def test_a_script_that_tests_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    result = call(write(tmp_path, good=GOOD, empty=text))
    assert result.exit_code == 2, result.output
    assert "empty.pkt:1:1  expected a packet of the stack, a system call or an assertion" in result.output


def test_a_first_line_that_names_no_profile_is_reported_with_file_and_line(tmp_path: Path) -> None:
    result = call(write(tmp_path, good=GOOD, odd="// profile: plan9\n" + GOOD))
    assert isinstance(result.exception, UserError)
    assert f"{tmp_path}/odd.pkt:1: `plan9` is not a profile; allowed are rfc, linux" in str(result.exception)


def test_a_path_that_is_neither_a_file_nor_a_folder_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pkt")
    with pytest.raises(UserError, match="neither a file nor a folder"):
        files.find([tmp_path / "pipe.pkt"])
    assert files.find([write(tmp_path, good=GOOD)]) == [tmp_path / "good.pkt"]


def test_a_script_that_ends_its_process_is_crashed_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker that exits, hangs or allocates memory if the script contains a keyword, like a faulty runner.
    (tmp_path / "bad_worker.py").write_text(WORKER)
    monkeypatch.setattr(pool, "WORKER", [str(tmp_path / "bad_worker.py")])
    monkeypatch.setattr(batch, "SECONDS", 20.0)
    write(tmp_path, a=GOOD, b="// end\n" + GOOD, c="// hang\n" + GOOD, d="// memory\n" + GOOD, e=GOOD)
    result = call(tmp_path, "--json", "--junit", tmp_path / "out.xml")
    assert result.exit_code == 1, result.output
    made = json.loads(result.output)
    assert [each["status"] for each in made["scripts"]] == ["pass", "crashed", "crashed", "crashed", "pass"]
    reasons = [each["reason"] for each in made["scripts"]]
    assert "SIGABRT" in reasons[1]
    assert "20 s" in reasons[2]
    assert "memory" in reasons[3]
    suite = ET.parse(tmp_path / "out.xml").getroot()[0]  # noqa: S314 - our own output
    assert (suite.get("tests"), suite.get("errors")) == ("5", "3")


WORKER = """
import os, time
from tcpassay.run import worker
from tcpassay.script import model

real = model.answer


def answer(request):
    word = request.text.split("\\n", 1)[0]
    if word == "// end":
        os.abort()
    if word == "// hang":
        time.sleep(1000)
    if word == "// memory":
        return [bytearray(1 << 26) for _ in range(100)]
    return real(request)


model.answer = answer
worker.main()
"""


def test_hostile_scripts_end_their_own_process_only(tmp_path: Path) -> None:
    code = "+.1 < . 1:1(0) ack 1 win 5\n+0 %{{ {} }}%\n"
    texts = {
        "terms": GOOD + code.format("print(" + "+".join(["1"] * 100_000) + ")"),
        "least": GOOD + code.format("x = (-9223372036854775807 - 1) / -1; assert x > 0"),
        "double": GOOD + code.format("x = 'a'\n" + "x = x + x\n" * 60),
        "nested": GOOD + "+0 f(" + "[" * 100_000 + "\n",
        "long": "0" * (5 << 20),
        "good": GOOD,
    }
    write(tmp_path, **texts)
    (tmp_path / "binary.pkt").write_bytes(bytes(range(256)) * 1000)
    made = json.loads(call(tmp_path, "--json").output)
    found = {Path(each["file"]).stem: each["status"] for each in made["scripts"]}
    assert found == {
        "binary": "syntax",
        "double": "unsupported",
        "good": "pass",
        "least": "pass",
        "long": "unsupported",
        "nested": "syntax",
        "terms": "unsupported",
    }


def test_escape_sequences_of_a_script_do_not_reach_the_terminal(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    result = call(write(tmp_path, odd=GOOD + "+0 `\x1b[2Jreboot\x00`\n"), "--junit", out)
    assert result.exit_code == 1
    assert "reboot" in result.output
    assert "\x1b" not in result.output
    assert len(ET.parse(out).getroot()) == 1  # noqa: S314 - our own output


def test_commands_that_the_user_allows_run_below_this_process(tmp_path: Path) -> None:
    told = tmp_path / "told"
    write(tmp_path, shell=f"`printf %s $PPID > {told}`\n" + GOOD)
    assert call(tmp_path).exit_code == 1
    assert not told.exists()
    assert call("--allow-shell", tmp_path).exit_code == 0
    assert told.read_text() == str(os.getpid())


def test_a_shell_script_beside_the_script_is_what_it_calls(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "tcp").mkdir()
    own = "#!/bin/bash\n# own\nsysctl -q net.ipv4.tcp_timestamps=0 > /dev/null 2>&1\n"
    (tmp_path / "common" / "defaults.sh").write_text(own)
    text = "`../common/defaults.sh`\n" + GOOD.replace(
        "<mss 1460>", "<mss 1460,nop,nop,TS val 5 ecr 7>"
    ).replace("<mss 1000>", "<mss 1000,TS val 7 ecr 0>")
    write(tmp_path / "tcp", stamps=text)
    assert call(tmp_path).exit_code == 1
    (tmp_path / "common" / "defaults.sh").write_text("sysctl -q net.ipv4.tcp_timestamps=1\n")
    result = call(tmp_path)
    assert result.exit_code == 0, result.output
    (tmp_path / "common" / "defaults.sh").write_text("sysctl -q net.ipv4.tcp_timestamps=1\nreboot\n")
    result = call(tmp_path)
    assert "unsupported" in result.output
    assert "../common/defaults.sh: reboot" in result.output


def test_a_file_that_is_not_there_is_reported() -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        files.find([Path("/nowhere/x.pkt")])


REPOSITORY = Path(__file__).parents[2]
SAMPLE = REPOSITORY.parent / "shared" / "packetdrill"


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the sample of public scripts is not here")
def test_the_public_sample_passes_as_far_as_docs_scripts_measured_md_says() -> None:
    page = (REPOSITORY / "docs" / "scripts-measured.md").read_text(encoding="utf-8")
    for folder, profile in (("google", "linux"), ("freebsd", "freebsd")):
        for file in files.find([SAMPLE / folder]):
            result = model.run(file, model.Wanted(profile, loose=False, options=()))
            row = f"| {file.relative_to(SAMPLE)} | {profile} | {result.status} |"
            assert row in page, f"docs/scripts-measured.md is not up to date: {row}"
