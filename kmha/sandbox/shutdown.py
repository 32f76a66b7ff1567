"""End a process on a signal, and remove everything that the process made."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NoReturn


class Shutdown:
    """Clean up and exit on a signal, but never inside a `deferred` block.

    The handler raises nothing, because exceptions in the hooks that Python runs around a fork get lost. It does not
    block the signal either, because then the threads of libraries would receive it.

    Attributes:
        cleanup: The callbacks to run before the process exits.
    """

    def __init__(self) -> None:
        self.cleanup = contextlib.ExitStack()
        self._deferrals = 0
        self._requested = False

    def request(self, *_: Any) -> None:
        """Handle the signal: shut down now, or at the end of the outermost `deferred` block."""
        self._requested = True
        if not self._deferrals:
            self.now()

    def now(self) -> NoReturn:
        """Run the callbacks of `cleanup` and exit the process."""
        self._deferrals += 1  # a second signal must not interrupt the cleanup
        self.cleanup.close()
        os._exit(1)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer a shutdown that is requested inside the block until the block ends."""
        self._deferrals += 1
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Leave a `deferred` block. A process that was forked inside the block must call this itself."""
        self._deferrals -= 1
        if self._requested and not self._deferrals:
            self.now()
