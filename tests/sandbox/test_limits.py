import platform
import subprocess
import sys

import pytest

from kmha.sandbox import limits
from kmha.sandbox.sandbox import Call

EVERYTHING = ["starting processes and using the network", "reading and changing your files"]


def test_missing_limits(monkeypatch):
    monkeypatch.setattr(limits, "_seccomp_works", lambda: False)
    monkeypatch.setattr(limits, "_landlock_works", lambda: False)
    assert limits.missing() == EVERYTHING
    monkeypatch.setattr(limits, "_seccomp_works", lambda: True)
    assert limits.missing() == EVERYTHING[1:]
    monkeypatch.setattr(limits, "_landlock_works", lambda: True)
    assert limits.missing() == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_can_only_be_read_counts(monkeypatch):
    """A candidate filled gigabytes and then gave up the right to write them, so that `RLIMIT_DATA` did not count."""
    code = f"""import ctypes, mmap, threading, time
libc, size = ctypes.CDLL(None), 64 << 20
libc.mmap.restype = ctypes.c_void_p
place = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, 0))
ctypes.memset(place, 1, size)
assert libc.mprotect(place, ctypes.c_size_t(size), mmap.PROT_READ) == 0
threading.Thread(target=lambda: (time.sleep(0.2), print("filled", flush=True), time.sleep(60))).start()
libc.syscall({"60" if platform.machine() == "x86_64" else "93"}, 0)  # the first thread ends
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = limits.too_much_memory(process.pid)
        monkeypatch.setattr(limits, "DATA", 64 << 20)
        much = limits.too_much_memory(process.pid)
        process.kill()
    assert (found, much) == (False, True)
    assert not limits.too_much_memory(process.pid)


def test_tables_of_pages_count(monkeypatch):
    """Memory that is only read costs a table for every 2 MiB: a candidate took 10 GB of the machine unseen."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells")
    code = """
import mmap, sys
many = mmap.mmap(-1, 64 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)  # MAP_NORESERVE
for place in range(0, 64 << 30, 1 << 21):
    many[place]
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        monkeypatch.setattr(limits, "DATA", 64 << 20)
        much = limits.too_much_memory(process.pid)
        process.kill()
    assert much


def test_on_another_system(monkeypatch):
    monkeypatch.setattr(limits.sys, "platform", "darwin")
    assert limits.missing() == EVERYTHING


def test_without_the_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    monkeypatch.setattr(limits.importlib.util, "find_spec", lambda name: None)
    assert limits.missing() == EVERYTHING


def test_the_address_space():
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells")
    assert limits._used()[0] > limits._used()[1] > 2**20


# The numbers of x86-64.
CALLS = {"openat2": 437, "prctl": 157, "fcntl": 72, "openat": 257, "fallocate": 285, "close_range": 436, "clone": 56}
UNUSUAL = {
    **{"fanotify_init": 300, "fanotify_mark": 301, "inotify_init": 253, "inotify_init1": 294, "memfd_create": 319},
    **{"preadv2": 327, "pwritev2": 328, "mincore": 27, "readahead": 187, "fadvise64": 221},
    **{"memfd_secret": 447, "io_uring_setup": 425, "userfaultfd": 323, "bpf": 321, "perf_event_open": 298},
    **{"add_key": 248, "keyctl": 250, "name_to_handle_at": 303, "open_by_handle_at": 304, "process_vm_readv": 310},
    **{"process_vm_writev": 311, "ptrace": 101, "pidfd_open": 434, "pidfd_getfd": 438, "kcmp": 312, "unshare": 272},
    **{"shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "mount": 165, "open_tree": 428, "fsopen": 430},
    **{
        "landlock_create_ruleset": 444,
        "io_setup": 206,
        "vmsplice": 278,
        "mlock": 149,
        "swapon": 167,
        "timer_create": 222,
        "later": 999,
    },
}
BEFORE = """import ctypes, fcntl, mmap, os, signal, struct
path = ctypes.create_string_buffer(b"f.py")
reader, writer = os.pipe()

def call(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def f():
    {}
"""


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
@pytest.mark.parametrize(
    "line",
    [
        "fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())",
        "fcntl.fcntl(reader, 15, struct.pack('ii', 1, os.getpid()))",
        "fcntl.ioctl(reader, 0x8901, struct.pack('i', os.getpid()))",
        "fcntl.ioctl(reader, 0x8902, struct.pack('i', os.getpid()))",
        "os.sched_setaffinity(0, os.sched_getaffinity(0))",
        "os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))",
        "os.sched_setparam(0, os.sched_param(0))",
        "os.setpriority(os.PRIO_PROCESS, 0, 19)",
        "fcntl.fcntl(reader, 10, signal.SIGIO)",  # F_SETSIG
        "fcntl.fcntl(reader, 1031, 1 << 20)",  # F_SETPIPE_SZ: pipes hold memory that no limit counts
        "signal.raise_signal(signal.SIGCONT)",  # it would undo the stop in which files are counted
        "mmap.mmap(-1, 1 << 20)",  # shared memory: all of it stays while one page is mapped, and no limit counts it
        "mmap.mmap(-1, 1 << 20, prot=mmap.PROT_READ)",
        "mmap.mmap(-1, 1 << 20, flags=0x122)",  # memory that grows downwards counts as stack, which has no limit
        "os.sendfile(writer, os.open('f.py', os.O_RDONLY), 0, 1)",  # pipes keep whole pages of files that are gone
        "os.posix_fallocate(os.open('own', os.O_RDWR | os.O_CREAT), 0, 32 << 20)",  # 85 GB in a second
        "fcntl.fcntl(os.open('f.py', os.O_RDONLY), 1024, fcntl.F_RDLCK)",  # F_SETLEASE delays others' opening
        "fcntl.fcntl(os.open('.', os.O_RDONLY), 1026, 1)",  # F_NOTIFY tells what others do in a folder
        "fcntl.lockf(os.open('own', os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX, 1)",  # kernel memory that no limit counts
        "fcntl.fcntl(os.open('f.py', os.O_RDONLY), 37, struct.pack('hhqqi', 0, 0, 0, 1, 0))",  # F_OFD_SETLK
        "mmap.mmap(os.open('f.py', os.O_RDONLY), 0, access=mmap.ACCESS_READ).madvise(21)",  # MADV_PAGEOUT, with which
        "mmap.mmap(os.open('f.py', os.O_RDONLY), 0, access=mmap.ACCESS_READ).madvise(3)",  # and MADV_WILLNEED, a task
        "__import__('resource').getrusage(0)",  # could tell another what it has seen
        "os.getxattr(os.__file__, 'user.x')",
        "os.listxattr('/')",
        # In its own folder Landlock lets it, so that it is refused also where Landlock would not look.
        "os.open('f.py', os.O_RDONLY | os.O_TRUNC)",
        "os.open('f.py', os.O_WRONLY | os.O_RDWR | os.O_TRUNC)",
    ],
)
def test_system_calls_refused_by_argument(sandbox, line):
    ran = sandbox.run("f", BEFORE.format(line), [Call({})])
    assert ran.results[0].error["says"].startswith(("[Errno 1]", "[Errno 38]", "[Errno 95]")), ran.results[0].error


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/shm/x"])
def test_memory_that_is_a_file_cannot_be_opened(sandbox, name):
    ran = sandbox.run("f", BEFORE.format(f"os.open({name!r}, os.O_RDWR | os.O_CREAT)"), [Call({})])
    assert ran.results[0].error["says"].startswith("[Errno 13]"), ran.results[0].error


def test_files_can_be_mapped(sandbox):
    code = "import numpy as np\ndef f():\n    np.save('a', np.arange(4))\n    return np.load('a.npy', mmap_mode='r+')\n"
    assert sandbox.run("f", code, [Call({})]).results[0].value.tolist() == [0, 1, 2, 3]


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    "line",
    [
        "call({prctl}, 1 << 40 | 1, signal.SIGTERM)",
        "call({fcntl}, reader, 1 << 40 | 8, os.getpid())",
        "call({openat}, -100, ctypes.addressof(path), 1 << 40 | os.O_TRUNC)",
        "call({openat2}, -100, ctypes.addressof(path), 0, 24)",
        "call({fallocate}, os.open('own', os.O_RDWR | os.O_CREAT), 1, 0, 1 << 20)",  # room beyond the end of the file
        "call({close_range}, 99, 99, 2)",  # gives this thread files that the limits do not see
        "call({clone}, 0x10B00, 0, 0, 0, 0)",  # so does this: a thread that does not share its files
        *(f"call({number}, 0, 0, 0, 0, 0)" for number in UNUSUAL.values()),
    ],
    ids=lambda line: next((name for name, number in UNUSUAL.items() if f"({number}," in line), line),
)
def test_system_calls_that_no_computation_makes(sandbox, line):
    ran = sandbox.run("f", BEFORE.format(line.format(**CALLS)), [Call({})])
    assert ran.results[0].error["says"].startswith(("[Errno 1]", "[Errno 38]")), ran.results[0].error


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
def test_root_has_no_capabilities(sandbox):
    code = "def f(): return open('/proc/self/status').read()\n"
    status = dict(line.split(":") for line in sandbox.run("f", code, [Call({})]).results[0].value.splitlines())
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh")} == {0}


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
@pytest.mark.parametrize("name", ["environ", "mem", "net/tcp", "mountinfo"])
def test_the_folder_of_a_thread_is_not_read(sandbox, name):
    code = "import os\ndef f(): return len(open(f'/proc/self/task/{os.getpid()}/NAME', 'rb').read(0))\n"
    result = sandbox.run("f", code.replace("NAME", name), [Call({})]).results[0]
    assert result.error is not None
    assert result.error["kind"] == "PermissionError"


def test_own_files_can_be_written_truncated_and_read(sandbox):
    code = """import fcntl, os
def f():
    for text in ("one", "two"):
        with open("own", "w") as file:
            file.write(text)
    with open("own", "r+") as file:
        file.truncate(2)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL))
    return open("own").read()
"""
    assert sandbox.run("f", code, [Call({})]).results[0].value == "tw"


@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
def test_a_missing_system_file_is_left_out(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom kmha.sandbox import limits\n"
        "limits._READ_FILES = ('/nothing/is/here', '/proc/self/stat', '/nothing/is/there')\n"
        "limits._landlock(Path(sys.argv[1]), [])\nopen('/proc/self/stat').read()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
