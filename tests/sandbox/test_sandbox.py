import os
import signal
import site
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from kmha.sandbox import limits
from kmha.sandbox import sandbox as sandboxes
from kmha.sandbox.encoding import decode, encode
from kmha.sandbox.errors import SandboxError, StoppedError
from kmha.sandbox.sandbox import Call, Pool, Sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")

WITH_KERAS = ("numpy", "keras", "tensorflow")


def _calls(**inputs):
    return [Call(inputs)]


def _says(ran):
    return (ran.error or ran.results[0].error)["says"]


def test_result_of_a_call(sandbox):
    ran = sandbox.run("f", "def f(a):\n    print('seen')\n    return {'b': (a + 1, 'text')}\n", _calls(a=np.arange(3)))
    assert ran.error is None
    (answer,) = ran.results
    assert answer.value["b"][0].tolist() == [1, 2, 3]
    assert answer.value["b"][1] == "text"
    assert answer.printed == "seen\n"
    assert (answer.error, answer.changed) == (None, ())


def test_all_names_of_numpy_can_be_imported(sandbox):
    """Some are modules that NumPy imports only when they are asked for."""
    code = "from numpy import *\ndef f(): return zeros(2)\n"
    assert sandbox.run("f", code, _calls()).results[0].value.tolist() == [0, 0]


def test_files_beside_it(sandbox):
    files = {"other.py": "number = 5\n"}
    assert (
        sandbox.run("f", "from other import number\ndef f(): return number\n", _calls(), files=files).results[0].value
        == 5
    )


@pytest.mark.parametrize("comment", ["," * 300_000, "[" * 300_000, "é" * 1_500_000, "\udcff"])
def test_an_answer_with_a_long_comment(sandbox, comment):
    """The limits of a result's parts and letters counted for the code too, and an error ended the whole command."""
    files = {"other.py": f"f = int\n# {comment}"}
    ran = sandbox.run("f", f"from other import f\n# {comment[:-1]}\n", _calls(), files=files)
    if comment == "\udcff":
        assert "UnicodeDecodeError" in ran.error["kind"]
    else:
        assert ran.results[0].value == 0


def test_tasks_leave_nothing_behind(sandbox):
    code = "import os, numpy as np\nnp.kept = 1\nopen('left', 'w').close()\ndef f(): return os.listdir()\n"
    assert sorted(sandbox.run("f", code, _calls()).results[0].value) == ["f.py", "left"]
    later = "import os, numpy as np\ndef f(): return [os.listdir(), hasattr(np, 'kept'), sorted(os.environ)]\n"
    files, kept, environment = sandbox.run("f", later, _calls()).results[0].value
    assert (files, kept) == (["f.py"], False)
    usual = {"HOME", "TMPDIR", "LANG", "LC_CTYPE", "TF_CPP_MIN_LOG_LEVEL", "HDF5_USE_FILE_LOCKING"}
    assert {"HOME", "TMPDIR"} <= {*environment} <= usual


_SEARCH = """
import ctypes, re
def f():
    word, places = re.compile(b"kmha[_]of[_]the[_]user"), set()  # which is not in memory itself
    for line in open("/proc/self/maps"):
        span, rights, *_, name = line.rstrip().split(" ")
        first, last = (int(number, 16) for number in span.split("-"))
        if rights.startswith("r") and not name.startswith("[v") and last - first < 1 << 29:
            if word.search(ctypes.string_at(first, last - first)):
                places.add(name or "heap")
    return sorted(places)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("uses", [("numpy",), pytest.param(("numpy", "keras"), marks=pytest.mark.slow)])
def test_no_folder_of_the_user_is_in_the_memory_of_a_task(uses, tmp_path, monkeypatch):
    """The fork server's first environment, on the stack, had PATH and HOME, and TensorFlow kept the current folder."""
    here = tmp_path / "kmha_of_the_user"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("HOME", "PATH", "ANYTHING"):
        monkeypatch.setenv(name, str(here))
    with Sandbox(uses) as sandbox:
        assert sandbox.run("f", _SEARCH, [Call({})], seconds=60).results[0].value == []


def test_libraries_of_the_user_are_found(monkeypatch):
    """Python looks for what `pip install --user` installed below HOME, which a task does not get."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "getusersitepackages", lambda: sys.path[-1])
    monkeypatch.setattr(site, "getuserbase", lambda: "/somewhere/.local")
    monkeypatch.setenv("LD_LIBRARY_PATH", "modules/lib:")  # the empty part would be the current folder
    found = sandboxes._environment(("numpy",))
    assert found["PYTHONUSERBASE"] == "/somewhere/.local"
    assert found["LD_LIBRARY_PATH"] == os.path.abspath("modules/lib")
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)  # as in a virtual environment
    assert "PYTHONUSERBASE" not in sandboxes._environment(("numpy",))


def test_a_relative_python_path_still_leads_there(tmp_path, monkeypatch):
    """The fork server has another current folder, which names no folder of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["modules", os.environ.get("PYTHONPATH", "")]))
    with Sandbox() as sandbox:
        code = "import sys\ndef f(): return sys.path\n"
        assert str(tmp_path / "modules") in sandbox.run("f", code, [Call({})]).results[0].value


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "def f():\n    while True: pass\n",
            "took longer than 0.7 seconds. Does it have a loop that never ends?",
        ),
        ("import os\ndef f(): os._exit(0)\n", "your code ended the process before it returned a result"),
        ("import os\ndef f(): os.abort()\n", "your code crashed the interpreter, or went over a limit (signal 6)"),
        (
            "def f():\n    [open(f'{n}', 'w').close() for n in range(900)]\n    while True: pass\n",
            "your code wrote too many files",
        ),
        ("import numpy as np\ndef f(): return np.ones(9 * 2**20)\n", "too large"),
        ("import sys\nsys.exit()\n", ""),
    ],
)
def test_tasks_without_a_result(sandbox, code, says):
    assert says in _says(sandbox.run("f", code, _calls(), seconds=0.7 if "0.7" in says else 8))
    assert sandbox.run("f", "def f(): return 5\n", _calls()).results[0].value == 5


def test_memory_is_limited(sandbox):
    code = "import numpy as np\ndef f():\n    held = np.ones(10 * 2**30 // 8)\n    return held.size\n"
    assert sandbox.run("f", code, _calls()).results[0].error["kind"] in ("MemoryError", "_ArrayMemoryError")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "kept",
    [
        "files.append(file)",
        "files.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE)); file.close()",
        "files.append(os.dup(file.fileno()))",
    ],
)
def test_removed_files_count(sandbox, kept):
    code = (
        "import mmap, os, tempfile\nfiles = []\n"
        "def f():\n    for _ in range(90):\n"
        "        file = tempfile.TemporaryFile()\n        file.write(bytes(30 << 20))\n        file.flush()\n"
        f"        {kept}\n"
    )
    assert "wrote too many files" in _says(sandbox.run("f", code, _calls()))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_are_limited(sandbox):
    code = (
        "import threading, time\nthreading.stack_size(65536)\n"
        "def f():\n    for _ in range(9_000):\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "    time.sleep(60)\n"
    )
    assert "threads" in _says(sandbox.run("f", code, _calls()))


UNMAPPED = """
def f():
    import ctypes
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    for place in [each[0] for each in lines if "openblas" in each[-1]]:
        start, end = (int(number, 16) for number in place.split("-"))
        libc.munmap(start, end - start)
    made = 0
    while libc.mmap(None, 1 << 20, 3, 0x22, -1, 0) not in (None, 2**64 - 1):
        made += 1
    return made
"""


@pytest.mark.skipif(limits.missing() != [], reason="reads /proc")
def test_the_room_of_libraries_is_not_for_data(sandbox):
    """An answer unmapped the files of its libraries, and filled 3.4 GB instead of 2."""
    assert sandbox.run("f", UNMAPPED, _calls()).results[0].value <= limits.MEMORY >> 20


UNREAD_REQUESTS = """
import fcntl, os, struct, time
for name in os.listdir("/proc/self/fd"):
    try:
        if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:") and fcntl.fcntl(int(name), fcntl.F_GETFL) & 3 == 1:
            os.write(int(name), struct.pack("<Q", 1 << 63) * 4_000)
    except OSError:
        pass
time.sleep(0.2)
"""
FIRST_THREAD_ENDS = """
import ctypes, os, threading, time
def fill():
    time.sleep(0.2)
    for number in range(20):
        file = os.open(str(number), os.O_RDWR | os.O_CREAT)
        os.unlink(str(number))
        os.write(file, bytes(30 << 20))
    time.sleep(60)
threading.Thread(target=fill).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@pytest.mark.skipif(limits.missing() != [], reason="reads /proc")
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            UNREAD_REQUESTS + "for number in range(20): open(str(number), 'wb').write(bytes(30 << 20))\n",
            "too many files",
        ),
        (
            UNREAD_REQUESTS + "import threading\nthreading.stack_size(65536)\nfor _ in range(3_000):\n"
            "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
            "threads",
        ),
        (FIRST_THREAD_ENDS, "too many files"),
    ],
)
def test_limits_hold_whatever_the_supervisor_waits_for(sandbox, code, says):
    assert says in _says(sandbox.run("f", f"{code}\ntime.sleep(60)\n", _calls(), seconds=20))
    assert sandbox.run("f", "def f(): return 1\n", _calls()).results[0].value == 1


def test_a_reply_that_comes_too_late_is_not_read_as_a_task(sandbox):
    code = "def f(): pass\n"
    ask = 'def ask(answer, inputs):\n    return worker_api.remote("late")()\n'

    def serve(name):
        time.sleep(0.4 * (limits.PATIENCE + 2))
        return "too late"

    assert "longer than" in _says(sandbox.run("f", code, [Call({}, ask)], seconds=0.4, serve=serve))
    assert sandbox.run("f", "def f(): return 1\n", _calls()).results[0].value == 1


def test_the_wait_for_a_reply_does_not_count(sandbox):
    """A thread that was busy with other answers replied late, so that a right answer was over its time."""
    ask = 'def ask(answer, inputs):\n    return worker_api.remote("late")()\n'

    def serve(name):
        time.sleep(1)
        return "in time"

    ran = sandbox.run("f", "def f(): pass\n", [Call({}, ask)], seconds=0.9, serve=serve)
    assert ran.results[0].value == "in time"
    assert ran.seconds < 0.9


@pytest.mark.skipif(sys.platform != "linux", reason="processes can be bound to a processor on Linux only")
def test_sandboxes_that_run_at_a_time_do_so_on_different_processors():
    usable = sorted(os.sched_getaffinity(0))
    code = "import os\ndef f(): return list(os.sched_getaffinity(0))\n"
    for number in (0, 1):
        with Sandbox(processor=number) as one:
            assert one.run("f", code, _calls()).results[0].value == [usable[number % len(usable)]]
    with Sandbox() as one:
        assert one.run("f", code, _calls()).results[0].value == usable


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
@pytest.mark.parametrize(
    "code",
    [
        "import os\ndef f(): os.fork()\n",
        "import subprocess\ndef f(): subprocess.run(['true'])\n",
        "import socket\ndef f(): socket.create_connection(('127.0.0.1', 9))\n",
        "def f(): open('/etc/passwd').read()\n",
        "def f(): open('/proc/self/environ').read()\n",
        "def f(): open('/proc/self/net/tcp').read()\n",
        "import os\ndef f(): open(f'/proc/{os.getppid()}/environ').read()\n",
        "import os\ndef f(): os.listdir('/tmp')\n",
        "import os\ndef f(): open('/dev/shm/kmha', 'w')\n",
        "import os\ndef f(): os.kill(os.getppid(), 9)\n",
    ],
)
def test_refused_system_calls(sandbox, code):
    assert sandbox.run("f", code, _calls()).results[0].error["kind"] in ("PermissionError", "BlockingIOError")
    assert sandbox.run("f", "def f(): return 5\n", _calls()).results[0].value == 5


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
def test_files_cannot_be_locked(sandbox, sandbox_of):
    """Through locks of a file of NumPy, a worker talked with another process. HDF5 does without locks."""
    code = "import fcntl, numpy\ndef f(): fcntl.flock(open(numpy.__file__), fcntl.LOCK_SH)\n"
    assert "not implemented" in sandbox.run("f", code, _calls()).results[0].error["says"]
    code = "import h5py\ndef f():\n    with h5py.File('x.h5', 'w') as file: file['a'] = 1\n"
    assert sandbox_of(WITH_KERAS).run("f", code, _calls()).results[0].error is None


def test_results_before_the_end_are_kept(sandbox):
    code = "import os\ndef f(a):\n    if a == 2: os._exit(0)\n    return a\n"
    ran = sandbox.run("f", code, [Call({"a": a}) for a in range(4)])
    assert [answer.value for answer in ran.results] == [0, 1, None, None]
    assert [answer.error is None for answer in ran.results] == [True, True, False, False]


def test_garbage_written_to_the_pipe_is_not_a_result(sandbox):
    code = (
        "import os\n"
        "def f():\n"
        "    for descriptor in range(3, 20):\n"
        "        try: os.write(descriptor, b'\\x05' + b'\\0' * 7 + b'hello')\n"
        "        except OSError: pass\n"
        "    return 5\n"
    )
    answer = sandbox.run("f", code, _calls()).results[0]
    assert answer.value is None
    assert answer.error is not None


def test_remote_function(sandbox):
    function = "def ask(module, inputs):\n    return module.f(worker_api.remote('double'))\n"
    calls = [Call({}, function)]

    def serve(name, *places, **names):
        if names:
            raise KeyError("none of these")
        return name, 2 * places[0]

    run = sandbox.run("f", "def f(double): return double(3)\n", calls, serve=serve)
    assert run.results[0].value == ("double", 6)
    run = sandbox.run("f", "def f(double): return double(a=3)\n", calls, serve=serve)
    assert run.results[0].error["kind"] == "ValueError"
    assert "none of these" in run.results[0].error["says"]
    long = "def f(double): return double(['x' * 100_000] * 30)\n"
    assert "bytes before the arrays" in _says(sandbox.run("f", long, calls, serve=serve))
    large = "import numpy as np\ndef f(double): return double(np.zeros(2 << 20))\n"
    assert "double takes at most 8 MiB" in _says(sandbox.run("f", large, calls, serve=serve))
    assert "this task offers no remote function" in _says(sandbox.run("f", "def f(double): return double(3)\n", calls))


@pytest.mark.parametrize("args", [np.zeros(10**7, "i1"), "a" * 1000, [1] * 1000])
def test_a_forged_request_is_not_unpacked(args):
    """The elements of an array as arguments took gigabytes of the process that serves."""
    reply = decode(sandboxes._reply(encode({"name": "f", "args": args, "kwargs": {}}), lambda *_: 1))
    assert "at most 100 arguments" in reply["error"]


def test_restart_after_close():
    with Sandbox() as found:
        assert found.run("f", "def f(): return 1\n", _calls()).results[0].value == 1
        found.close()
        assert found.run("f", "def f(): return 2\n", _calls()).results[0].value == 2


def test_fork_server_stays_warm(sandbox):
    """The second run uses the same process."""
    sandbox.run("f", "def f(): return 1\n", _calls())
    process = sandbox._process
    sandbox.run("f", "def f(): return 1\n", _calls())
    assert sandbox._process is process


def _forks(process):
    """The supervisor and its worker; none before both are there."""
    supervisors = _children(process)
    workers = [worker for supervisor in supervisors for worker in _children(supervisor)]
    return workers and supervisors + workers


def _children(process):
    path = f"/proc/{process}/task/{process}/children"
    with open(path) as file:
        return file.read().split()


def _runs(process):
    """Return whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_restart_after_an_unexpected_end(sandbox):
    """The next run writes into a pipe that nobody reads."""
    sandbox.run("f", "def f(): return 1\n", _calls())
    process = sandbox._process
    process.terminate()
    found = sandbox.run("f", "def f(): return 1\n", _calls())
    assert found.error is None or "the sandbox" in found.error["says"]
    assert sandbox.run("f", "def f(): return 2\n", _calls()).results[0].value == 2
    assert sandbox._process is not process


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_workers_end_with_the_fork_server(end):
    found = Sandbox()
    found.start()
    process = found._process
    thread = threading.Thread(target=found.run, args=("f", "def f():\n    while True: pass\n", _calls()))
    thread.start()
    while not (forks := _forks(process.pid)):
        time.sleep(0.02)
    getattr(process, end)()
    thread.join()
    found.close()
    while any(map(_runs, forks)):  # until the test's own time is up
        time.sleep(0.02)


def test_stop_from_another_thread():
    found = Sandbox()
    found.start()
    threading.Timer(0.3, found.stop).start()
    with pytest.raises(StoppedError):
        found.run("f", "def f():\n    while True: pass\n", _calls(), seconds=30)
    with pytest.raises(StoppedError):
        found.run("f", "def f(): return 1\n", _calls())
    found.close()


def test_a_sandbox_that_does_not_start(monkeypatch):
    monkeypatch.setattr(sandboxes.sys, "executable", "/bin/false")
    with pytest.raises(SandboxError, match="the sandbox does not start"):
        Sandbox().start()


@pytest.mark.slow
def test_nothing_of_kmha_is_in_the_worker(sandbox_of):
    """Its layers were registered with Keras, and its attention function was found among all objects."""
    code = (
        "import gc, keras, types\ndef f():\n    found = [*keras.saving.get_custom_objects()]\n"
        "    kinds = types.FunctionType, types.ModuleType, type\n"
        "    found_objects = [x for x in gc.get_objects() if isinstance(x, kinds)]\n"
        "    names = {str(getattr(x, '__module__', None) or x.__name__) for x in found_objects}\n"
        "    return found + sorted(n for n in names if n.startswith('kmha.') and not n.startswith('kmha.sandbox'))\n"
    )
    assert sandbox_of(WITH_KERAS).run("f", code, _calls(), seconds=60).results[0].value == []


def test_a_library_that_is_not_installed(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['matplotlib'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"start: .*matplotlib.* Install it: pip install matplotlib$"):
        Sandbox(("matplotlib",)).start()


def test_restart_after_an_interrupted_start(monkeypatch):
    """Otherwise its message that it is ready would be read as a result."""

    def interrupted(source):
        monkeypatch.undo()
        raise KeyboardInterrupt

    with Sandbox() as found:
        monkeypatch.setattr(sandboxes.encoding, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            found.run("f", "def f(): return 1\n", _calls())
        assert found._process is None
        assert found.run("f", "def f(): return 2\n", _calls()).results[0].value == 2


def test_close_leaves_no_process_or_pipe():
    """A pipe that stays open would cause a warning, which is an error here."""
    found = Sandbox()
    found.start()
    process = found._process
    assert isinstance(process, subprocess.Popen)
    found.close()
    assert process.returncode is not None
    assert process.stdin.closed


def test_pool_has_a_sandbox_per_set_of_libraries():
    with Pool() as pool:
        assert pool.get(["numpy"]) is pool.get(("numpy",))
        assert pool.get(("numpy", "matplotlib")) is not pool.get(("numpy",))
        assert pool.get(("numpy", "matplotlib")).uses == ("numpy", "matplotlib")


def test_pool_restarts_after_close_but_not_after_stop():
    pool = Pool()
    sandbox = pool.get(("numpy",))
    assert sandbox.run("f", "def f(): return 1\n", _calls()).results[0].value == 1
    pool.close()
    assert pool.get(("numpy",)) is sandbox
    assert sandbox.run("f", "def f(): return 2\n", _calls()).results[0].value == 2
    pool.stop()
    with pytest.raises(StoppedError):
        sandbox.run("f", "def f(): return 3\n", _calls())
    pool.close()


def test_a_function_that_loads_the_code_itself(tmp_path, monkeypatch):
    (tmp_path / "trusted.py").write_text(TRUSTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    heard = []
    with Sandbox(()) as sandbox:
        given = {"number": 3}
        options = {"folder": tmp_path, "environment": {"COLOUR": "red"}}
        ran = sandbox.call("trusted:work", given, serve=lambda name, text: heard.append((name, text)), **options)
        assert ran.error is None
        assert ran.value == {"number": 4, "folder": str(tmp_path), "colour": "red"}
        assert ran.printed == "working\n"
        assert heard == [("begins", "work")]
        assert sandbox.call("trusted:fail", given, **options).error["kind"] == "ZeroDivisionError"
        assert "signal 9" in sandbox.call("trusted:die", given, **options).error["says"]
        with pytest.raises(TimeoutError):
            sandbox.call("trusted:wait", given, tick=_stop_after(5), **options)
        with pytest.raises(TimeoutError):  # it never has to be waited for
            sandbox.call("trusted:talk", given, tick=_stop_after(5), serve=lambda *_: None, **options)
        assert sandbox.call("trusted:work", given, serve=lambda *_: None, **options).value["number"] == 4


@pytest.mark.skipif(bool(limits.missing()), reason="the system has no such limits")
def test_a_function_reads_no_device(tmp_path, monkeypatch):
    """It read what the user typed, and kept it from the shell."""
    (tmp_path / "trusted.py").write_text(READER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    main, follower = os.openpty()
    with Sandbox(()) as sandbox:
        for folder in (tmp_path, Path(os.sep)):
            ran = sandbox.call("trusted:read", os.ttyname(follower), folder=folder, environment={})
            assert ran.value == ["PermissionError", "import os", True]
    os.close(main)
    os.close(follower)


READER = """
import os

def read(terminal):
    try:
        os.close(os.open(terminal, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        says = "read"
    except OSError as error:
        says = type(error).__name__
    return [says, open(__file__).read().split("\\n")[1], bool(os.listdir())]
"""

TRUSTED = """
import os, signal, time
from kmha.sandbox.worker_api import remote

import kmha.sandbox
kmha.sandbox.__name__, kmha.__version__

def work(given):
    remote("begins")("work")
    print("working")
    return {"number": given["number"] + 1, "folder": os.getcwd(), "colour": os.environ["COLOUR"]}

def fail(given):
    1 / 0

def die(given):
    signal.raise_signal(signal.SIGKILL)

def wait(given):
    time.sleep(60)

def talk(given):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        remote("stage")("")
"""


def _stop_after(ticks):
    left = iter(range(ticks))

    def tick():
        if next(left, None) is None:
            raise TimeoutError

    return tick


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_supervisor_that_hangs_is_not_waited_for(monkeypatch, tmp_path):
    """Whatever the cause: one student's answer would hold up the class until somebody presses Ctrl-C."""
    monkeypatch.setattr(sandboxes, "MARGIN", 1.0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "import time\ndef f():\n    time.sleep(60)\n"
    with Sandbox() as sandbox:
        sandbox.start()
        server = sandbox._process.pid
        ran = []
        thread = threading.Thread(target=lambda: ran.append(sandbox.run("f", code, _calls(), seconds=1)))
        thread.start()
        while not list(tmp_path.iterdir()):
            time.sleep(0.02)
        with open(f"/proc/{server}/task/{server}/children") as file:
            (supervisor,) = map(int, file.read().split())
        os.kill(supervisor, signal.SIGSTOP)
        thread.join(60)
        os.kill(supervisor, signal.SIGCONT)
        assert "the sandbox ended" in _says(ran[0])
        assert sandbox.run("f", "def f():\n    return 1\n", _calls()).results[0].value == 1


def test_a_task_without_threads(sandbox):
    """With threads, a task could choose the number of the next process. Products of matrices need none."""
    code = """
import threading
import numpy as np

def f(size):
    assert np.trace(np.ones((size, size)) @ np.eye(size)) == size
    threading.Thread(target=print).start()
"""
    ran = sandbox.run("f", code, [Call({"size": 700})], threads=False).results[0]
    assert "can't start new thread" in ran.error["says"]
    assert sandbox.run("f", code, [Call({"size": 700})]).results[0].error is None


def test_the_number_of_a_process_tells_nothing_of_earlier_ones(sandbox):
    """An answer started threads until the next process had the number that it wanted to tell it."""
    code = "import os\ndef number():\n    return os.getpid()\n"
    numbers = [sandbox.run("number", code, [Call({})]).results[0].value for _ in range(12)]
    assert len({*np.diff(numbers)}) > 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_number_of_a_file_in_proc_tells_little_of_earlier_ones():
    """An answer looked up files in /proc until the next process had the number that it wanted to tell it."""
    code = "import os\ndef number():\n    return os.lstat('/proc/self/fd/0').st_ino\n"
    with Sandbox(processor=0) as one:
        numbers = [one.run("number", code, [Call({})], threads=False).results[0].value for _ in range(12)]
    assert np.ptp(np.diff(numbers)) > 1000
