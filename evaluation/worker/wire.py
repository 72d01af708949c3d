"""The protocol between the judge and one worker: frames over a stream socket, nothing that can run code.

A frame is a fixed header (magic, kind, ticket, payload length) and a payload coded by evaluation/worker/codec.py.
LOAD, BUILT, CONSTRUCT, RUN, REHEARSE and ECHO ask for an answer; MAP hands over the shared buffer that the next frames
speak of. On a device MAP_DEVICE hands over its buffers, GATED and GATED_ECHO ask for a call, or for none, behind a gate
(evaluation/device/harness.cu), SPANS for the times of those, SETTLE for the device to come to rest, PROFILE for what
a call does beside taking time.
File descriptors travel only from the judge to the worker, as SCM_RIGHTS beside the header.
"""

from __future__ import annotations

import array
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

HEADER = struct.Struct("<4sHHQI")
TICKET_AT = struct.calcsize("<4sHH")
"""Where in a header the ticket stands, as eight bytes."""
MAGIC = b"KSW1"
_MAX_DESCRIPTORS = 4
MAX_PAYLOAD_BYTES = 16 * 2**20


class WireError(Exception):
    """The other side sent something that is not the protocol."""


class Closed(Exception):
    """The other side has closed the socket."""


class Kind(IntEnum):
    """What a frame says. The judge sends the first group, the worker the second."""

    LOAD = 1
    BUILT = 2
    MAP = 3
    CONSTRUCT = 4
    RUN = 5
    REHEARSE = 6
    ECHO = 7
    MAP_DEVICE = 8
    GATED = 9
    GATED_ECHO = 10
    SPANS = 11
    SETTLE = 12
    PROFILE = 13

    HELLO = 16
    BUILD = 17
    LOADED = 18
    CONSTRUCTED = 19
    DONE = 20
    FAULT = 21


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. `ticket` of an answer repeats that of the question."""

    kind: Kind
    ticket: int
    payload: bytes = b""
    descriptors: list[int] = field(default_factory=list)


def head(frame: Frame) -> bytes:
    """The header of a frame."""
    return HEADER.pack(MAGIC, frame.kind, 0, frame.ticket, len(frame.payload))


def send(sock: socket.socket, frame: Frame) -> None:
    """Send one frame. Raises Closed if nobody is there to take it, TimeoutError by the socket's own timeout."""
    if len(frame.payload) > MAX_PAYLOAD_BYTES:
        raise WireError(f"payload of {len(frame.payload)} bytes is above {MAX_PAYLOAD_BYTES}")
    header = head(frame)
    ancillary = []
    if frame.descriptors:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", frame.descriptors))]
    try:
        sent = sock.sendmsg([header, frame.payload], ancillary)
        if sent < len(header) + len(frame.payload):
            sock.sendall((header + frame.payload)[sent:])
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


def receive(
    sock: socket.socket, expected: Sequence[Kind], *, accept_descriptors: bool = False, begun: bytes = b""
) -> Frame:
    """Wait for one frame of an expected kind; `begun` is what has been received of it, without descriptors.

    Raises Closed at the end of the stream, WireError if it is anything else, TimeoutError by the socket's own timeout.
    """
    if accept_descriptors:
        raw, descriptors = _receive_header(sock)
    else:
        raw, descriptors = begun[: HEADER.size] + _receive_exactly(sock, HEADER.size - len(begun)), []
    magic, kind, reserved, ticket, length = HEADER.unpack(raw)
    if magic != MAGIC or reserved != 0:
        raise WireError("a frame does not begin with the protocol's header")
    if kind not in tuple(expected):
        raise WireError(f"a frame of kind {kind} where {', '.join(k.name for k in expected)} is due")
    if length > MAX_PAYLOAD_BYTES:
        raise WireError(f"a frame announces {length} bytes, above {MAX_PAYLOAD_BYTES}")
    payload = begun[HEADER.size :]
    if len(payload) > length:
        raise WireError("bytes follow a frame that was not asked for")
    return Frame(Kind(kind), ticket, payload + _receive_exactly(sock, length - len(payload)), descriptors)


def is_whole(data: bytes, kinds: Sequence[Kind]) -> bool:
    """Whether these bytes are all of a frame of one of these kinds."""
    if len(data) < HEADER.size:
        return False
    _, kind, _, _, length = HEADER.unpack_from(data)
    return kind in tuple(kinds) and len(data) >= HEADER.size + length


def _receive_header(sock: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    try:
        data, ancillary, _, _ = sock.recvmsg(HEADER.size, socket.CMSG_SPACE(_MAX_DESCRIPTORS * fds.itemsize))
    except ConnectionResetError as error:
        raise Closed from error
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if not data:
        raise Closed
    return data + _receive_exactly(sock, HEADER.size - len(data)), list(fds)


def _receive_exactly(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count > 0:
        try:
            part = sock.recv(min(count, 2**20))
        except ConnectionResetError as error:
            raise Closed from error
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
