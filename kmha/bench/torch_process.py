"""Run torch's model in a process of its own, which makes each step when it is told to.

`TorchProcess` starts `python -m kmha.bench.torch_process`, and exchanges messages (`kmha.sandbox.encoding`) with it
over standard input and output. That takes a fraction of a millisecond, and a step takes hundreds.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast

import numpy as np

from kmha.bench.cases import ModelRow
from kmha.sandbox.encoding import decode, encode, read, write

PATIENCE = 10.0  # seconds to wait until the process has ended


class TorchProcess:
    """torch's model in another process, which ends when this object is deleted.

    Args:
        row: Sizes of the model.
        epsilon: Epsilon of all layer normalizations.
        state: State of `kmha.bench.torch_model.TorchModel`.
        batch: Ids of source, target and following tokens.

    Raises:
        RuntimeError: The process has ended. The message is the last line that it printed.
    """

    def __init__(
        self, row: ModelRow, epsilon: float, state: Mapping[str, np.ndarray], batch: Sequence[np.ndarray]
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kmha.bench.torch_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        weakref.finalize(self, _end, self.process)
        self._send({"row": dataclasses.asdict(row), "epsilon": epsilon, "state": dict(state), "batch": list(batch)})

    def evaluate(self) -> float:
        """Return the loss without dropout."""
        return self._send("evaluate")

    def step(self) -> float:
        """Make one step of the optimizer, and return the loss."""
        return self._send("step")

    def _send(self, value: Any) -> Any:
        reply = None
        with contextlib.suppress(BrokenPipeError):
            write(cast(BinaryIO, self.process.stdin), encode(value))
            reply = read(cast(BinaryIO, self.process.stdout))
        if reply is None:
            lines = cast(BinaryIO, self.process.stderr).read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(f"torch's process ended: {lines[-1] if lines else self.process.wait()}")
        return decode(reply)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            cast(BinaryIO, pipe).close()
    try:
        process.wait(PATIENCE)  # it ends at the end of its input
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Build the model of the first message, and make one step or evaluation for each further message."""
    from kmha.bench import torch_model

    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries must not print between the messages
    given = decode(read(source) or b"")
    model = torch_model.TorchModel(ModelRow(**given["row"]), given["epsilon"], given["state"])
    batch = torch_model.batch(*given["batch"])
    write(sink, encode(None))
    while (message := read(source)) is not None:
        function = {"evaluate": model.evaluate, "step": model.step}[decode(message)]
        write(sink, encode(function(*batch)))


if __name__ == "__main__":
    main()
