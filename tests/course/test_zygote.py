import os
import struct
import time

from kmha.course import zygote


def test_a_relay_sorts_answers_from_questions():
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    asked = []

    def serve(message):
        asked.append(message)
        return b"reply"

    relay = zygote._Relay(reader, writer, serve, time.monotonic() + 9)
    whole = struct.pack("<Q", 3) + b"one"
    question = struct.pack("<Q", 4 | zygote.ASKS) + b"asks"
    relay.buffer += whole + question + whole[:5]
    assert relay._messages()
    assert relay.sent == [whole]
    assert asked == [b"asks"]
    assert os.read(far_reader, 100) == struct.pack("<Q", 5) + b"reply"
    assert bytes(relay.buffer) == whole[:5]
    for descriptor in (reader, writer, far_reader, far_writer):
        os.close(descriptor)


def test_whoever_has_gone_needs_no_reply():
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    os.close(far_reader)
    relay = zygote._Relay(reader, writer, lambda message: b"reply", time.monotonic() + 9)
    relay.buffer += struct.pack("<Q", 4 | zygote.ASKS) + b"asks"
    assert relay._messages()
    for descriptor in (reader, writer, far_writer):
        os.close(descriptor)
