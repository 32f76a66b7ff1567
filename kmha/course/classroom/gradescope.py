"""Gradescope's autograder as an archive: a script that installs kmha, and one that grades a submission.

Gradescope runs `setup.sh` once, and `run_autograder` for each submission. The submission is then in
`/autograder/submission`, and Gradescope reads `/autograder/results/results.json`
(https://gradescope-autograders.readthedocs.io).
"""

import io
import zipfile
from collections.abc import Sequence

from kmha import __version__
from kmha.course.exercises.content import Assignment

NAME = "gradescope.zip"
_EXECUTABLE = 0o100755 << 16
_TIME = (2020, 1, 1, 0, 0, 0)  # the same assignments give the same archive

_SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root on Ubuntu, when it builds the autograder.
set -euo pipefail
apt-get update
apt-get install -y python3.12-venv || apt-get install -y python3.11-venv
python=$(command -v python3.12 || command -v python3.11)
"$python" -m venv /autograder/kmha
/autograder/kmha/bin/pip install 'kmha[course]=={version}'
"""
_RUN = """#!/usr/bin/env bash
# Gradescope runs this for each submission. Each run draws new inputs.
set -euo pipefail
root=${{AUTOGRADER_ROOT:-/autograder}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/class"
cp -R "$root/submission" "$work/class/submission"
# If this machine lacks what keeps a student's code in its sandbox, kmha says so here and grades nothing.
"$root/kmha/bin/kmha" course grade "$work/class" --out "$work/grades" {assignments}
mkdir -p "$root/results"
cp "$work/grades/gradescope/submission.json" "$root/results/results.json"
"""


def archive(assignments: Sequence[Assignment]) -> bytes:
    """Return the autograder for these assignments, as a zip archive. It contains neither solutions nor checks."""
    ids = " ".join(f"--assignment {each.id}" for each in assignments)
    texts = {"setup.sh": _SETUP.format(version=__version__), "run_autograder": _RUN.format(assignments=ids)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in texts.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.external_attr = _EXECUTABLE
            made.writestr(info, text)
    return file.getvalue()
