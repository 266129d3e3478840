"""Messages cross as text, garbage is refused, and nothing but our own types comes back."""

from __future__ import annotations

import socket
import struct
import threading
import zlib

import hand_kernels as kernels
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure import channel, wire
from measure.channel import Channel, Closed, DeadlinePassed
from measure.child import last_line
from measure.job import Build, Open, Rounds
from measure.measurement import CompiledFacts, Evidence, Failed, Failure, Timed, Timing
from measure.wire import BadMessage
from search_space import target as targets

WORKLOAD = kernels.workload(16, 32, 48)
MESSAGES = [
    Build(kernels.descriptor_matmul(WORKLOAD), ("hip", "gfx942", 64)),
    Open(WORKLOAD, targets.load("h200"), "cuda:0", (0, 1)),
    Failed(Failure.CORRECTNESS, 'a "word" \\ é\n', CompiledFacts(1, 2, 3, 4, {"HMMA": 5})),
    Timed(Timing(0.1, 1e-300, 1e300, (0.1,)), None, Evidence("r", (1,), 0.1, 0.2, 0.3), 1.0, 2.0),
    Rounds(((1.0, 2.0), ()), ((1, Failed(Failure.TIMEOUT, "late")),)),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_kind_of_message_comes_back_as_it_was(message: object) -> None:
    back = wire.decode(wire.encode(message))
    assert back == message
    assert type(back) is type(message)


def test_a_workload_keeps_its_key() -> None:
    back = wire.decode(wire.encode(WORKLOAD))
    assert (back.key, back.label) == (WORKLOAD.key, WORKLOAD.label)


def test_a_foreign_type_does_not_cross() -> None:
    with pytest.raises(TypeError, match="object does not cross"):
        wire.encode({"a": object()})


@pytest.mark.parametrize(
    "text", [b'{"$":"Popen","args":"ls"}', b'{"$":"Axis","no":1}', b"{", b"\xff", b'{"$":[]}']
)
def test_what_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(BadMessage):
        wire.decode(text)


@given(st.binary(max_size=100))
def test_garbage_on_a_channel_is_refused_or_waited_for(junk: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(junk)
        left.close()
        with pytest.raises((BadMessage, Closed)):
            Channel(right).receive(5)


def test_a_flipped_bit_is_seen() -> None:
    body = bytearray(wire.encode(MESSAGES[0]))
    head = struct.pack(">4sII", b"aSm1", len(body), zlib.crc32(body))
    body[40] ^= 4
    left, right = socket.socketpair()
    with left, right:
        left.sendall(head + body)
        with pytest.raises(BadMessage, match="checksum"):
            Channel(right).receive(5)


def test_a_large_message_arrives_whole_and_silence_has_a_deadline() -> None:
    left, right = socket.socketpair()
    with left, right:
        message = {"text": "x" * 5_000_000}
        sender = threading.Thread(target=Channel(left).send, args=(message,))
        sender.start()
        assert Channel(right).receive(30) == message
        sender.join()
        with pytest.raises(DeadlinePassed):
            Channel(right).receive(0.05)


def test_a_length_beyond_reason_is_garbage() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(struct.pack(">4sII", b"aSm1", channel.LARGEST_BYTES + 1, 0))
        with pytest.raises(BadMessage, match="garbage"):
            Channel(right).receive(5)


def test_last_line_says_something() -> None:
    assert last_line("at 1:2:\n  x = y\n  ^^^\nbad thing\n\n") == "bad thing"
    assert last_line(" \n ^~~ \n") == ""
    assert len(last_line("x" * 9999)) == 300
