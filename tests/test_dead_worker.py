import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).parents[1] / "setup.cfg"


def test_a_dead_worker_ends_the_run_and_names_its_test(tmp_path):
    """With `--dist loadfile`, pytest-xdist replaces a dead worker and then may wait forever (pytest-xdist#784)."""
    (tmp_path / "test_a.py").write_text("import os\ndef test_dies(): os.abort()\ndef test_after(): pass\n")
    for name in "bcd":
        (tmp_path / f"test_{name}.py").write_text("import time\ndef test_sleeps(): time.sleep(0.2)\n")
    command = [sys.executable, "-m", "pytest", "-c", SETTINGS, f"--rootdir={tmp_path}", "-n", "2", "-q", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert run.returncode == 1
    assert "crashed while running 'test_a.py::test_dies'" in run.stdout
