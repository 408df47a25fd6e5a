"""Testbed files: what is read, and where each error is."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.testbed import file
from tcpassay.testbed.messages import Machine

LAB = """\
ssh_config = "config"
[[host]]
name = "alpha"
ssh = "root@alpha.lab"
role = "sender"
[[host]]
name = "beta"
ssh = "beta"
role = "router"
sudo = true
[[host]]
name = "gamma"
ssh = "gamma"
role = "receiver"
allow = ["mtu"]
[[link]]
between = ["alpha:eth1", "beta:eth1"]
[[link]]
between = ["beta:eth2.7", "gamma:eth1"]
"""


def wrong(old: str, new: str) -> list[str]:
    """The errors of the file after a replacement."""
    assert LAB.count(old) >= 1
    with pytest.raises(UserError) as raised:
        file.read(LAB.replace(old, new, 1), Path("/t/lab.toml"))
    return [str(problem) for problem in raised.value.problems]


def test_a_testbed_has_hosts_and_for_each_its_interfaces_by_peer() -> None:
    lab = file.read(LAB, Path("/t/lab.toml"))
    assert [host.name for host in lab.hosts] == ["alpha", "beta", "gamma"]
    assert lab.interfaces["beta"] == {"alpha": "eth1", "gamma": "eth2.7"}
    assert lab.ssh_config == Path("/t/config")
    assert lab.machines()[2] == Machine("gamma", "receiver", {"beta": "eth1"}, ["mtu"])
    assert [one.name for one in lab.only(["alpha", "beta"]).machines()] == ["alpha", "beta"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            'role = "sender"',
            'role = "sendr"',
            5,
            "allowed is one of sender, receiver, router; did you mean `sender`?",
        ),
        ('role = "sender"', "", 2, "`host[0].role` is missing"),
        ("sudo = true", "sudoo = true", 10, "unknown key `host[1].sudoo`; did you mean `sudo`?"),
        ("sudo = true", 'sudo = "yes"', 10, "allowed is true or false"),
        ('"root@alpha.lab"', '"-oProxyCommand=reboot"', 4, "it does not begin with `-`"),
        ('"root@alpha.lab"', '"a b; reboot"', 4, "a host name, `user@host`"),
        ('name = "gamma"', 'name = "alpha"', 12, "line 3 has a host of this name"),
        ('name = "gamma"', 'name = "../gamma"', 12, "letters, digits"),
        ('"gamma:eth1"', '"gama:eth1"', 19, "there is no host `gama`; did you mean `gamma`?"),
        ('"gamma:eth1"', '"gamma:eth1;reboot"', 19, "`host:interface`"),
        ('"gamma:eth1"', '"alpha:eth1"', 18, "line 16 has a link between these hosts"),
        ('"gamma:eth1"', '"beta:eth3"', 18, "connects `beta` with itself"),
        ('"mtu"', '"sysctls"', 15, "allowed is one of up, mtu, offloads, coalescing, rings, controllers"),
        ('ssh_config = "config"', 'on_failure = "stop"', 1, "allowed is one of continue, pause"),
        ('ssh_config = "config"', "reconnect_s = -1", 1, "greater than or equal to 0"),
        (
            'ssh_config = "config"',
            'links = "as_is"',
            1,
            "allowed is one of shaped, as-is; did you mean `as-is`?",
        ),
        ('ssh_config = "config"', 'links = "as-is"', 1, "a host with the role `router` is not used then"),
        ('role = "receiver"', 'role = "router"', 14, "at most one host with the role `router`"),
    ],
)
def test_an_error_has_its_line_and_what_is_allowed(old: str, new: str, line: int, words: str) -> None:
    said = wrong(old, new)
    assert any(one.startswith(f"/t/lab.toml:{line}: ") and words in one for one in said), said


def test_a_file_without_hosts_and_links_is_told_what_it_needs() -> None:
    for text, words in (("", "is missing; it is needed"), ("host = []\nlink = []", "[[link]]")):
        with pytest.raises(UserError) as raised:
            file.read(text, Path("/t/lab.toml"))
        said = [str(problem) for problem in raised.value.problems]
        assert len(said) == 2
        assert "`host`" in said[0]
        assert "`link`" in said[1]
        assert words in said[1]


def test_a_host_without_a_link_to_the_router_is_named() -> None:
    said = wrong('[[link]]\nbetween = ["beta:eth2.7", "gamma:eth1"]\n', "")
    assert said == ["/t/lab.toml:11: `host[2]`: there is no link between `gamma` and `beta`"]


def test_a_name_is_looked_up_in_the_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert file.find("lab") == Path("/somewhere/tcpassay/testbeds/lab.toml")
    for name in ("labs/one.toml", "../lab", "lab.toml", "~/lab", "a" * 41, "", "-lab"):
        with pytest.raises(UserError, match=r"its file is given by `--testbed FILE`"):
            file.find(name)


def test_only_the_command_line_names_a_file(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(LAB, encoding="utf-8")
    assert file.load_given(str(tmp_path / "lab.toml")).file == tmp_path / "lab.toml"
    with pytest.raises(
        UserError, match=r"there is no testbed `lab`: no file .*lab.toml; `--testbed FILE` gives"
    ):
        file.load_given("lab")
