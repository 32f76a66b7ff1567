"""Describe the machine by processor, memory, installed packages, and the speed of a matrix product."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

CPUINFO, MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")  # Linux
CGROUP = Path("/sys/fs/cgroup")  # containers
GEMM_SIZE = 2048
GEMM_FLOPS = 2 * GEMM_SIZE**3
# Features that decide how fast matrix products are, as Linux names them on x86 and Arm.
FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd", "sve", "bf16")
PACKAGES = ("tensorflow", "keras", "keras-hub", "torch", "jax", "kmha")


def describe(accelerator: str = "") -> dict[str, Any]:
    """Return a dict of processor and its features, cores, memory in bytes, system, and versions of measured packages.

    `accelerator` is the name of the device that computes, if that is not the processor.

    >>> sorted(describe())
    ['cores', 'features', 'memory', 'processor', 'python', 'system', 'versions']
    """
    flags = _of_processor("flags|Features").split()
    return {
        "processor": _of_processor("model name") or platform.processor() or platform.machine(),
        "features": [name for name in FEATURES if name in flags],
        "cores": cores(),
        "memory": _memory("SC_PHYS_PAGES"),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        **({"accelerator": accelerator} if accelerator else {}),
    }


def cores() -> int:
    """Return the number of cores that this process may use, as far as the system reports it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the number of bytes available without swapping, or `None` if the system does not report it."""
    try:
        lines = MEMINFO.read_text().splitlines()
        found = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return _memory("SC_AVPHYS_PAGES")
    try:
        limit, taken = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return min(found, int(limit) - int(taken))
    except (OSError, ValueError):  # no container, or a container without a limit ("max")
        return found


def gemm(dtype: str = "float32", size: int = GEMM_SIZE) -> Callable[[], Any]:
    """Return a function that multiplies two matrices (size, size), the reference for speed.

    >>> gemm(size=7)().shape
    TensorShape([7, 7])
    """
    from kmha.bench import passes

    multiply = passes.product(size, dtype.removeprefix("mixed_"))
    multiply()  # warm-up
    return multiply


def _of_processor(name: str) -> str:
    """Return what Linux tells about the processor under a name, which is a pattern, or ""."""
    try:
        found = re.search(rf"^(?:{name})\s*: *(.*)$", CPUINFO.read_text(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _memory(pages: str) -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
    except (AttributeError, OSError, ValueError):
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
