import pytest

from kmha.bench import timing


class Clock:
    """Each function takes the seconds that it says, and no other time passes."""

    def __init__(self):
        self.now, self.order = 0.0, []

    def __call__(self):
        return self.now

    def taking(self, name, seconds):
        def function():
            self.now += seconds
            self.order.append(name)

        return function


def _measure(clock, seconds_of, **options):
    functions = {name: clock.taking(name, seconds) for name, seconds in seconds_of.items()}
    return list(timing.rounds(functions, clock=clock, **options))


def test_rounds_are_in_turn():
    clock = Clock()
    measured = _measure(clock, {"a": 1.0, "b": 1.0, "c": 1.0}, count=4, seconds=24)
    assert "".join(clock.order) == "abc" + "aaabbbccc" + "aabbcc" + "bbccaa" + "ccaabb" + "aabbcc"
    assert [[*one] for one in measured] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_the_quick_run_more_often_and_all_are_in_milliseconds():
    first, *_ = _measure(Clock(), {"quick": 0.125, "slow": 1.0}, count=3, seconds=6)
    assert first == {"quick": pytest.approx([125.0] * 8), "slow": pytest.approx([1000.0])}


def test_the_slow_run_no_more_often_than_they_must():
    clock = Clock()
    assert len(_measure(clock, {"a": 1.0, "b": 2.0}, count=3, seconds=6)) == 3
    assert "".join(clock.order) == "abbaab"


def test_slow_rounds_stop_early_but_not_before_there_is_a_median():
    assert len(_measure(Clock(), {"a": 100.0}, count=9, seconds=2)) == timing.FEWEST_ROUNDS
    assert len(_measure(Clock(), {"a": 100.0}, count=2, seconds=2)) == 2
    assert len(_measure(Clock(), {"a": 0.25}, count=9, seconds=2)) == 9


def test_what_takes_no_time_runs_no_more_than_so_often():
    first, *_ = _measure(Clock(), {"a": 0.0}, count=3, seconds=1000)
    assert len(first["a"]) == timing.MOST_RUNS
