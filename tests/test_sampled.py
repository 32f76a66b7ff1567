"""`pytest` runs a sample of the cases in files that would take long, and `pytest -m ""` all of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

pytestmark = pytest.mark.sampled(3)

def test_alone(): pass

@pytest.mark.parametrize("case", range(7))
def test_cases(case): assert case % 3 == 0
"""


def test_every_nth_case_runs(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_one.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "--rootdir=.", "-m", "not slow"]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert "4 passed, 4 deselected" in done.stdout.splitlines()[-1]
