import os
import struct
import subprocess
import sys
import time

import pytest

from kmha.course import zygote
from kmha.course.encoding import encode, read, write


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


@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
def test_it_ends_also_in_the_middle_of_a_fork(hook, tmp_path):
    """Python reports what hooks around a fork raise, and goes on: an exit that is an exception would not be one."""
    program = f"""
import os, signal
from kmha.course import zygote
os.register_at_fork({hook}=lambda: os.kill(os.getpid(), signal.SIGTERM))
zygote.main([])
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert read(process.stdout) == b""
        code = "import time\ntime.sleep(3)\ndef f(): return 1\n"
        question = {"ask": None, "inputs": {}}
        write(process.stdin, encode({"name": "f", "files": {"f.py": code}, "questions": [question], "seconds": 9.0}))
        assert read(process.stdout) is None
    assert list(tmp_path.iterdir()) == []
