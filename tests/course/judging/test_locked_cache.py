import threading

import pytest

from kmha.course.judging.locked_cache import LockedCache


def test_several_threads_compute_it_once():
    cache, computed, found = LockedCache(3), [], []
    together = threading.Barrier(4)

    def compute():
        computed.append(threading.get_ident())
        return "result"

    def want():
        together.wait(5)
        found.append(cache.get("key", compute))

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert found == ["result"] * 4
    assert len(computed) == 1


def test_least_recently_used_key_is_dropped():
    cache = LockedCache(2)
    for key in ("one", "two", "one", "three"):
        cache.get(key, lambda key=key: f"first {key}")
    assert cache.get("one", lambda: "second one") == "first one"
    assert cache.get("two", lambda: "second two") == "second two"


def test_an_error_is_not_kept():
    cache = LockedCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 // 0)
    assert cache.get("key", lambda: 5) == 5
