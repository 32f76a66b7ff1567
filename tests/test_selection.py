"""Which tests run: a sample of the cases in files that take long, and with `--skipped` what earlier runs skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLED = """
import pytest

pytestmark = pytest.mark.sampled(3)

def test_alone(): pass

@pytest.mark.parametrize("case", range(7))
def test_cases(case): assert case % 3 == 0
"""
MISSING = """
import os, pytest

def test_there(): pass

@pytest.mark.skipif("THERE" not in os.environ, reason="not there")
def test_missing(): pass
"""
FILE_MISSING = """
import os, pytest

if "THERE" not in os.environ:
    pytest.skip("not there", allow_module_level=True)

def test_file(): pass
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs pytest with our conftest.py on files, and returns its last line without the time."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)

    def run(*options, files, **variables):
        for number, text in enumerate(files):
            (tmp_path / f"test_{number}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:warnings", "-n", "2", *options]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", **variables}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        return done.stdout.splitlines()[-1].strip("= ").partition(" in ")[0]

    return run


@pytest.mark.slow
def test_every_nth_case_runs(run):
    assert run("-m", "not slow", files=[SAMPLED]) == "4 passed"
    assert run("-m", "", files=[SAMPLED]) == "4 failed, 4 passed"


@pytest.mark.slow
def test_what_was_skipped_runs(run):
    assert run(files=[MISSING, FILE_MISSING]) == "1 passed, 2 skipped"
    assert run("--skipped", files=[MISSING, FILE_MISSING], THERE="1") == "2 passed"
    assert run("--skipped", files=[MISSING, FILE_MISSING], THERE="1") == "1 passed"  # the file is known as a whole
