"""The command `script`: files, options of packetdrill, results in every form, exit codes."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pkt import GOOD, LATE, call, write
from tcpassay import scripts
from tcpassay.errors import UserError


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


def test_unsupported_is_no_pass(tmp_path: Path) -> None:
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
    assert made["summary"] == {"pass": 1, "time": 1, "fail": 0, "unsupported": 0, "syntax": 0}
    assert made["folders"][str(tmp_path)]["time"] == 1
    late = made["scripts"][1]
    assert (late["status"], late["line"], late["drift_usecs"]) == ("time", 9, 2000)


def test_results_as_junit(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    call(write(tmp_path, good=GOOD, late=LATE, odd="`reboot`"), "--junit", out)
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
+0 setsockopt(3, SOL_TCP, TCP_SYNCNT, [1], 4) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS
+0 > S 0:0(0) <...>
+1 > S 0:0(0) <...>
+2.1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0
"""
"""As Linux before 6.5 has it; since then SYNs go again four times more."""


def test_a_script_for_an_older_version_says_so(tmp_path: Path) -> None:
    result = call(write(tmp_path, old=OLD))
    assert result.exit_code == 1
    assert "; passes as Linux before 6.5: --sysctl net.ipv4.tcp_syn_linear_timeouts=0" in result.output
    assert call(write(tmp_path, old=OLD), "--sysctl", "net.ipv4.tcp_syn_linear_timeouts=0").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--profile", "windows"],
            "`windows` is not a profile; allowed are rfc, linux, linux-4.6",
        ),
        (["--nonsense=1"], "`--nonsense` is not an option"),
        (["--mtu=5"], "expected an MTU of 68 to 65535 bytes"),
        (["--compare", "vague"], "allowed are exact, loose"),
    ],
)
def test_what_the_user_got_wrong_is_told(tmp_path: Path, words: list[str], message: str) -> None:
    result = call(write(tmp_path, good=GOOD), *words)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        scripts.find([Path("/nowhere/x.pkt")])


REPOSITORY = Path(__file__).parents[2]
SAMPLE = REPOSITORY.parent / "shared" / "packetdrill"


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the sample of public scripts is not here")
def test_the_public_sample_passes_as_far_as_docs_scripts_md_says() -> None:
    page = (REPOSITORY / "docs" / "scripts.md").read_text(encoding="utf-8")
    for folder, profile in (("google", "linux"), ("freebsd", "freebsd")):
        for file in scripts.find([SAMPLE / folder]):
            result = scripts.run(file, scripts.Wanted(profile, loose=False, options=()))
            row = f"| {file.relative_to(SAMPLE)} | {profile} | {result.status} |"
            assert row in page, f"docs/scripts.md is not up to date: {row}"
