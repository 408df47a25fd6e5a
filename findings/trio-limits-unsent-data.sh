#!/bin/sh
# trio 0.35.0, uvloop 0.23.0, asyncio of Python 3.11: connections have other socket options than those of Linux.
#
# Expected by most: an asynchronous library opens a TCP connection with the defaults of Linux, Nagle's algorithm among
# them (RFC 9293 section 3.7.4), and who wants something else sets it. Seen: trio sets TCP_NODELAY and
# TCP_NOTSENT_LOWAT to 16,384 bytes, so that a sender is never ready for more than 16 KB of unsent data, whatever
# SO_SNDBUF is, and a slow event loop leaves the connection limited by the application; asyncio and uvloop set
# TCP_NODELAY; Twisted sets neither. The same two writes are one segment or two, and a bulk transfer is or is not
# limited by its application, depending on the library in which the traffic generator is written.
# Needs: Linux, python3 (3.11) with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check trio==0.35.0 uvloop==0.23.0 Twisted==26.10.0
cat > show.py <<'PY'
import asyncio
import socket

import trio
import uvloop
from twisted.internet import protocol, reactor

TCP_NOTSENT_LOWAT = 25
server = socket.create_server(("127.0.0.1", 0))
address = server.getsockname()


def show(library, connection):
    no_delay = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    unsent = connection.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT)
    plain = socket.create_connection(address).getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT)
    print(f"{library}: TCP_NODELAY {no_delay}, TCP_NOTSENT_LOWAT {'as the system' if unsent == plain else unsent}")


async def streams(library):
    _, writer = await asyncio.open_connection(*address)
    show(library, writer.get_extra_info("socket"))
    writer.close()


async def stream():
    show("trio", (await trio.open_tcp_stream(*address)).socket)


class Connected(protocol.Protocol):
    def connectionMade(self):
        show("Twisted", self.transport.getHandle())
        reactor.stop()


show("socket", socket.create_connection(address))
asyncio.run(streams("asyncio"))
uvloop.run(streams("uvloop"))
trio.run(stream)
factory = protocol.ClientFactory.forProtocol(Connected)
reactor.connectTCP(*address, factory)
reactor.run()
PY
seen=$(venv/bin/python show.py)
echo "$seen"
[ "$seen" = "socket: TCP_NODELAY 0, TCP_NOTSENT_LOWAT as the system
asyncio: TCP_NODELAY 1, TCP_NOTSENT_LOWAT as the system
uvloop: TCP_NODELAY 1, TCP_NOTSENT_LOWAT as the system
trio: TCP_NODELAY 1, TCP_NOTSENT_LOWAT 16384
Twisted: TCP_NODELAY 0, TCP_NOTSENT_LOWAT as the system" ]
