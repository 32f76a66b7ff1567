"""`pytest --skipped` runs what earlier runs skipped, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = {
    "test_one.py": "import os, pytest\n\n"
    "def test_there(): pass\n\n"
    "@pytest.mark.skipif('THERE' not in os.environ, reason='not there')\ndef test_missing(): pass\n",
    "test_other.py": "import os, pytest\nif 'THERE' not in os.environ:\n"
    "    pytest.skip('not there', allow_module_level=True)\n\ndef test_file(): pass\n",
}


def test_what_was_skipped_runs(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)

    def run(*options, **variables):
        command = [sys.executable, "-m", "pytest", "-v", "--rootdir=.", "-n", "2", *options]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", **variables}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        return done.stdout.splitlines()[-1].strip("= ").partition(" in ")[0]

    assert run() == "1 passed, 2 skipped"
    assert run("--skipped", THERE="1") == "2 passed"
