import json
import subprocess
import sys

import numpy as np
import pytest

from kmha.bench import memory
from kmha.bench.cases import OURS, AttentionRow

ROW = AttentionRow(2, 12, width=16, heads=2)


@pytest.mark.parametrize("megabytes", [64, 192])
def test_a_known_amount_is_found(megabytes):
    def allocate():
        return np.ones(megabytes << 20, "uint8")

    assert memory.peak(allocate) == pytest.approx(megabytes << 20, rel=0.05)
    assert memory.peak(allocate) == pytest.approx(megabytes << 20, rel=0.05)  # the first peak is forgotten


@pytest.mark.slow
def test_where_the_mark_cannot_be_set_back_the_highest_ever_is_taken(tmp_path):
    code = (
        "import pathlib\nfrom kmha.bench import memory\n"
        f"memory.CLEAR = pathlib.Path({str(tmp_path / 'no' / 'clear_refs')!r})\n"
        "print(memory.peak(lambda: bytearray(b'x') * 100_000_000))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(output) == pytest.approx(100_000_000, rel=0.1)


def test_where_there_is_no_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "clear_refs" / "no")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    assert memory.peak(int) == 0
    assert memory._highest_ever() > 10_000_000


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_contender_is_measured_in_a_process_of_its_own():
    taken = memory.measure_peak(OURS, AttentionRow(64, 256, width=256, heads=8))
    of_the_output = 64 * 256 * 256 * 4
    assert 2 * of_the_output < taken < 100 * of_the_output


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_process_that_fails_says_why():
    with pytest.raises(memory.NotMeasured, match=r"^KeyError: 'nobody'$"):
        memory.measure_peak("nobody", ROW)


def _ending(monkeypatch, status, stdout="", stderr=""):
    ended = subprocess.CompletedProcess([], status, stdout, stderr)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: ended)


def test_a_process_that_is_killed(monkeypatch):
    _ending(monkeypatch, -9)
    with pytest.raises(memory.NotMeasured, match=r"^killed by SIGKILL, perhaps because memory ran out$"):
        memory.measure_peak(OURS, ROW)
    _ending(monkeypatch, -11, stderr="bang")
    with pytest.raises(memory.NotMeasured, match=r"^killed by SIGSEGV$"):
        memory.measure_peak(OURS, ROW)
    _ending(monkeypatch, 3)
    with pytest.raises(memory.NotMeasured, match=r"^exit status 3$"):
        memory.measure_peak(OURS, ROW)


def test_the_answer_is_the_last_line(monkeypatch):
    _ending(monkeypatch, 0, stdout="a library says hello\n" + json.dumps({"bytes": 7}) + "\n")
    assert memory.measure_peak(OURS, ROW) == 7
