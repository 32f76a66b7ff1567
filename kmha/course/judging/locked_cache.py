"""A cache that several threads share."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_T = TypeVar("_T")
_used = threading.local()


def shared_seconds() -> float:
    """Return the seconds that this thread has spent in caches, computing for all threads or waiting for another."""
    return getattr(_used, "seconds", 0.0)


class LockedCache:
    """A cache of the results for the keys used most recently. Only one thread computes a result; others wait for it.

    >>> squares = LockedCache(2)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 10)
    (9, 9)

    Args:
        size: Maximum number of keys.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """Return the result for a key. If the cache lacks it, compute it first. Errors of `compute` are not cached."""
        begin = time.monotonic()
        try:
            return self._get(key, compute)
        finally:
            _used.seconds = shared_seconds() + time.monotonic() - begin

    def _get(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._size:
                self._slots.popitem(last=False)
        with slot.lock:
            if not slot.full:
                slot.value, slot.full = compute(), True
            return slot.value


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.full = False
        self.value: Any = None
