import pytest

from kmha.sandbox import shutdown
from kmha.sandbox.shutdown import Shutdown


class _Ended(BaseException):
    pass


@pytest.fixture
def log(monkeypatch):
    """What is done, "ended" at last: this process goes on."""
    found = []

    def ended(status):
        found.append("ended")
        raise _Ended

    monkeypatch.setattr(shutdown.os, "_exit", ended)
    return found


def test_it_clears_up_what_was_made_last_first(log):
    shutting_down = Shutdown()
    shutting_down.cleanup.callback(log.append, "first")
    shutting_down.cleanup.callback(log.append, "last")
    with pytest.raises(_Ended):
        shutting_down.request()
    assert log == ["last", "first", "ended"]


def test_what_must_be_done_as_a_whole_is(log):
    shutting_down = Shutdown()

    def whole():
        with shutting_down.deferred():
            with shutting_down.deferred():
                shutting_down.request()
            log.append("whole")

    with pytest.raises(_Ended):
        whole()
    assert log == ["whole", "ended"]


def test_a_second_signal_does_not_disturb_it(log):
    shutting_down = Shutdown()
    shutting_down.cleanup.callback(log.append, "first")
    shutting_down.cleanup.callback(shutting_down.request)
    with pytest.raises(_Ended):
        shutting_down.request()
    assert log == ["first", "ended"]


def test_who_is_not_told_goes_on(log):
    shutting_down = Shutdown()
    with shutting_down.deferred():
        pass
    assert log == []
