import pytest

from kmha.sandbox import shutdown
from kmha.sandbox.shutdown import Shutdown


class _Ended(BaseException):
    pass


@pytest.fixture
def log(monkeypatch):
    """Return a log of the cleanup. It ends with "ended" instead of the end of this process."""
    found = []

    def ended(status):
        found.append("ended")
        raise _Ended

    monkeypatch.setattr(shutdown.os, "_exit", ended)
    return found


def test_cleanup_runs_in_reverse_order(log):
    shutting_down = Shutdown()
    shutting_down.cleanup.callback(log.append, "first")
    shutting_down.cleanup.callback(log.append, "last")
    with pytest.raises(_Ended):
        shutting_down.request()
    assert log == ["last", "first", "ended"]


def test_deferred_block_finishes_first(log):
    shutting_down = Shutdown()

    def whole():
        with shutting_down.deferred():
            with shutting_down.deferred():
                shutting_down.request()
            log.append("whole")

    with pytest.raises(_Ended):
        whole()
    assert log == ["whole", "ended"]


def test_second_signal_does_not_interrupt_the_cleanup(log):
    shutting_down = Shutdown()
    shutting_down.cleanup.callback(log.append, "first")
    shutting_down.cleanup.callback(shutting_down.request)
    with pytest.raises(_Ended):
        shutting_down.request()
    assert log == ["first", "ended"]


def test_no_shutdown_without_a_signal(log):
    shutting_down = Shutdown()
    with shutting_down.deferred():
        pass
    assert log == []
