import pytest

from kmha.sandbox import shutdown
from kmha.sandbox.shutdown import Ending


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
    end = Ending()
    end.left.callback(log.append, "first")
    end.left.callback(log.append, "last")
    with pytest.raises(_Ended):
        end.told()
    assert log == ["last", "first", "ended"]


def test_what_must_be_done_as_a_whole_is(log):
    end = Ending()

    def whole():
        with end.later():
            with end.later():
                end.told()
            log.append("whole")

    with pytest.raises(_Ended):
        whole()
    assert log == ["whole", "ended"]


def test_a_second_signal_does_not_disturb_it(log):
    end = Ending()
    end.left.callback(log.append, "first")
    end.left.callback(end.told)
    with pytest.raises(_Ended):
        end.told()
    assert log == ["first", "ended"]


def test_who_is_not_told_goes_on(log):
    end = Ending()
    with end.later():
        pass
    assert log == []
