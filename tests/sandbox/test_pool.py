import pytest

from kmha.sandbox.pool import Pool
from kmha.sandbox.sandbox import StoppedError

QUESTION = [{"ask": None, "inputs": {}}]


def test_one_for_every_set_of_libraries():
    with Pool() as pool:
        assert pool.of(["numpy"]) is pool.of(("numpy",))
        assert pool.of(("numpy", "matplotlib")) is not pool.of(("numpy",))
        assert pool.of(("numpy", "matplotlib")).uses == ("numpy", "matplotlib")


def test_what_is_closed_starts_again_and_what_is_stopped_does_not():
    pool = Pool()
    sandbox = pool.of(("numpy",))
    assert sandbox.run("f", "def f(): return 1\n", QUESTION).answers[0].result == 1
    pool.close()
    assert pool.of(("numpy",)) is sandbox
    assert sandbox.run("f", "def f(): return 2\n", QUESTION).answers[0].result == 2
    pool.stop()
    with pytest.raises(StoppedError):
        sandbox.run("f", "def f(): return 3\n", QUESTION)
    pool.close()
