"""Limits of a process that runs untrusted code. The process applies them to itself before it loads the code.

| limit | mechanism | system |
| --- | --- | --- |
| memory, processor time, size and number of files | `setrlimit` | POSIX |
| only the system calls of a computation: no new processes, network, or signals to other processes | seccomp | Linux |
| reading only what the task may read, writing only the scratch folder | Landlock | Linux 5.13 or later |

`missing` lists the limits that are not available here.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kmha.sandbox import system_calls
from kmha.sandbox.readable import package_folders

MEMORY = 2 << 30  # bytes that the process may allocate, besides those that it has at the start
PATIENCE = 3  # a worker may wait for replies for this many times its time limit
DATA = 8 << 30  # bytes that the process may allocate if it imports large libraries, without counting the libraries
FILE = 32 << 20  # maximum size of a file, in bytes
OPEN = 256  # maximum number of open files
THREADS = 128 + 8 * (os.cpu_count() or 1)  # maximum number of threads. TensorFlow starts some for each processor
PROCESSES = 256  # maximum number of the user's processes, where seccomp cannot refuse new processes

_OWN_FILES = "auxv cgroup cmdline cpuset exe fd limits maps mounts stat statm status task"  # in /proc/self
_READ_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo"),
    *(f"/proc/self/{name}" for name in _OWN_FILES.split()),
)
# Not /dev/zero: as shared memory it has no limit.
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random")


def missing() -> list[str]:
    """Return what this system cannot prevent untrusted code from doing. The list is empty if every limit works."""
    found = []
    if not _seccomp_works():
        found.append("starting processes and using the network")
    if not _landlock_works():
        found.append("reading and changing your files")
    if not hasattr(os, "fork"):
        found.append("using all memory and processor time")
    return found


def end_with(parent: int, number: int) -> None:
    """Have the system send this process a signal when its parent ends, for whatever reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(system_calls.PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent has ended already
            os._exit(1)


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use, which can be fewer than the machine has."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [*range(os.cpu_count() or 1)]


def run_on(processor: int, process: int) -> None:
    """Let a process, and those that it forks later, run on one of this process's processors only (Linux)."""
    if sys.platform == "linux":
        usable = processors()
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(process, {usable[processor % len(usable)]})


def too_many_threads(process: int) -> bool:
    """Return whether another process has more than `THREADS` threads, which keep others from starting any (Linux)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[17]) > THREADS
    return False


_FILLED = r"^(?:RssAnon|VmSwap|VmPTE|HugetlbPages):\s+(\d+) kB$"  # lines of /proc/…/status


def too_much_memory(process: int) -> bool:
    """Return whether another process has filled more than `DATA` bytes, apart from what it maps of files (Linux).

    `RLIMIT_DATA` does not count memory that was filled and can now only be read, nor the tables of pages, of which one
    byte that is read of every 2 MiB fills 4 KiB.
    """
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):  # the thread has ended, even if it is the first one
                status = Path(f"/proc/{process}/task/{thread}/status").read_text(errors="replace")
                if found := re.findall(_FILLED, status, re.M):  # all threads share it
                    return sum(map(int, found)) << 10 > DATA
    return False


def lock(scratch: Path, seconds: float | None, readable: Sequence[str] = (), threads: bool = True) -> None:
    """Apply all available limits to this process for good. Files that are already open stay open.

    Args:
        scratch: The folder that the process can write to.
        seconds: Time limit of the task. `None` means that the task imports large libraries and its caller limits its
            time: then the process may allocate `DATA` bytes, without counting the libraries.
        readable: Files and folders that the process can read (`kmha.sandbox.readable`).
        threads: Whether the process can start threads, each of which uses up a process number.
    """
    seccomp = _seccomp_works()  # loads a library, so it must come before Landlock
    _limit(seconds)
    if _landlock_works():
        _landlock(scratch, readable)
    if seccomp:
        system_calls.drop_capabilities()
        system_calls.restrict(threads)


def _limit(seconds: float | None) -> None:
    import resource  # does not exist on Windows

    used, data = _used()
    # With a limit of 0, a core dump could still go to a program, which Linux does not start with 1.
    limits = [(resource.RLIMIT_FSIZE, FILE), (resource.RLIMIT_NOFILE, OPEN), (resource.RLIMIT_CORE, 1)]
    if seconds is None:
        limits.append((resource.RLIMIT_DATA, DATA))
    else:
        limits.append((resource.RLIMIT_CPU, int(4 * seconds) + 2))  # of all threads; the supervisor limits elapsed time
    if used and seconds is not None:  # the room of libraries that it unmaps is not for its data
        limits += [(resource.RLIMIT_AS, used + MEMORY), (resource.RLIMIT_DATA, data + MEMORY)]
    if not _seccomp_works():
        limits.append((resource.RLIMIT_NPROC, PROCESSES))
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _used() -> tuple[int, int]:
    """Return the size of this process in bytes, and of the data in it, or zeros if the system does not report them."""
    with contextlib.suppress(OSError):
        pages = [int(each) * os.sysconf("SC_PAGE_SIZE") for each in Path("/proc/self/statm").read_text().split()]
        return pages[0], pages[5]
    return 0, 0


def _seccomp_works() -> bool:
    """Return whether seccomp can be used. This imports it before Landlock hides its library."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(ImportError, RuntimeError):
        importlib.import_module("pyseccomp")
        return True
    return False


def _landlock_works() -> bool:
    if sys.platform != "linux" or importlib.util.find_spec("landlock") is None:
        return False
    from landlock import SyscallError, landlock_abi_version

    with contextlib.suppress(SyscallError, OSError):
        return landlock_abi_version() >= 1
    return False


def _landlock(scratch: Path, readable: Sequence[str]) -> None:
    from landlock import FSAccess, Ruleset

    every = FSAccess.all()
    rules = Ruleset(restrict_rules=every)
    read, run, list_, write = (
        every & right for right in (FSAccess.READ_FILE, FSAccess.EXECUTE, FSAccess.READ_DIR, FSAccess.WRITE_FILE)
    )
    for path in readable:
        rules.allow(path, rules=read | run | list_ if os.path.isdir(path) else read | run)
    for folder in (*package_folders(), os.getcwd()):  # where modules are looked for, even if it is the root of all
        rules.allow(folder, rules=list_)
    for name in filter(os.path.exists, (*_READ_FILES, *_DEVICES)):
        # A folder of a process holds its memory, its environment and the machine's connections: it is only listed.
        rules.allow(name, rules=list_ if os.path.isdir(name) else read | write if name in _DEVICES else read)
    rules.allow(str(scratch), rules=every & ~FSAccess.EXECUTE & ~(FSAccess.MAKE_CHAR | FSAccess.MAKE_BLOCK))
    rules.apply()
