"""Tell whose file it is from its name in a bulk download, and which exercise it answers from a name like its own.

| platform | file or folder in the download | documentation |
| --- | --- | --- |
| Moodle | `Jane Doe_1234_assignsubmission_file_answer.py`, or a folder without the last part | "Download all submissions" in https://docs.moodle.org/en/Using_Assignment |
| Canvas | `doejane_LATE_12_345_answer.py`, with `LATE_` only if it was late; anonymous: `LATE_anon_yJgBk_345_answer.py` | "How do I download all student submissions for an assignment?" in https://community.canvaslms.com |
| Gradescope | folders `submission_1234`, and `submission_metadata.yml` with the names | "Exporting submissions" in https://help.gradescope.com |
"""  # noqa: E501

import contextlib
import os  # `os.path.isdir` is False for a link to a name that is too long, where `Path.is_dir` raises an error
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

GRADESCOPE = "submission_metadata.yml"
ALONE = "submission"  # the folder to which the autograder copies a submission (`kmha.course.classroom.gradescope`)
MAX_METADATA = 64 << 20  # bytes
_EXPORT = re.compile(r"assignment_\d+_export")
_MOODLE = re.compile(r"(?P<student>[^_]+(?:_\d+)?)_assignsubmission_[a-z]+(?:_(?P<file>.*))?", re.S)
# A text or a link that was typed into a form has no number of its own.
_UPLOADED = r"(?:(?P<upload>\d+)_(?P<file>.+)|(?P<typed>(?:text|link)\.html))"
_ANONYMOUS = re.compile(rf"(?P<late>LATE_)?(?P<student>anon_[1-9A-HJ-NP-Za-km-z]{{5}})_{_UPLOADED}", re.S)
_NUMBER = re.compile(r"_(?P<number>\d+)(?=_)")
_REST = re.compile(f"_{_UPLOADED}", re.S)
_WITHIN = re.compile(r"_\d+_")  # Canvas writes such a part of a student's name as -12-
_MOST, _HALF = 0.9, 0.5  # shares of a folder's files
_FEW = 3  # files of a group that contradicts itself, as far as such groups are rare: one student can hand in many
# What systems add to the name of a copy. A number alone is more often a student's: s1.zip and s2.zip.
_COPY = re.compile(r"(?i)(?:[\s-]+(?:cop(?:y|ie)|kopie)(?:[\s(]+\d+\)?)?|[\s-]+\d+|\s*\(\d+\))$")
_SUBMISSION = re.compile(r"(submission_\d+):\s*")
_NAME = re.compile(r"\s+(?:-\s+)?:name:\s*(.*?)\s*")
_ESCAPE = re.compile(r"\\(?:[xuU](?P<code>(?<=x)[0-9A-Fa-f]{2}|(?<=u)[0-9A-Fa-f]{4}|(?<=U)[0-9A-Fa-f]{8})|.)")
_LETTERS = dict(zip("0abtnvfre_", "\0\a\b\t\n\v\f\r\x1b\xa0", strict=True))
_CONTINUED = re.compile(r"\n {5,}(?![-: ])")  # a long name goes on in the next line
_WORD = re.compile(r"[^\W_]+")


class Owner(NamedTuple):
    """The student who handed in a file, the file's own name ("" for a folder), and whether it was late."""

    student: str
    file: str
    late: bool = False


class _Reading(NamedTuple):
    """The meaning of a file's name if Canvas wrote it. `number` stands for the student, and `upload` for the file."""

    student: str
    number: str
    late: bool
    upload: str
    file: str

    @property
    def owner(self) -> Owner:
        student = self.student if self.number == self.student else f"{self.student}_{self.number}"
        return Owner(student, self.file, self.late)


def stem(file: str) -> str:
    """Return the name of a file without its suffix, which is the same for its copies."""
    return _COPY.sub("", Path(file).stem)


def is_ambiguous(name: str) -> bool:
    """Return whether a name may look like one of a bulk download by chance, unlike those of Moodle."""
    return not _MOODLE.fullmatch(name) and not _ANONYMOUS.fullmatch(name)


def possible_owners(name: str) -> list[Owner]:
    """Return whose file or folder this can be in a bulk download of Moodle or Canvas, the likeliest first.

    >>> possible_owners("Jane Doe_1234_assignsubmission_file_")
    [Owner(student='Jane Doe_1234', file='', late=False)]
    >>> possible_owners("doejane_LATE_12_345_cross_kv-1.py")
    [Owner(student='doejane_12', file='cross_kv-1.py', late=True)]
    """
    if found := _MOODLE.fullmatch(name):
        return [Owner(found["student"], found["file"] or "")]
    return [reading.owner for reading in _readings(name)]


def _readings(name: str) -> list[_Reading]:
    """Return the meanings that a name can have if Canvas wrote it. A name may contain several pairs of numbers."""
    if found := _ANONYMOUS.fullmatch(name):
        return [_reading(found["student"], found["student"], found["late"] is not None, found)]
    readings = []
    for number in _NUMBER.finditer(name):
        student = name[: number.start()].removesuffix("_LATE")
        if _WITHIN.search(student):
            break  # a student may call a file so that the rest looks like another student's
        if student and (rest := _REST.fullmatch(name, number.end())):
            readings.append(_reading(student, number["number"], len(student) < number.start(), rest))
    return readings


def _reading(student: str, number: str, late: bool, match: re.Match[str]) -> _Reading:
    return _Reading(student, number, late, match["upload"] or "", match["file"] or match["typed"])


def owners(paths: Sequence[Path]) -> dict[str, Owner]:
    """Return whose files and folders these are in a bulk download, keyed by name.

    Other names can look like those of Canvas: `hw_2024_11_anna.zip`. But in a download of Canvas, nearly all files have
    such names, a student's number stands for one student, the second number for one file and its copies, and nothing
    is a folder that was not unpacked later. Names that contradict this do not count.
    """
    found = {path.name: Owner(m["student"], m["file"] or "") for path in paths if (m := _MOODLE.fullmatch(path.name))}
    readings = _chosen({path: each for path in paths if path.name not in found and (each := _readings(path.name))})
    groups = defaultdict[str, dict[Path, _Reading]](dict)
    for path, reading in readings.items():
        groups[reading.number][path] = reading
    agreeing = [group for group in groups.values() if _of_one_student(group)]
    others = [group for group in groups.values() if not _of_one_student(group)]
    files = sum(not os.path.isdir(path) and path.name not in found and not path.name.startswith(".") for path in paths)
    if len(agreeing) > len(others):
        files -= sum(max(sum(not os.path.isdir(path) for path in group) - _FEW, 0) for group in others)
    share = sum(not os.path.isdir(path) for group in agreeing for path in group) / max(files, 1)
    several = any(len({reading.upload for reading in group.values()}) > 1 for group in agreeing)
    if share >= _MOST or (several and share > _HALF):
        found |= {path.name: reading.owner for group in agreeing for path, reading in group.items()}
    return found


def _chosen(readings: Mapping[Path, Sequence[_Reading]]) -> dict[Path, _Reading]:
    """Return for each name the reading that the fewest readings of other names contradict, and then the first.

    A student's own name can end with a number, `student_1_12_345_answer.py`. So can a file's name begin. Names with one
    reading decide first, then the names with the same beginning, read alike. Of the others only the first reading
    counts, because students can choose a file's name so that it has further ones.
    """
    alike = defaultdict[tuple[str, str], list[Sequence[_Reading]]](list)
    for each in readings.values():
        alike[each[0].student, each[0].number].append(each)
    certain = [each[0] for each in readings.values() if len(each) == 1]
    sure, every = _contradictions(certain), _contradictions([each[0] for each in readings.values()])
    confirmed = Counter((reading.number, reading.student) for reading in certain)
    chosen = dict[Path, _Reading]()
    together = {
        key: [_contradictions(list(filter(None, level))) for level in zip_longest(*group)]
        for key, group in alike.items()
    }
    own = {key: _contradictions([each[0] for each in group]) for key, group in alike.items()}
    for path, each in readings.items():
        key = each[0].student, each[0].number
        ranks = [
            (sure(one), same(one), -confirmed[one.number, one.student], every(one) - own[key](one))
            for one, same in zip(each, together[key], strict=False)
        ]
        chosen[path] = each[ranks.index(min(ranks))]
    return _without_outnumbered(chosen, readings)


def _without_outnumbered(
    chosen: Mapping[Path, _Reading], readings: Mapping[Path, Sequence[_Reading]]
) -> dict[Path, _Reading]:
    """Read a name otherwise if its number stands for another student in more names."""
    students = Counter((reading.number, reading.student) for reading in chosen.values())
    most = Counter[str]()
    for (number, _), count in students.items():
        most[number] = max(most[number], count)

    def outnumbered(reading: _Reading) -> bool:
        return students[reading.number, reading.student] < most[reading.number]

    return {
        path: next((one for one in (reading, *readings[path]) if not outnumbered(one)), reading)
        for path, reading in chosen.items()
    }


def _contradictions(others: Sequence[_Reading]) -> Callable[[_Reading], int]:
    """Return a function that counts how many of the other readings contradict a reading."""
    numbers = Counter(reading.number for reading in others)
    students = Counter((reading.number, reading.student) for reading in others)
    uploads = Counter(reading.upload for reading in others)
    files = Counter((reading.upload, reading.number, stem(reading.file)) for reading in others)

    def count(reading: _Reading) -> int:
        other_students = numbers[reading.number] - students[reading.number, reading.student]
        other_files = uploads[reading.upload] - files[reading.upload, reading.number, stem(reading.file)]
        return other_students + (other_files if reading.upload else 0)

    return count


def _of_one_student(group: Mapping[Path, _Reading]) -> bool:
    """Return whether names with one number can be Canvas': of one student, with files, and one for each upload."""
    files = [reading for path, reading in group.items() if reading.upload and not os.path.isdir(path)]
    uploads = {(reading.upload, stem(reading.file)) for reading in files}
    one_each = len(uploads) == len({upload for upload, _ in uploads})
    one_student = len({reading.student for reading in group.values()}) == 1
    return one_student and one_each and not all(os.path.isdir(path) for path in group)


def of_several(files: Sequence[str], names: Iterable[str]) -> bool:
    """Return whether files that Canvas could have named so seem to be of several people.

    Then two have the same name, which Canvas would number, or each name has a part that is not an exercise's name, and
    these parts differ.

    >>> of_several(["anna.zip", "bob.zip"], []), of_several(["twice.py", "again.py"], ["twice", "again"])
    (True, False)
    """
    known, stems = [*names], {Path(file).stem for file in files}
    own = {_own_part(file, known, stems) for file in files}
    return len({*files}) < len(files) or ("" not in own and len(own) > 1)


def _own_part(file: str, names: Sequence[str], stems: Container[str]) -> str:
    """Return a file's name without those of exercises. A number at its end counts, unless it is a copy's."""
    rest = stem(file)
    if (found := known_name(rest, names)) is None:
        return (rest if rest in stems else Path(file).stem).casefold()
    while found:
        rest = found[1]
        found = known_name(rest, names)
    return rest.casefold()


def opened(folder: Path) -> Path:
    """Return the folder that holds a download if it is all that a folder contains, or else the folder itself.

    It is the folder of a Gradescope export, or a folder with several files of Moodle or Canvas, as systems make one
    when they unpack an archive. The only submission of Gradescope's autograder is never opened, because its author
    chooses the names in it.
    """
    inside = [path for path in folder.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    if len(inside) != 1 or inside[0].name == ALONE or os.path.islink(inside[0]) or not os.path.isdir(inside[0]):
        return folder
    files = dict[str, Owner]()
    with contextlib.suppress(OSError):  # it cannot be opened: a note on the submission says so
        files = owners([*inside[0].iterdir()])
    return inside[0] if _EXPORT.fullmatch(inside[0].name) or len(files) > 1 else folder


def gradescope_names(folder: Path) -> dict[str, str]:
    """Return the students of a Gradescope export, keyed by the name of their folder.

    Only the lines that matter are read: the submissions, and the names in their first list, the submitters.
    """
    path = folder / GRADESCOPE
    if not os.path.isfile(path) or os.path.islink(path) or path.stat().st_size > MAX_METADATA:
        return {}
    found: dict[str, list[str]] = {}
    names, listed = None, False
    for line in _CONTINUED.sub(" ", path.read_text(encoding="utf-8", errors="replace")).splitlines():
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
    places = defaultdict[str, list[int]](list)
    for place, word in enumerate(folded):
        places[word].append(place)
    whole = "".join(folded)
    for name in sorted(names, key=len, reverse=True):
        wanted = _folded_words(name)
        for start in places.get(wanted[0], ()):
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
    """Return the value of a YAML scalar."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_unescaped, text[1:-1])
    return re.sub(r"^[|>]-? ", "", text)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape of YAML stands for."""
    if escape["code"] is None:
        return _LETTERS.get(escape[0][1], escape[0][1])
    code = int(escape["code"], 16)
    return chr(code) if code <= sys.maxunicode else escape[0]
