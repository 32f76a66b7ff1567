"""How a process ends that is told to end: with nothing left of what it made."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NoReturn


class Ending:
    """On a signal a process clears up and ends, but not in the middle of what is made, or removed, as a whole.

    The handler raises nothing, for what is raised in the hooks that Python calls around a fork gets lost; and the
    signal is not blocked meanwhile, for the threads of libraries would get it.

    Attributes:
        left: what there is to clear up.
    """

    def __init__(self) -> None:
        self.left = contextlib.ExitStack()
        self._holds = 0
        self._wanted = False

    def told(self, *_: Any) -> None:
        """Handles the signal."""
        self._wanted = True
        if not self._holds:
            self.now()

    def now(self) -> NoReturn:
        """Clears up and ends."""
        self._holds += 1  # a second signal must not disturb it
        self.left.close()
        os._exit(1)

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """What is done in it is done to its end."""
        self._holds += 1
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Leaves a `later`, for a fork that was made in it."""
        self._holds -= 1
        if self._wanted and not self._holds:
            self.now()
