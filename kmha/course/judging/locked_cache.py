"""Results that are computed once and kept, also where several threads want them at the same time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class Once:
    """Keeps the results of the last keys that were asked for.

    >>> squares = Once(2)
    >>> squares.of(3, lambda: 9), squares.of(3, lambda: 10)
    (9, 9)

    Args:
        size: of how many keys.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result for a key; who comes while it is computed waits for it. What `compute` raises is not kept."""
        with self._lock:
            slot = self._kept.setdefault(key, _Slot())
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        with slot.lock:
            if not slot.full:
                slot.value, slot.full = compute(), True
            return slot.value


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.full = False
        self.value: Any = None
