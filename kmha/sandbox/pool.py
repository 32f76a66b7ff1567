"""The sandboxes of a session: one for every set of libraries, each started when it is first needed."""

from collections.abc import Sequence
from typing import Self

from kmha.sandbox.sandbox import Sandbox


class Pool:
    """Sandboxes that stay warm between runs, until it is closed.

    >>> with Pool() as pool:
    ...     pool.of(("numpy",)) is pool.of(["numpy"])
    True
    """

    def __init__(self) -> None:
        self._sandboxes: dict[tuple[str, ...], Sandbox] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of(self, uses: Sequence[str]) -> Sandbox:
        """The sandbox that has imported these."""
        return self._sandboxes.setdefault(tuple(uses), Sandbox(tuple(uses)))

    def stop(self) -> None:
        """Ends them for good, also while another thread runs something in them."""
        for sandbox in list(self._sandboxes.values()):
            sandbox.stop()

    def close(self) -> None:
        """Ends all processes; `of` gives the same sandboxes again, which then start anew."""
        for sandbox in self._sandboxes.values():
            sandbox.close()
