"""Testbed files: hosts, how to reach them, what they are used for, and how they are connected."""

import copy
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from pydantic.fields import FieldInfo

from tcpassay.errors import Problem, UserError
from tcpassay.plan import document
from tcpassay.plan.document import Document, Step
from tcpassay.testbed.messages import Group, Machine, Role
from tcpassay.trust import consent

FOLDER: Final = "tcpassay/testbeds"
"""The folder of named testbeds below the folder of the user's settings."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""The name of a testbed in plans."""
_MOST_HOSTS: Final = 64
_MOST_LINKS: Final = 1000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=40)]
# What ssh(1) takes as a destination or a name of its configuration; it never begins with a dash.
Target = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:/%\[\]-]*$", max_length=200)]
Program = Annotated[str, Field(pattern=r"^/[A-Za-z0-9/._+-]+$", max_length=200)]
# IFNAMSIZ of Linux is 16 with the final NUL.
End = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*:[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$", max_length=60)
]


class Strict(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Host(Strict):
    """A host of a testbed."""

    name: Name = Field(description="Its name, for links and messages")
    ssh: Target = Field(
        description="What `ssh` is given: a host name, `user@host`, or a name of the ssh configuration"
    )
    role: Role = Field(description="What it is used for")
    sudo: StrictBool = Field(default=False, description="Whether the agent is started by `sudo -n`")
    agent: Program | None = Field(default=None, description="An installed agent; by default it is copied")
    allow: list[Group] = Field(
        default=["up", "mtu", "offloads", "coalescing", "rings"],
        description="What a run may change: settings of test interfaces, and `controllers` of the machine",
    )


class Link(Strict):
    """A network between test interfaces of two hosts: a cable, a switch or a VLAN."""

    between: Annotated[list[End], Field(min_length=2, max_length=2)] = Field(
        description="The two ends, each `host:interface`"
    )


class TestbedFile(Strict):
    """A testbed file."""

    __test__ = False

    ssh_config: str | None = Field(
        default=None, description="A configuration file for `ssh -F`, relative to this file"
    )
    quiet_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=10.0,
        description="How long a run waits at most until the processors of a host are idle, in seconds",
    )
    links: Literal["shaped", "as-is"] = Field(
        default="shaped",
        description="`shaped`: the router makes the rates, queues, delays and losses of a case; `as-is`: it has none",
    )
    on_failure: Literal["continue", "pause"] = Field(
        default="continue", description="What happens to the other runs when a host has failed in a run"
    )
    reconnect_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=120.0,
        description="How long a run waits at most for a host that was reached before, as during a reboot, in seconds",
    )
    host: Annotated[list[Host], Field(min_length=2, max_length=_MOST_HOSTS)] = Field(description="The hosts")
    link: Annotated[list[Link], Field(min_length=1, max_length=_MOST_LINKS)] = Field(
        description="How they are connected"
    )


class Testbed:
    """A valid testbed."""

    __test__ = False

    def __init__(self, file: Path, spec: TestbedFile) -> None:
        self.file = file
        self.hosts = tuple(spec.host)
        self.ssh_config = None if spec.ssh_config is None else file.parent / spec.ssh_config
        self.quiet_s = spec.quiet_s
        self.as_is = spec.links == "as-is"
        """The links are used as they are."""
        self.pause = spec.on_failure == "pause"
        """The runs pause when a host has failed."""
        self.reconnect_s = spec.reconnect_s
        self.interfaces: dict[str, dict[str, str]] = {host.name: {} for host in spec.host}
        """For each host its interfaces, by the name of the host at the other end."""
        for link in spec.link:
            (a, at_a), (b, at_b) = (end.split(":") for end in link.between)
            self.interfaces[a][b] = at_a
            self.interfaces[b][a] = at_b

    def only(self, names: Iterable[str]) -> "Testbed":
        """A testbed of some of the hosts."""
        chosen = set(names)
        made = copy.copy(self)
        made.hosts = tuple(host for host in self.hosts if host.name in chosen)
        made.interfaces = {
            name: {peer: interface for peer, interface in peers.items() if peer in chosen}
            for name, peers in self.interfaces.items()
            if name in chosen
        }
        return made

    def machines(self) -> list[Machine]:
        """The hosts in the form of messages."""
        return [Machine(host.name, host.role, self.interfaces[host.name], host.allow) for host in self.hosts]


def find(name: str) -> Path:
    """The file of a testbed: the one that the command line gives, or the one in the folder of the user's settings.

    Raises `UserError` for anything but a name, because a plan or result folder must not choose a file.
    """
    if not NAME.fullmatch(name):
        raise UserError(
            f"`remote:{name}`: a testbed is named by letters, digits, `_` and `-`, at most 40; its file is given by "
            "`--testbed FILE`, or is in the folder of the user's settings"
        )
    given = dict(consent.current().testbeds)
    if (file := given.get(name, given.get(""))) is not None:
        return Path(file)
    return settings() / f"{name}.toml"


def settings() -> Path:
    """The folder of named testbeds."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / FOLDER


def load(name: str) -> Testbed:
    """Reads the file of a testbed, or raises all its errors."""
    file = find(name)
    if not file.exists():
        raise UserError(f"there is no testbed `{name}`: no file {file}; `--testbed FILE` gives one")
    return load_file(file)


def load_given(text: str) -> Testbed:
    """Reads a testbed that the user names on the command line: a name, or a file with `/` or `.toml`."""
    return load_file(Path(text).expanduser()) if "/" in text or text.endswith(".toml") else load(text)


def load_file(file: Path) -> Testbed:
    """Reads a testbed file, or raises all its errors."""
    return read(document.read_text(file), file)


def read(text: str, file: Path) -> Testbed:
    """Reads the text of a testbed file; `file` is used in errors and for relative file names."""
    doc = document.parse(text, file)
    try:
        spec = TestbedFile.model_validate(doc.data)
    except ValidationError as error:
        raise UserError.several(_problems(error, doc)) from None
    if found := list(_contradictions(spec, doc)):
        raise UserError.several(found)
    return Testbed(file, spec)


_MODELS: Final[dict[str, type[BaseModel]]] = {"host": Host, "link": Link}


def _fields(path: tuple[Step, ...]) -> dict[str, FieldInfo]:
    kind: type[BaseModel] = _MODELS[str(path[0])] if path else TestbedFile
    return dict(kind.model_fields)


def _problems(error: ValidationError, doc: Document) -> Iterator[Problem]:
    for one in error.errors(include_url=False):
        path = one["loc"]
        place = doc.place(*path)
        text = _dotted(path)
        if one["type"] == "missing":
            yield Problem(
                f"{text} is missing; it is needed: {_fields(path[:-1])[str(path[-1])].description}", place
            )
        elif one["type"] == "extra_forbidden":
            keys = list(_fields(path[:-1]))
            hint = document.suggest(str(path[-1]), keys)
            yield Problem(f"unknown key {text}{hint}; allowed are {', '.join(keys)}", place)
        else:
            yield Problem(f"{text} = `{str(one['input'])[:80]}`: allowed is {_allowed(one, path)}", place)


def _allowed(error: Any, path: tuple[Step, ...]) -> str:  # noqa: C901, PLR0911 - a table
    match path, error["type"]:
        case _, "literal_error":
            words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
            return f"one of {', '.join(words)}{document.suggest(str(error['input']), words)}"
        case (_, _, "between", *_), _:
            return "`host:interface`, as in `alpha:eth1`; a link has two ends"
        case (_, _, "ssh"), _:
            return "a host name, `user@host`, or a name of the ssh configuration; it does not begin with `-`"
        case (_, _, "agent"), _:
            return "an absolute path of letters, digits and `/`, `.`, `_`, `+`, `-`"
        case ("host",), "too_short" | "too_long":
            return f"2 to {_MOST_HOSTS} tables [[host]]"
        case ("link",), "too_short" | "too_long":
            return f"1 to {_MOST_LINKS} tables [[link]]"
        case _, "string_pattern_mismatch" | "string_too_long":
            return "letters, digits, `_` and `-`, beginning with a letter or digit, at most 40"
        case _, "bool_type" | "bool_parsing":
            return "true or false"
        case _, "list_type":
            return f"a list: {_fields(path[:2] if len(path) > 1 else ())[str(path[-1])].description}"
        case _, "model_type" | "dict_type":
            return f"a table, as [[{path[0]}]]"
        case _:
            return str(error["msg"]).removeprefix("Input should be ")


def _dotted(path: tuple[Step, ...]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"`{text}`"


def _contradictions(spec: TestbedFile, doc: Document) -> Iterator[Problem]:
    """Names that are not unique, links without hosts, hosts without links."""
    names: dict[str, int] = {}
    for index, host in enumerate(spec.host):
        place = doc.place("host", index, "name")
        if host.name in names:
            first = doc.place("host", names[host.name], "name").line
            yield Problem(
                f"`host[{index}].name` = `{host.name}`: line {first} has a host of this name", place
            )
        names.setdefault(host.name, index)
    roles = [host.role for host in spec.host]
    if spec.links == "as-is" and "router" in roles:
        message = "`links` = `as-is`: a host with the role `router` is not used then; remove it"
        yield Problem(message, doc.place("links"))
    if roles.count("router") > 1:
        last = len(roles) - 1 - roles[::-1].index("router")
        message = "a testbed has at most one host with the role `router`"
        yield Problem(message, doc.place("host", last, "role"))
    for role in ("sender", "receiver"):
        if role not in roles:
            yield Problem(f"no host has the role `{role}`; at least one is needed", doc.place("host"))
    yield from _links(spec, doc, names)


def _links(spec: TestbedFile, doc: Document, names: dict[str, int]) -> Iterator[Problem]:
    """Links to unknown hosts, of a host with itself, or twice between two hosts; hosts without a link."""
    joined: dict[frozenset[str], int] = {}
    for index, link in enumerate(spec.link):
        hosts = [end.split(":")[0] for end in link.between]
        known = True
        for at, host in enumerate(hosts):
            if host not in names:
                known = False
                hint = document.suggest(host, names)
                message = f"`link[{index}].between[{at}]`: there is no host `{host}`{hint}"
                yield Problem(message, doc.place("link", index, "between", at))
        if not known:
            continue
        pair = frozenset(hosts)
        if len(pair) == 1:
            yield Problem(f"`link[{index}]` connects `{hosts[0]}` with itself", doc.place("link", index))
        elif pair in joined:
            first = doc.place("link", joined[pair]).line
            message = f"`link[{index}]`: line {first} has a link between these hosts; two hosts have one link"
            yield Problem(message, doc.place("link", index))
        joined.setdefault(pair, index)
    if set().union(*(set(pair) for pair in joined)) - set(names):
        return
    yield from _unconnected(spec, doc, names, set(joined))


def _unconnected(
    spec: TestbedFile, doc: Document, names: dict[str, int], joined: set[frozenset[str]]
) -> Iterator[Problem]:
    """Hosts without a link to the router, or without a router to a host of the other role."""
    routers = [host.name for host in spec.host if host.role == "router"]
    ends = [host.name for host in spec.host if host.role != "router"]
    for index, host in enumerate(spec.host):
        if host.role == "router":
            continue
        needed = routers or [name for name in ends if spec.host[names[name]].role != host.role][:1]
        for peer in needed:
            if frozenset((host.name, peer)) not in joined and peer != host.name:
                message = f"`host[{index}]`: there is no link between `{host.name}` and `{peer}`"
                yield Problem(message, doc.place("host", index))
