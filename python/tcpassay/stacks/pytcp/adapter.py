"""PyTCP as a process of tcpassay (docs/stacks.md). It is built by `tcpassay stack build pytcp`.

PyTCP runs on asyncio. Its event loop and the clocks of the module `time` show the time of the request, and the
sources of random numbers are seeded. Packets pass through a pair of sockets, which PyTCP takes for a TUN device.

PyTCP takes half a second to start. A process that has imported it forks one for each run.
"""

import asyncio
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import math
import os
import random
import secrets
import select
import socket
import struct
import time
from enum import IntEnum
from typing import Any, BinaryIO, Final, cast

NEVER: Final = 2**64 - 1
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
SIZE: Final = 4
"""Bytes of the length of a frame."""
HEAD: Final = 9
"""Bytes of the kind and the time of a request."""
TUN_HEAD: Final = b"\0\0\x08\0"
"""In front of each IPv4 packet of a TUN device: flags, and the protocol as in Ethernet."""
LARGEST_PACKET: Final = 1 << 17
DEVICE_BUFFER: Final = 8 << 20
SEND_BUFFER: Final = 65_536
"""Bytes that the adapter lets wait in PyTCP's queue, which has no limit of its own."""
RESOLUTION: Final = 1e-6
"""Timers that are due within this many seconds fire."""
ROUNDS: Final = 100_000
QUIET: Final = 3
"""Rounds of the event loop without work after which PyTCP is quiet: a task may wake another one."""
ANY: Final = socket.inet_ntoa(bytes(4))
PEER_CLOSED: Final = frozenset({"CLOSE_WAIT", "CLOSING", "LAST_ACK", "TIME_WAIT"})
CAN_WRITE: Final = frozenset({"ESTABLISHED", "CLOSE_WAIT"})
OPENED: Final = PEER_CLOSED | {"ESTABLISHED", "FIN_WAIT_1", "FIN_WAIT_2"}
CONTROLLERS: Final = {"reno": 1, "cubic": 2}
STOPPED: Final = NEVER
REPLACED: Final = NEVER - 2
SHOWN: Final = "snd_una,snd_nxt,snd_wnd,rcv_nxt,rcv_wnd,cwnd,ssthresh,srtt,rto,timer"
"""What it shows of a connection, in the order of the fields of a state."""
LARGEST: Final = 2**31 - 1
SHOWING: Final = frozenset({"ESTABLISHED", "CLOSE_WAIT", "FIN_WAIT_1", "FIN_WAIT_2", "CLOSING", "LAST_ACK"})
OPTIONS: Final = "cc,send_buffer,receive_buffer,nagle,ack_delay_ns,keepalive_ns,user_timeout_ns,isn"

STACK: Final = "pmd_pytcp.stack"
LIBRARY: Final = "pmd_pytcp.socket"
INTERFACE: Final = "pmd_pytcp.lib.interface_layer"
ADDRESS: Final = "pmd_net_addr"
DRAWN: Final = "_SECRET"
"""The end of the names of what its module has drawn."""
PARENT_DEATH_SIGNAL: Final = 1
KILL: Final = 9

_elapsed = [0]
"""The time of the run in nanoseconds."""


class Request(IntEnum):
    """Kinds of requests."""

    INPUT = 1
    LISTEN = 3
    CONNECT = 4
    WRITE = 5
    READ = 6
    SHUTDOWN = 7
    CLOSE = 8
    ABORT = 9
    FORK = 11


class Item(IntEnum):
    """Kinds of items of an answer."""

    PACKET = 1
    ACCEPTED = 2
    STATUS = 3
    DATA = 4
    STATE = 6


class Loop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        """The time of the run in seconds."""
        return _elapsed[0] / SECOND

    def first(self) -> float:
        """The time of its next timer in seconds."""
        scheduled = cast("list[asyncio.TimerHandle]", vars(self)["_scheduled"])
        # A heap, whose first handle is the next one unless it has been cancelled.
        if scheduled and not scheduled[0].cancelled():
            return scheduled[0].when()
        return min((one.when() for one in scheduled if not one.cancelled()), default=math.inf)

    def due(self) -> int:
        """The time of its next timer in nanoseconds, on a whole millisecond."""
        first = self.first()
        if first == math.inf:
            return NEVER
        microseconds = round(first * 1e6)
        return -(-microseconds * 1000 // MILLISECOND) * MILLISECOND

    def is_busy(self) -> bool:
        """Whether it has something to do at this time."""
        return bool(vars(self)["_ready"]) or self.due() <= _elapsed[0]


def set_clocks() -> None:
    """The clocks of the module `time` show the time of the run."""
    epoch = 1_700_000_000
    clocks = {
        "monotonic": lambda: _elapsed[0] / SECOND,
        "monotonic_ns": lambda: _elapsed[0],
        "perf_counter": lambda: _elapsed[0] / SECOND,
        "time": lambda: epoch + _elapsed[0] / SECOND,
        "time_ns": lambda: epoch * SECOND + _elapsed[0],
    }
    for name, clock in clocks.items():
        setattr(time, name, clock)


_source = random.Random(0)  # noqa: S311 - a run must be repeatable
"""What all sources of random numbers draw from."""


def set_sources() -> None:
    """All sources of random numbers draw from one."""
    functions = {
        (secrets, "token_bytes"): lambda size=32: _source.randbytes(size),
        (secrets, "randbelow"): _source.randrange,
        (secrets, "randbits"): _source.getrandbits,
        (os, "urandom"): _source.randbytes,
        (random, "SystemRandom"): lambda: _source,
    }
    for (module, name), function in functions.items():
        setattr(module, name, function)


def set_seed(number: int) -> None:
    """All random numbers are functions of the seed, also those that PyTCP has drawn when it was imported."""
    _source.seed(number)
    random.seed(number)
    stack = importlib.import_module(STACK)
    for name, value in vars(stack).items():
        if name.endswith(DRAWN) and isinstance(value, bytes):
            setattr(stack, name, _source.randbytes(len(value)))


def set_isn(number: int) -> None:
    """The initial sequence number of the first connection."""
    session: Any = importlib.import_module("pmd_pytcp.protocols.tcp.session.tcp__session")
    compute = session.compute_iss

    def first(**_: Any) -> int:
        session.compute_iss = compute
        return number

    session.compute_iss = first


def counted(kind: Item, content: bytes) -> bytes:
    """An item with its length."""
    return struct.pack("<BI", kind, len(content)) + content


class Connection:
    """A socket that is or becomes a connection."""

    def __init__(self, sock: Any) -> None:
        self.socket = sock
        self.established = False
        self.released = False
        self.told = b""
        self.shown = b""

    def status(self, limit: int) -> bytes:
        """What an item of status says, without the number of the socket."""
        about = self.socket.status()
        session = self.socket.tcp_session
        state, readable = about.state.name, about.rx_buffer_len
        failed = session is not None and vars(session)["_connection_error"].name != "NONE"
        closed = session is not None and state == "CLOSED"
        ended = state in PEER_CLOSED or (closed and not failed)
        self.established |= state in OPENED
        flags = self.established | (ended and readable == 0) << 1 | closed << 2 | (closed and failed) << 3
        writable = max(limit - about.tx_buffer_len, 0) if state in CAN_WRITE else 0
        return struct.pack("<BII", flags, readable, writable)

    def state(self) -> bytes:
        """What an item of state says, without the number of the socket; empty without a connection."""
        session = self.socket.tcp_session
        if session is None or session.state.name not in SHOWING:
            return b""
        inside = vars(session)
        sent, received, window = inside["_snd_seq"], inside["_rcv_seq"], inside["_win"]
        control, rto, timers = inside["_cc"], inside["_rto_state"], inside["_timers"]
        due = timers.deadline("retransmit")
        others = any(timers.deadline(name) is not None for name in ("persist", "tlp", "rack"))
        timer = STOPPED if due is None else due * MILLISECOND
        if due is None and others:
            timer = REPLACED
        fields: list[tuple[str, int | None]] = [
            ("I", int(sent.una)),
            ("I", int(sent.nxt)),
            ("I", window.snd_wnd),
            ("I", int(received.nxt)),
            ("I", vars(type(session))["_rcv_wnd"].fget(session)),
            ("I", control.cwnd),
            ("I", control.ssthresh if control.ssthresh < LARGEST else None),
            ("Q", None if rto.srtt_ms is None else rto.srtt_ms * MILLISECOND),
            ("Q", rto.rto_ms * MILLISECOND),
            ("Q", timer),
        ]
        mask = sum(1 << bit for bit, (_, value) in enumerate(fields) if value is not None)
        there = [(kind, value) for kind, value in fields if value is not None]
        return struct.pack("<H" + "".join(kind for kind, _ in there), mask, *(value for _, value in there))


class Host:
    """PyTCP with its sockets."""

    def __init__(self, loop: Loop, settings: dict[str, str]) -> None:
        self.loop = loop
        self.settings = settings
        self.limit = int(settings.get("send_buffer", SEND_BUFFER))
        self.shows = settings.get("state") == "1"
        self.connections: list[Connection] = []
        self.accepted: list[tuple[int, int, bytes, int]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.wire, self.device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.wire.settimeout(0)
        for end in (self.wire, self.device):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DEVICE_BUFFER)
        self.arrivals = select.poll()
        self.arrivals.register(self.device, select.POLLIN)
        self.library = importlib.import_module(LIBRARY)

    async def start(self) -> None:
        """Starts PyTCP. Raises `ValueError` for a setting that it does not accept."""
        stack = importlib.import_module(STACK)
        layers = importlib.import_module(INTERFACE).InterfaceLayer
        address = importlib.import_module(ADDRESS).Ip4IfAddr(self.settings["address"] + "/8")
        sysctls = {}
        if "receive_buffer" in self.settings:
            sysctls["tcp.rcv_wnd_max"] = int(self.settings["receive_buffer"])
        if "ack_delay_ns" in self.settings:
            sysctls["tcp.delayed_ack.delay_ms"] = int(self.settings["ack_delay_ns"]) // MILLISECOND
        stack.init(
            fd=self.device.fileno(),
            layer=layers.L3,
            mtu=int(self.settings["mtu"]),
            ip4_host=address,
            ip6_support=False,
            sysctls=sysctls or None,
        )
        await stack.start()
        if "isn" in self.settings:
            set_isn(int(self.settings["isn"]))
        await self.settle()
        self.sent()

    async def settle(self) -> None:
        """Lets PyTCP do everything that is due."""
        quiet = 0
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            quiet = 0 if self.loop.is_busy() or self.arrivals.poll(0) else quiet + 1
            if quiet >= QUIET:
                return
        message = "PyTCP does not become quiet"
        raise RuntimeError(message)

    def sent(self) -> list[bytes]:
        """The packets that PyTCP has sent since the last call."""
        packets: list[bytes] = []
        while True:
            try:
                packets.append(self.wire.recv(LARGEST_PACKET)[len(TUN_HEAD) :])
            except BlockingIOError:
                return packets

    def open(self) -> Any:
        """A socket with the options of the settings."""
        names, settings = self.library, self.settings
        sock = names.socket(names.AddressFamily.INET4, names.SocketType.STREAM)
        if settings.get("nagle") == "0":
            sock.setsockopt(names.IPPROTO_TCP, names.TCP_NODELAY, 1)
        if "cc" in settings:
            sock.setsockopt(names.IPPROTO_TCP, names.TCP_CONGESTION, CONTROLLERS[settings["cc"]])
        if "keepalive_ns" in settings:
            # In milliseconds, other than on Linux.
            idle = max(int(settings["keepalive_ns"]) // MILLISECOND, 1)
            sock.setsockopt(names.SOL_SOCKET, names.SO_KEEPALIVE, 1)
            sock.setsockopt(names.IPPROTO_TCP, names.TCP_KEEPIDLE, idle)
            sock.setsockopt(names.IPPROTO_TCP, names.TCP_KEEPINTVL, max(idle // 10, 1))
        if "user_timeout_ns" in settings:
            limit = int(settings["user_timeout_ns"]) // MILLISECOND
            sock.setsockopt(names.IPPROTO_TCP, names.TCP_USER_TIMEOUT, limit)
        return sock

    async def accept(self, port: int) -> None:
        """Accepts connections at a port until the end of the run."""
        listener = self.open()
        listener.bind((ANY, port))
        listener.listen()
        while True:
            sock, (address, remote) = await listener.accept()
            self.accepted.append((len(self.connections), port, socket.inet_aton(address), remote))
            self.connections.append(Connection(sock))

    async def connect(self, sock: Any, address: str, port: int) -> None:
        """Opens a connection. The status of the socket shows whether it failed."""
        try:
            await sock.connect((address, port))
        except OSError:
            return

    async def perform(self, kind: int, rest: bytes) -> tuple[int, bytes]:
        """A request: its result, and the items that belong to it."""
        if kind == Request.INPUT:
            self.wire.send(TUN_HEAD + rest)
        elif kind == Request.LISTEN:
            (port,) = struct.unpack("<H", rest)
            self.tasks.append(self.loop.create_task(self.accept(port)))
        elif kind == Request.CONNECT:
            own, address, port = struct.unpack("<H4sH", rest)
            sock = self.open()
            sock.bind((ANY, own))
            self.connections.append(Connection(sock))
            connecting = self.connect(sock, socket.inet_ntoa(address), port)
            self.tasks.append(self.loop.create_task(connecting))
            return len(self.connections) - 1, b""
        elif kind >= Request.WRITE:
            (number,) = struct.unpack_from("<I", rest)
            return await self.of_connection(kind, self.connections[number], rest[4:])
        return 0, b""

    async def of_connection(self, kind: int, connection: Connection, rest: bytes) -> tuple[int, bytes]:
        """A request about a connection."""
        sock = connection.socket
        if kind == Request.WRITE:
            room = max(self.limit - sock.status().tx_buffer_len, 0)
            try:
                return await sock.send(rest[:room]) if room else 0, b""
            except OSError:
                return 0, b""
        if kind == Request.READ:
            (most,) = struct.unpack("<I", rest)
            data = await sock.recv(most, timeout=0) if most and sock.status().rx_buffer_len else b""
            return 0, counted(Item.DATA, data)
        if kind == Request.SHUTDOWN:
            sock.shutdown(socket.SHUT_WR)
            return 0, b""
        connection.released = True
        if kind == Request.CLOSE:
            sock.close()
        else:
            sock.abort()
        return 0, b""

    async def answer(self, content: bytes) -> bytes:
        """Performs a request, and returns the answer."""
        kind, now = struct.unpack_from("<BQ", content)
        # Timers before this time fire at their own time.
        while (due := self.loop.due()) < now:
            _elapsed[0] = max(_elapsed[0], due)
            await self.settle()
        _elapsed[0] = now
        if self.loop.first() <= self.loop.time() + RESOLUTION:
            await self.settle()
        result, items = await self.perform(kind, content[HEAD:])
        await self.settle()
        parts = [items]
        parts += [counted(Item.PACKET, packet) for packet in self.sent()]
        parts += [struct.pack("<BIH4sH", Item.ACCEPTED, *one) for one in self.accepted]
        self.accepted.clear()
        for number, one in enumerate(self.connections):
            if self.shows and (shown := one.state()) and shown != one.shown:
                one.shown = shown
                parts.append(struct.pack("<BI", Item.STATE, number) + shown)
            if not one.released and (told := one.status(self.limit)) != one.told:
                one.told = told
                parts.append(struct.pack("<BI", Item.STATUS, number) + told)
        return struct.pack("<QI", self.loop.due(), result) + b"".join(parts)


def receive(requests: BinaryIO) -> bytes | None:
    """The content of the next request; `None` at the end of the run."""
    head = requests.read(SIZE)
    return requests.read(struct.unpack("<I", head)[0]) if len(head) == SIZE else None


def send(answers: BinaryIO, content: bytes) -> None:
    """Sends an answer."""
    answers.write(struct.pack("<I", len(content)) + content)
    answers.flush()


async def serve(loop: Loop, requests: BinaryIO, answers: BinaryIO, first: bytes) -> None:
    """Answers requests until they end."""
    settings = dict(line.split("=", 1) for line in first[HEAD:].decode().splitlines())
    set_seed(int(settings["seed"]))
    host = Host(loop, settings)
    try:
        await host.start()
    except ValueError as error:
        send(answers, f"error={error}".encode())
        return
    about = f"name=pytcp\nversion={_version()}\ngranularity_ns={MILLISECOND}\nfork=1"
    send(answers, f"{about}\noptions={OPTIONS}\nshows={SHOWN}".encode())
    while (content := receive(requests)) is not None:
        send(answers, await host.answer(content))


@functools.cache
def _version() -> str:
    return importlib.metadata.version("pmd-pytcp")


def fork(control: socket.socket) -> None:
    """Forks a process for each pair of files that arrives, whose number is the answer. Returns in such a process.

    It is orphaned, so that the run becomes its parent.
    """
    _version()
    importlib.import_module(LIBRARY)
    importlib.import_module(INTERFACE)
    importlib.import_module(ADDRESS)
    prctl = ctypes.CDLL(None).prctl
    gc.freeze()
    while True:
        told, files, _, _ = socket.recv_fds(control, 1, len(("stream", "errors")))
        if not told:
            os._exit(0)
        reads, writes = os.pipe()
        between = os.fork()
        if between == 0:
            made = os.fork()
            if made:
                os.setpgid(made, made)
                os.write(writes, struct.pack("<I", made))
                os._exit(0)
            for place, file in enumerate((files[0], files[0], files[1])):
                os.dup2(file, place)
            for file in (*files, reads, writes):
                os.close(file)
            control.close()
            # The first request comes when it has been orphaned.
            select.select([0], [], [])
            prctl(PARENT_DEATH_SIGNAL, KILL)
            return
        os.waitpid(between, 0)
        control.sendall(os.read(reads, SIZE))
        for file in (*files, reads, writes):
            os.close(file)


def main() -> None:
    """Runs until the end of standard input."""
    set_clocks()
    set_sources()
    # Imported before the seed is set: what it draws then is drawn again.
    importlib.import_module(STACK)
    # Without a buffer, in which the end of another message could be left.
    with os.fdopen(os.dup(0), "rb", buffering=0) as requests:
        first = receive(cast("BinaryIO", requests))
    if first is not None and first[0] == Request.FORK:
        os.write(1, bytes(SIZE))
        fork(socket.socket(fileno=os.dup(0)))
        first = None
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        # Whatever the libraries print is not a frame.
        os.dup2(2, 1)
        if (first := first or receive(requests)) is None:
            return
        loop = Loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(loop, requests, answers, first))
        # Without the cleaning up of PyTCP's tasks, which never end.
        os._exit(0)


if __name__ == "__main__":
    main()
