import contextlib
import os
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from kmha.sandbox import fork_server, limits
from kmha.sandbox.encoding import LARGEST_REQUEST, encode, read, write
from kmha.sandbox.sandbox import Call


def test_a_relay_keeps_results_and_answers_requests():
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    requests = []

    def serve(message, wait):
        requests.append(message)
        return b"reply"

    relay = fork_server._Relay(reader, writer, serve, lambda *_: None)
    whole = struct.pack("<Q", 3) + b"one"
    request = struct.pack("<Q", 4 | fork_server.REQUEST) + b"asks"
    relay.buffer += whole + request + whole[:5]
    relay._dispatch()
    assert relay.sent == [whole]
    assert requests == [b"asks"]
    assert os.read(far_reader, 100) == struct.pack("<Q", 5) + b"reply"
    assert bytes(relay.buffer) == whole[:5]
    for descriptor in (reader, writer, far_reader, far_writer):
        os.close(descriptor)


def test_a_worker_that_takes_back_what_it_sent():
    """The supervisor waited for it without any limit."""
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    waited = []

    def wait(*_):
        waited.append(1)
        if len(waited) == 3:
            os.close(far_writer)

    assert fork_server._Relay(reader, writer, lambda *_: b"", wait).run() == ""
    assert len(waited) == 3
    for descriptor in (reader, writer, far_reader):
        os.close(descriptor)


def test_a_worker_that_fills_the_pipe_of_its_replies():
    """The supervisor and the fork server ended."""
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    waited = []

    def wait(*_):
        waited.append(1)
        if len(waited) == 3:
            os.read(far_reader, 1 << 20)

    relay = fork_server._Relay(reader, writer, lambda *_: b"reply", wait)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(1 << 16))
    relay._reply(b"reply")
    assert len(waited) == 3
    assert os.read(far_reader, 100).endswith(b"reply")
    for descriptor in (reader, far_writer, far_reader, writer):
        os.close(descriptor)


def test_empty_messages_count_too():
    """A worker could send millions of them, and the supervisor looked at no clock meanwhile."""
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    relay = fork_server._Relay(reader, writer, lambda *_: b"", lambda *_: None)
    pending = memoryview(bytes(fork_server.LARGEST // fork_server.LEAST * 8 + (1 << 20)))

    def wait(*_):
        nonlocal pending
        pending = pending[os.write(far_writer, pending[: 1 << 15]) :]

    relay.wait = wait
    assert relay.run() == "output"
    assert len(pending)
    for descriptor in (reader, far_writer, far_reader, writer):
        os.close(descriptor)


def test_no_reply_to_a_worker_that_ended():
    (reader, far_writer), (far_reader, writer) = os.pipe(), os.pipe()
    os.close(far_reader)
    relay = fork_server._Relay(reader, writer, lambda message, wait: b"reply", lambda *_: None)
    relay.buffer += struct.pack("<Q", 4 | fork_server.REQUEST) + b"asks"
    relay._dispatch()
    for descriptor in (reader, writer, far_writer):
        os.close(descriptor)


def _ended(before, folder):
    """Run some code in a fork server, give it a task, and return the files that it leaves."""
    program = (
        "import os, signal\nfrom kmha.sandbox import fork_server, limits, scratch\n"
        f"limits.missing()  # its imports use pipes too\n{before}\nfork_server.main([])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    ) as process:
        assert read(process.stdout) == b""
        code = b"import time\ntime.sleep(3)\ndef f(): return 1\n"
        call = {"function": None, "inputs": {}}
        task = {"name": "f", "files": {"f.py": np.frombuffer(code, np.uint8)}, "calls": [call], "seconds": 0.5}
        write(process.stdin, encode(task))
        assert read(process.stdout) is None
    return list(folder.iterdir())


@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
@pytest.mark.parametrize("who", ["==", "!="])
def test_signal_during_a_fork_ends_the_fork_server(hook, who, tmp_path):
    """Python only reports exceptions in the hooks around a fork, so the handler must not exit by an exception."""
    before = f"""
first = os.getpid()
os.register_at_fork({hook}=lambda: os.getpid() {who} first and os.kill(os.getpid(), signal.SIGTERM))"""
    assert _ended(before, tmp_path) == []


@pytest.mark.parametrize(
    ("place", "name"), [("scratch", "make"), ("scratch", "remove"), ("fork_server", "_kill"), ("os", "pipe")]
)
def test_signal_while_scratch_folder_is_made_or_removed(place, name, tmp_path):
    before = f"""
real = {place}.{name}
def disturbed(*arguments):
    if {name!r} == "make":
        folder = real()
        os.kill(os.getpid(), signal.SIGTERM)
        return folder
    os.kill(os.getpid(), signal.SIGTERM)
    return real(*arguments)
{place}.{name} = disturbed"""
    assert _ended(before, tmp_path) == []


# It joins no words, which it would find then.
SEARCH = """import ctypes, re
def f(first, second):
    first, second, found = first.encode(), second.encode(), 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end, kind = re.match("(\\w+)-(\\w+) (\\S+)", line).groups()
            if kind.startswith("rw"):
                pieces = ctypes.string_at(int(start, 16), int(end, 16) - int(start, 16)).split(first)
                found += sum(piece.startswith(second) for piece in pieces[1:])
    return found
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_holds_no_other_task_or_result(sandbox):
    solution = f"# {'of-the-solution-' * 9}\ndef f(): return 'and-its-result-' * 9\n"
    assert sandbox.run("f", solution, [Call({})]).results[0].value == "and-its-result-" * 9
    words = [("of-the-", "solution-"), ("and-its-", "result-"), ("its-own-", "words-")]
    questions = [Call({"first": first, "second": second}) for first, second in words]
    own = f"{SEARCH}# {'its-own-words-' * 9}\n"
    found = [answer.value for answer in sandbox.run("f", own, questions).results]
    assert found[:2] == [0, 0]
    assert found[2] >= 9


def test_signal_to_a_supervisor_is_repeated():
    program = """import os, signal, time
def told(*_):
    told.count += 1
    if told.count == 2: os._exit(0)
told.count = 0
signal.signal(signal.SIGTERM, told)
print(flush=True)
time.sleep(9)
"""
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        fork_server._end_supervisor(process.pid)
    assert time.monotonic() - start < 8


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_task_ends_with_the_process_that_waits_for_it(tmp_path):
    """Otherwise it runs until its time limit, although the grader was killed."""
    program = (
        "from kmha.sandbox.sandbox import Call, Sandbox\nsandbox = Sandbox()\nsandbox.start()\n"
        "print(sandbox._process.pid, flush=True)\n"
        "sandbox.run('f', 'def f():\\n    while True: pass\\n', [Call({})], seconds=500)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        server = int(process.stdout.readline())
        while not list(tmp_path.iterdir()):
            time.sleep(0.02)
        process.kill()
    while os.path.exists(f"/proc/{server}") and "Z" not in _state(server):  # until the test's own time is up
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


def _state(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")
def test_a_worker_stands_still_while_its_files_are_counted(tmp_path, monkeypatch):
    """One that always moved a folder out of the way had 600 MB beside a limit of 64."""
    states = []

    def state():
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    monkeypatch.setattr(fork_server, "POLL", 0)
    monkeypatch.setattr(fork_server.scratch, "exceeds_limits", lambda *_: states.append(state()))
    reader, writer = os.pipe()
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as process, os.fdopen(reader, "rb") as source:
        watch = fork_server._Watch(tmp_path, process.pid, source, time.monotonic() + 60)
        for _ in range(20):
            assert not watch._exceeded()
            assert state() in "RS"
        with monkeypatch.context() as less:
            less.setattr(limits, "DATA", 1 << 20)
            assert watch._exceeded() == "memory"
        process.kill()
        assert not watch._exceeded()  # it has ended
    assert states == [*"T" * 20, states[-1]]
    assert states[-1] in "ZRS"
    os.close(writer)


def test_the_limits_hold_while_a_request_goes_to_a_slow_grader():
    """A worker started 19,000 threads while its supervisor only wrote a request of 60 MB. Others then got no points."""
    (source, replies), (requests, sink) = os.pipe(), os.pipe()
    looked = []

    def wait(readers, writers=()):
        looked.append((readers, writers))
        if len(looked) == 40:
            raise fork_server._ExceededError("threads")
        if readers:  # the reply comes only when the whole request has been read
            assert len(looked) < 40

    def grade():
        with os.fdopen(requests, "rb") as asked, os.fdopen(replies, "wb") as answers:
            time.sleep(0.2)
            message = read(asked)
            write(answers, message[:3])

    thread = threading.Thread(target=grade)
    thread.start()
    with pytest.raises(fork_server._ExceededError, match="threads"):
        fork_server._exchange(sink, source, bytes(10**6), wait)
    thread.join()
    assert len(looked) == 40  # then the worker has been killed, and the exchange is finished
    assert all(files == ([], [sink]) for files in looked)


def test_the_reply_comes_back_whole():
    (source, replies), (requests, sink) = os.pipe(), os.pipe()
    reply = os.urandom(3 << 20)

    def grade():
        with os.fdopen(requests, "rb") as asked, os.fdopen(replies, "wb") as answers:
            assert read(asked) == b"asks"
            write(answers, reply)

    thread = threading.Thread(target=grade)
    thread.start()
    assert fork_server._exchange(sink, source, b"asks", lambda *_: None) == reply
    thread.join()
    os.close(source)


def test_a_large_request_ends_the_worker():
    reader, writer = os.pipe()
    relay = fork_server._Relay(reader, writer, lambda *_: b"", lambda *_: None)
    relay.buffer += struct.pack("<Q", (LARGEST_REQUEST + 1) | fork_server.REQUEST)
    os.write(writer, b"more")
    assert relay.run() == "request"
