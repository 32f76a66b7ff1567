"""Measure the peak memory of one forward pass or training step, in a separate process.

`measure_peak` starts `python -m kmha.bench.memory`, sends it a row as JSON and receives the bytes. The peak is the rise
of the resident memory during the contender's first run, without imports, building, tracing and inputs.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kmha.bench.cases import AttentionRow

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class NotMeasured(Exception):
    """Raised if the measuring process failed or was killed. The message is a single line."""

    def __init__(self, message: str, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


def measure_peak(contender: str, row: AttentionRow) -> int:
    """Return the peak memory in bytes, minus the memory at the start.

    Raises:
        NotMeasured: The process failed, or was killed, for example because memory ran out.
    """
    task = json.dumps({"contender": contender, "row": dataclasses.asdict(row)})
    process = subprocess.run(
        [sys.executable, "-m", "kmha.bench.memory"],
        input=task,
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": row.backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        why = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        raise NotMeasured(f"killed by {name}{why}", killed=True)
    if process.returncode > 0:
        lines = process.stderr.strip().splitlines()
        raise NotMeasured(lines[-1] if lines else f"exit status {process.returncode}")
    return int(json.loads(process.stdout.splitlines()[-1])["bytes"])


def peak(function: Callable[[], Any]) -> int:
    """Return the maximum rise of this process' memory while `function` runs, in bytes: on the accelerator, if there is
    one, or else resident.

    >>> peak(lambda: bytearray(50_000_000)) > 40_000_000
    True
    """
    from kmha.bench import passes

    taken = passes.peak_on_device(function)
    if taken is not None:
        return taken
    try:
        CLEAR.write_text("5")  # resets Linux' high-water mark
        start = _status("VmRSS")
    except OSError:
        start = _highest_ever()  # correct if nothing before took more
        function()
        return _highest_ever() - start
    function()
    return max(0, _status("VmHWM") - start)


def _status(name: str) -> int:
    """Return an entry of Linux' process status, in bytes."""
    lines = STATUS.read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _highest_ever() -> int:
    """Return the maximum resident memory so far, in bytes."""
    if STATUS.exists():  # on Linux, `ru_maxrss` starts at the parent's value
        return _status("VmHWM")
    import resource  # does not exist on Windows

    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else 1024 * highest  # macOS counts in bytes


def main() -> None:
    """Read a task from standard input and write the result to standard output."""
    from kmha.bench.attention_contenders import build
    from kmha.bench.contenders import draw_inputs

    task = json.load(sys.stdin)
    row = AttentionRow(**task["row"])
    contender = build(task["contender"], row, draw_inputs(row))
    print(json.dumps({"bytes": peak(contender.run)}))


if __name__ == "__main__":
    main()
