"""Allow a process the system calls that NumPy, TensorFlow and matplotlib make for a computation, and no others.

Everything else looks as if the kernel did not have it, because libc then falls back to an older call. So a call that a
later kernel adds is refused too.
"""

import contextlib
import ctypes
import errno
import os
import signal
import sys
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
_ALLOWED = (
    # Files. Landlock decides which. A file that is opened already is not affected. Missing are the calls that tell, or
    # change, what the kernel keeps of a file in memory (`fadvise64`, `readahead`, `mincore`, and the flags of
    # `preadv2`), and locks (`flock`): through these, one process could tell another.
    *("read", "readv", "pread64", "preadv", "write", "writev", "pwrite64", "pwritev", "lseek"),
    *("close", "creat", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs"),
    *("access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir"),
    *("fchdir", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "symlink"),
    *("symlinkat", "link", "linkat", "ftruncate", "fsync", "fdatasync", "umask"),
    *("copy_file_range", "dup", "dup2", "dup3", "poll", "ppoll", "select", "pselect6", "epoll_create"),
    *("epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2"),
    # Memory and threads.
    *("munmap", "mremap", "mprotect", "brk", "msync", "membarrier", "get_mempolicy"),
    *("futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "arch_prctl", "gettid"),
    *("exit", "exit_group", "restart_syscall", "sched_yield", "sched_getaffinity", "sched_getparam", "getcpu"),
    *("sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "sched_getattr"),
    # What the process may know about itself, time, and its own signals.
    *("getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid", "getpgrp"),
    *("getpgid", "getsid", "getpriority", "getrlimit", "times", "sysinfo", "uname", "capget", "getrandom"),
    *("nanosleep", "gettimeofday", "time", "alarm", "pause"),
    *("setitimer", "getitimer"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend"),
    *("sigaltstack", "wait4", "waitid"),
)
# System calls that programs make without another to fall back to. Their error says that they are not permitted.
_REFUSED = (
    *("fork", "vfork", "execve", "execveat", "kill", "tkill", "setpriority", "setsid", "setpgid", "truncate"),
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg"),
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "setrlimit", "ptrace", "mount", "sched_setaffinity", "sched_setscheduler"),
    *("sched_setparam", "mknod", "mknodat", "memfd_create", "inotify_init", "inotify_init1", "fanotify_init"),
    # A pipe keeps what `sendfile` put into it, in pages of up to 2 MB, after the file is gone, and no limit counts it.
    *("fallocate", "sendfile"),
    # It tells which pages of a file were in memory.
    "getrusage",
)
# These attributes are read wherever the file lies. Programs know that many file systems do not have them.
_UNSUPPORTED = ("getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr")
# The kernel reads these arguments as 32 bits, so the mask leaves out the bits above them.
_WORD = 0xFFFFFFFF
# A new task must be a thread, and share its files: what it opens and removes must count (`kmha.sandbox.scratch`).
_CLONE_THREAD, _CLONE_FILES = 0x00010000, 0x00000400
_SHARING = _CLONE_THREAD | _CLONE_FILES
_CLOSE_RANGE_UNSHARE = 2
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWSDOWN = 0x01, 0x20, 0x100
_SHARED_MEMORY = _MAP_SHARED | _MAP_ANONYMOUS
_REFUSED_ARGUMENTS = (
    ("clone", 0, _CLONE_THREAD, 0),
    ("mmap", 3, _SHARED_MEMORY, _SHARED_MEMORY),
    ("mmap", 3, _MAP_GROWSDOWN, _MAP_GROWSDOWN),
)
_OPENS = os.O_ACCMODE | os.O_TRUNC if sys.platform == "linux" else 0
# Clocks of the system, and of the process and thread itself. Others tell how long another process has computed.
_CLOCKS = range(12)
# They use up numbers of the system, by which a task could tell the next one something.
_NUMBERED = ("pipe", "pipe2")
# Commands of `fcntl` that copy a descriptor, or read and set its flags. Others lock parts of a file, in memory of the
# kernel that no limit counts, report changes in folders, delay those who open a file, send signals, or make a pipe
# larger than the memory limit.
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032, 1034)
# Advice on memory, but none that moves pages of a file into memory or out of it.
_MADVISE = (0, 1, 2, 4, 8, 10, 11, 14, 15, 16, 17)
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)  # of terminals; bytes to read; flags
_PRCTL = (3, 15, 16, 23, 39, 0x53564D41)  # names of threads and memory; what the process may do


def _arguments(threads: bool) -> Iterator[tuple[str, int, int, int]]:
    """Yield the system calls that are allowed if an argument has a certain value: (call, its index, mask, value)."""
    if threads:
        yield "clone", 0, _SHARING, _SHARING
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        yield from ((name, 0, _WORD, clock) for clock in _CLOCKS)
    yield "close_range", 2, _CLOSE_RANGE_UNSHARE, 0
    # Shared memory without a file stays whole while one page of it is mapped: no limit counts it. Memory that grows
    # downwards counts as stack, not as data.
    kinds = 0, _MAP_SHARED, _MAP_ANONYMOUS
    yield from (("mmap", 3, _SHARED_MEMORY | _MAP_GROWSDOWN, kind) for kind in kinds)
    yield from (("fcntl", 1, _WORD, command) for command in _FCNTL)
    yield from (("madvise", 2, _WORD, advice) for advice in _MADVISE)
    yield from (("ioctl", 1, _WORD, command) for command in _IOCTL)
    yield from (("prctl", 0, _WORD, command) for command in _PRCTL)
    # The process may read limits, but not set them.
    yield "prlimit64", 2, (1 << 64) - 1, 0
    # O_TRUNC empties a file even if it is opened for reading. Landlock controls this only since Linux 6.2.
    for name, place in (("open", 1), ("openat", 2)):
        for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_TRUNC):
            yield name, place, _OPENS, mode


def restrict(threads: bool = True) -> None:
    """Refuse all other system calls to this process for good. It needs `pyseccomp`.

    Args:
        threads: Whether the process may start threads, and make pipes.
    """
    import pyseccomp

    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.ENOSYS))
    refused, unsupported = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(errno.ENOTSUP)
    for action, names in (
        (pyseccomp.ALLOW, (*_ALLOWED, *_NUMBERED * threads)),
        (refused, _REFUSED if threads else (*_REFUSED, "clone")),
        (unsupported, _UNSUPPORTED),
    ):
        for name in names:
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # unknown to this processor or libseccomp
                rules.add_rule(action, name)
    for name, place, bits, value in _arguments(threads):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            rules.add_rule(pyseccomp.ALLOW, name, pyseccomp.Arg(place, pyseccomp.MASKED_EQ, bits, value))
    # The process may end itself. With SIGCONT, it would run on while its files are counted.
    for number in (signal.SIGABRT, signal.SIGKILL):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            itself, signal_number = (
                pyseccomp.Arg(place, pyseccomp.MASKED_EQ, _WORD, value)
                for place, value in ((0, os.getpid()), (2, number))
            )
            rules.add_rule(pyseccomp.ALLOW, "tgkill", itself, signal_number)
    for name, place, bits, value in _REFUSED_ARGUMENTS:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            argument = pyseccomp.Arg(place, pyseccomp.MASKED_EQ, bits, value)
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, argument)
    rules.load()


def drop_capabilities() -> None:
    """Give up what root may do beyond other users. The process still owns its files."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    ctypes.CDLL(None).capset(ctypes.byref(Header(0x20080522, 0)), (ctypes.c_uint32 * 6)())
