"""Threads that do jobs, each in its own sandboxes."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from kmha.sandbox.errors import StoppedError
from kmha.sandbox.sandbox import Pool, Sandbox

Job = Callable[[Pool], Any]  # a function of the thread's own pool of sandboxes

INTERRUPTED = 1.0  # maximum number of seconds to wait for the workers after an error or Ctrl-C


class Workers:
    """Threads that do jobs. They run inside a `with` statement, and stop at its end.

    Args:
        number: Number of threads.
    """

    def __init__(self, number: int) -> None:
        self._jobs: queue.SimpleQueue[tuple[str, Job] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[str, Any] | BaseException] = queue.SimpleQueue()
        self._workers = [_Worker(self._jobs, self._done, index if number > 1 else None) for index in range(number)]

    def __enter__(self) -> Self:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
            self._jobs.put(None)
        end = time.monotonic() + INTERRUPTED
        for worker in self._workers:  # whoever presses Ctrl-C does not wait for what a thread still computes
            worker.join(None if kind is None else max(end - time.monotonic(), 0))

    def map(self, jobs: Mapping[str, Job], progress: Callable[[str], None]) -> dict[str, Any]:
        """Do jobs, and return their results in order. The first error of a job is raised."""
        for each in jobs.items():
            self._jobs.put(each)
        found: dict[str, Any] = {}
        while len(found) < len(jobs):
            result = self._next()
            if isinstance(result, BaseException):
                raise result
            found[result[0]] = result[1]
            progress(result[0])
        return {id: found[id] for id in jobs}

    def _next(self) -> tuple[str, Any] | BaseException:
        """Wait for a result. Use timeouts, because Ctrl-C does not interrupt a long wait on every system."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._done.get(timeout=0.2)


class _Worker(threading.Thread):
    """A thread that does one job after another, in its own sandboxes, whose tasks run on a processor of their own."""

    def __init__(self, jobs: Any, done: Any, processor: int | None) -> None:
        super().__init__(daemon=True)
        self.jobs, self.done = jobs, done
        self.pool = StoppablePool(processor)

    def run(self) -> None:
        try:
            with self.pool, contextlib.suppress(StoppedError):
                while not self.pool.stopped and (job := self.jobs.get()) is not None:
                    self.done.put((job[0], job[1](self.pool)))
        except BaseException as error:  # raised again in the thread that waits
            self.done.put(error)

    def stop(self) -> None:
        """Stop the worker, even in the middle of an answer."""
        self.pool.stop()


class StoppablePool(Pool):
    """A pool that creates no more sandboxes after it was stopped."""

    stopped = False

    def get(self, uses: Sequence[str]) -> Sandbox:
        sandbox = super().get(uses)
        if self.stopped:  # this sandbox may have been created after `stop` stopped the others
            raise StoppedError
        return sandbox

    def stop(self) -> None:
        self.stopped = True
        super().stop()
