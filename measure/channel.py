"""Framed messages over a socket between two processes. Knows nothing of what they mean.

A frame is a magic word, the length and the CRC-32 of a JSON text. Anything else on the socket is
garbage and is reported as such: the peer is then beyond trust.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from typing import Any

from measure.wire import BadMessage, decode, encode

_HEAD = struct.Struct(">4sII")
_MAGIC = b"aSm1"
#: No message of ours comes near this.
LARGEST_BYTES = 256 << 20


class Closed(Exception):
    """The peer has gone."""


class DeadlinePassed(Exception):
    """No whole message came in time."""


class Channel:
    """One end of a connected stream socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, value: Any) -> None:
        """Write one message; raises Closed when the peer has gone."""
        body = encode(value)
        try:
            self._socket.settimeout(None)
            self._socket.sendall(_HEAD.pack(_MAGIC, len(body), zlib.crc32(body)) + body)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> Any:
        """Return the next message; raises Closed, DeadlinePassed or BadMessage."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        magic, length, checksum = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if magic != _MAGIC or length > LARGEST_BYTES:
            raise BadMessage(f"garbage where a message should start: {magic!r}")
        body = self._exactly(length, deadline)
        if zlib.crc32(body) != checksum:
            raise BadMessage("a message whose checksum does not match")
        return decode(body)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts, missing = [], count
        while missing:
            try:
                self._socket.settimeout(_left_s(deadline))
                part = self._socket.recv(min(missing, 1 << 20))
            except TimeoutError as error:
                raise DeadlinePassed from error
            except OSError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("end of stream")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def _left_s(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlinePassed
    return left
