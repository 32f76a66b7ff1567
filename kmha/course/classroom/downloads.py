"""Tell whose file it is from its name in a bulk download, and which exercise it answers from a name like its own.

| platform | file or folder in the download | documentation |
| --- | --- | --- |
| Moodle | `Jane Doe_1234_assignsubmission_file_answer.py`, or a folder without the last part | "Download all submissions" in https://docs.moodle.org/en/Using_Assignment |
| Canvas | `doejane_LATE_12_345_answer.py`, with `LATE_` only if it was late | "How do I download all student submissions for an assignment?" in https://community.canvaslms.com |
| Gradescope | folders `submission_1234`, and `submission_metadata.yml` with the names | "Exporting submissions" in https://help.gradescope.com |
"""  # noqa: E501

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

GRADESCOPE = "submission_metadata.yml"
MAX_METADATA = 64 << 20  # bytes
_EXPORT = re.compile(r"assignment_\d+_export")
_MOODLE = re.compile(r"(?P<student>[^_]+_\d+)_assignsubmission_[a-z]+(?:_(?P<file>.*))?", re.S)
# A text that was typed into a form has no number of its own.
_CANVAS = re.compile(
    r"(?P<student>.+?)(?P<late>_LATE)?_(?P<number>\d+)_((?P<upload>\d+)_(?P<file>.+)|(?P<text>text\.html))", re.S
)
_COPY = re.compile(r"(?i)[\s-]*(?:cop(?:y|ie)|kopie)?[\s(]*\d*\)?$")  # what systems add to the name of a copy
_SUBMISSION = re.compile(r"(submission_\d+):\s*")
_NAME = re.compile(r"\s+(?:-\s+)?:name:\s*(.*?)\s*")
_WORD = re.compile(r"[^\W_]+")


class Owner(NamedTuple):
    """The student who handed in a file, the file's own name ("" for a folder), and whether it was late."""

    student: str
    file: str
    late: bool = False


def owner(name: str) -> Owner | None:
    """Return whose file or folder this is in a bulk download of Moodle or Canvas, or `None` for any other name.

    >>> owner("Jane Doe_1234_assignsubmission_file_")
    Owner(student='Jane Doe_1234', file='', late=False)
    >>> owner("doejane_LATE_12_345_cross_kv-1.py")
    Owner(student='doejane_12', file='cross_kv-1.py', late=True)
    """
    if found := _MOODLE.fullmatch(name):
        return Owner(found["student"], found["file"] or "")
    if found := _CANVAS.fullmatch(name):
        file = found["file"] or found["text"]
        return Owner(f"{found['student']}_{found['number']}", file, found["late"] is not None)
    return None


def owners(paths: Sequence[Path]) -> dict[str, Owner]:
    """Return whose files and folders these are in a bulk download, keyed by name.

    Other names can look like those of Canvas: `hw_2024_11_anna.zip`. But there, a student's number stands for one
    student, the second number for one file and its copies, and nothing is a folder that was not unpacked later. Names
    that contradict this do not count.
    """
    groups = defaultdict[str, list[tuple[Path, re.Match[str]]]](list)  # names like Canvas', by their number
    for path in paths:
        if not _MOODLE.fullmatch(path.name) and (match := _CANVAS.fullmatch(path.name)):
            groups[match["number"]].append((path, match))
    doubtful = {path for group in groups.values() if not _of_one_student(group) for path, _ in group}
    return {path.name: whose for path in paths if path not in doubtful and (whose := owner(path.name))}


def _of_one_student(group: Sequence[tuple[Path, re.Match[str]]]) -> bool:
    """Return whether names with one number can be Canvas': of one student, with files, and one for each upload."""
    uploads = [(match["upload"], match["file"]) for path, match in group if match["upload"] and not path.is_dir()]
    names = {(upload, _COPY.sub("", Path(file).stem)) for upload, file in uploads}
    one_each = len(names) == len({upload for upload, _ in names})
    one_student = len({match["student"] for _, match in group}) == 1
    return one_student and one_each and not all(path.is_dir() for path, _ in group)


def opened(folder: Path) -> Path:
    """Return the folder of a Gradescope export if it is all that a folder contains, or else the folder itself."""
    inside = [path for path in folder.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    single = len(inside) == 1 and _EXPORT.fullmatch(inside[0].name) and not inside[0].is_symlink()
    return inside[0] if single and inside[0].is_dir() else folder


def gradescope_names(folder: Path) -> dict[str, str]:
    """Return the students of a Gradescope export, keyed by the name of their folder.

    Only the lines that matter are read: the submissions, and the names in their first list, the submitters.
    """
    path = folder / GRADESCOPE
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_METADATA:
        return {}
    found: dict[str, list[str]] = {}
    names, listed = None, False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if submission := _SUBMISSION.fullmatch(line):
            names, listed = found.setdefault(submission[1], []), False
        elif re.match(r"\s+:\w+:", line) and not line.lstrip().startswith((":name:", ":sid:", ":email:")):
            listed = line.strip() == ":submitters:" and names == []
        elif listed and names is not None and (name := _NAME.fullmatch(line)):
            names.append(_unquoted(name[1]))
    return {folder: ", ".join(filter(None, each)) for folder, each in found.items() if any(each)}


def known_name(text: str, names: Iterable[str]) -> tuple[str, str] | None:
    """Return the longest of some names that a file's name contains as whole words, and the rest of the file's name.

    >>> known_name("peggy_Cross-KV (1)", ["cross_kv", "replay"])
    ('cross_kv', 'peggy_1')
    """
    words = [*_WORD.finditer(text)]
    folded = [word[0].casefold() for word in words]
    whole, present = "".join(folded), set(folded)
    for name in sorted(names, key=len, reverse=True):
        wanted = _folded_words(name)
        for start in range(len(words) - len(wanted) + 1) if present.issuperset(wanted) else ():
            end = start + len(wanted)
            if folded[start:end] == wanted:
                rest = (words[:start], words[end:])
                return name, "_".join(text[part[0].start() : part[-1].end()] for part in rest if part)
        if whole == "".join(wanted):
            return name, ""
    return None


@lru_cache(1_000)
def _folded_words(name: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(name)]


def _unquoted(text: str) -> str:
    """Return the value of a YAML scalar in one line."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text.strip('"')
    return text
