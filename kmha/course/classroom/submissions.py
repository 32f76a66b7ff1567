"""A class's submissions: a folder that contains a folder, an archive or a notebook for each student.

An answer is a file named after the exercise in a folder named after the assignment, `a1_k_and_v/cross_kv.py`. In a
folder of another name, the file's name alone decides. Answers can also be in a notebook of the assignment, `a1.ipynb`.
If an exercise has both, the file counts, unless it is still the starter.

Students misname files, and learning platforms rename them (`kmha.course.classroom.downloads`). A file whose name
contains the exercise's name, or whose code defines the exercise, is taken with a note. Whatever is not read is noted.
"""

import codecs
import dataclasses
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from kmha.course.classroom import downloads
from kmha.course.classroom.finding import Found, find_assignment, find_exercises, mentions, proposal
from kmha.course.classroom.unpacking import ARCHIVES, UNREAD, Archives, Entry, LeftOutError, entries
from kmha.course.errors import CourseError
from kmha.course.exercises import cells, notebooks
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter

# Limits of a submission.
MAX_CODE, MAX_NOTEBOOK = 256 << 10, 16 << 20  # bytes of a file
MAX_NOTEBOOKS = 40  # gathering the answers of a notebook takes a second
MAX_CELLS = 10_000
MAX_TOTAL = 64 << 20  # bytes of all files
MAX_REFUSED = 256 << 20  # bytes read of files that are too long, to see that they are
MAX_PARSED = 4 << 20  # characters of code that is parsed, because some take seconds for each megabyte
MAX_EFFORT = 10 * cells.EFFORT  # of all code that is parsed: a second, each of the few times that it is
MAX_CANDIDATES = 20  # files that may be the answer to the same exercise
MAX_NOTES = 20
MAX_LISTED = 5  # maximum number of files or exercises that a note names
CODE, NOTEBOOK = (".py", ".pyw", ".txt", ""), ".ipynb"
_READABLE = (*ARCHIVES, *UNREAD, NOTEBOOK, ".py")
_OTHERWISE = "It could also be a file of the student {} of Canvas. If so, put the student's files into one folder."
_TOGETHER = (
    "Read as files of one student of Canvas: {}. If they are of several, put each student's files into a folder."
)
_OF_A_SYSTEM = ("__MACOSX", "Thumbs.db", "desktop.ini")
_HANDED_OUT = ("README.md", "assignment.toml")


class SubmissionsError(CourseError, ValueError):
    """A folder is not a folder of submissions."""


@dataclasses.dataclass(frozen=True)
class Collected:
    """The students of a folder of submissions, and its other entries.

    Attributes:
        students: Paths of each student's files and folders, keyed by the student's id and in order.
        ignored: Reasons why the folder's other entries are not graded, keyed by their names.
        notes: Sentences on whose files they may be, keyed by the student's id.
    """

    students: dict[str, tuple[Path, ...]]
    ignored: dict[str, str]
    notes: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Submission:
    """The submission of one student.

    Attributes:
        id: The student's id.
        answers: Code of the answers, keyed by exercise id.
        notes: Sentences on what was left out, and why.
        unread: Whether something was left out, and there are no answers.
    """

    id: str
    answers: dict[str, str]
    notes: tuple[str, ...] = ()
    unread: bool = False

    @property
    def digest(self) -> str:
        """Hash of the whole submission."""
        content = json.dumps([self.id, sorted(self.answers.items()), self.notes])
        return hashlib.sha256(content.encode()).hexdigest()


def collect(folder: Path, assignments: Sequence[Assignment] = ()) -> Collected:
    """Find the students' submissions in a folder. Each entry of the folder is in the result.

    Args:
        folder: Path of the folder.
        assignments: The assignments. Loose files that are named after the same student and an exercise or assignment
            are one submission.

    Raises:
        SubmissionsError: The path is not a folder, or the folder contains no submissions.
    """
    if not os.path.isdir(folder):
        raise SubmissionsError(f"{folder} is not a folder. Name one that holds a folder or .zip for each student.")
    outer, folder = folder, downloads.opened(folder)
    names = _names(assignments)
    gradescope = {name: clean(student) for name, student in downloads.gradescope_names(folder).items()}
    students, shared, ignored = dict[str, tuple[Path, ...]](), defaultdict[str, list[Path]](list), dict[str, str]()
    if folder != outer:  # its name is that of a submission if only one student handed in
        ignored[clean(f"{folder.name}/")] = "it is read as a download of a platform, and its students are graded"
    paths = sorted(folder.iterdir())
    owners, doubts = _settled(downloads.owners(paths), paths, assignments)
    for path in paths:
        if reason := _why_ignored(path, names, owners):
            ignored[_free(clean(path.name), path, ignored)] = reason
        elif student := _shared_owner(path, names, gradescope, owners):
            shared[student].append(path)
        else:
            students[_free(clean(_stem(path)), path, students)] = (path,)
    for student, together in shared.items():
        if owners.keys().isdisjoint(path.name for path in together) and _apart(together, assignments):
            for path in together:
                students[_free(clean(_stem(path)), path, students)] = (path,)
        else:
            students[_free(clean(student), together[0], students)] = tuple(together)
    if not students:
        raise SubmissionsError(f"{folder} holds no submissions. Expected a folder, .zip or .ipynb for each student.")
    notes = {
        id: tuple({doubts[path.name]: None for path in each if path.name in doubts}) for id, each in students.items()
    }
    return Collected(dict(sorted(students.items())), ignored, {id: each for id, each in notes.items() if each})


def read(
    id: str,
    paths: Path | Sequence[Path],
    assignments: Sequence[Assignment],
    others: Sequence[Assignment] = (),
    room: "Room | None" = None,
) -> Submission:
    """Read one submission. A file that cannot be read gives a note, not an error.

    Args:
        id: The student's id.
        paths: Paths of the student's files and folders.
        assignments: The assignments whose answers to find.
        others: Assignments whose files are skipped.
        room: What may still be read, if it is shared with other calls.
    """
    room = room or Room()
    reader, late = _Reader(assignments, others, room), 0
    with room.archives as archives:
        found: list[Entry] = []
        for path in [paths] if isinstance(paths, Path) else paths:
            possible = downloads.possible_owners(path.name)
            owner = next((each for each in possible if clean(each.student) == id), None)
            if owner is None:  # its name only looks like one of a download
                found += entries(path, reader.note, archives)
                continue
            if owner.late:
                late += 1
                reader.note(f"Canvas marks {owner.file} as late.")
            found += entries(path, reader.note, archives, owner.file)
        folders = {each.id for each in (*assignments, *others)}
        # Files in an assignment's folder come first, so that they count.
        for entry in sorted(found, key=lambda entry: entry.path.parent.name.partition("_")[0] not in folders):
            reader.add(entry)
    answers = reader.answers()
    unread = not answers and len(reader.notes) > late
    if not answers:
        skipped = f" Files of assignments that are not graded: {reader.skipped:,}." if reader.skipped else ""
        reader.note(f"No answer was found, so this submission gets 0 points.{skipped}")
    return Submission(id, answers, tuple(reader.notes), unread)


def clean(text: str) -> str:
    """Replace characters that a terminal would interpret. Many spaces could begin a new line.

    A byte that is not UTF-8 is written out as an escape, so that two names stay two.
    """
    text = re.sub(" {2,}", " ", text.encode(errors="backslashreplace").decode())
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _names(assignments: Sequence[Assignment]) -> list[str]:
    """Return the names of all exercises and assignments."""
    return list(dict.fromkeys(name for each in assignments for item in each.items for name in _names_of(each, item)))


def _names_of(assignment: Assignment, item: Item) -> tuple[str, str, str]:
    return assignment.id, assignment.folder.name, item.name


def _why_ignored(path: Path, names: Sequence[str], owners: Container[str]) -> str:
    """Return why an entry of the class's folder cannot be a submission, or an empty string."""
    if path.name.startswith(".") or path.name in _OF_A_SYSTEM:
        return "it is hidden, or belongs to the operating system"
    if path.name == downloads.GRADESCOPE:
        return "it is Gradescope's list of names, which is used"
    if os.path.islink(path) or os.path.isdir(path) or path.name in owners:
        return ""
    if not os.path.isfile(path):
        return "it is not a regular file"
    suffix = path.suffix.lower()
    if suffix in _READABLE or (suffix in CODE and downloads.known_name(path.stem, names)):
        return ""
    return "it is not a folder, archive, notebook or .py file"


def _shared_owner(
    path: Path, names: Sequence[str], gradescope: dict[str, str], owners: Mapping[str, downloads.Owner]
) -> str:
    """Return the student to whom several entries can belong, or an empty string if this entry stands for itself."""
    if path.name in owners:
        return owners[path.name].student
    if path.name in gradescope:
        return gradescope[path.name] if [*gradescope.values()].count(gradescope[path.name]) == 1 else ""
    if os.path.islink(path) or os.path.isdir(path):
        return ""
    found = downloads.known_name(_stem(path), names)
    return found[1] if found else ""


def _settled(
    owners: Mapping[str, downloads.Owner], paths: Sequence[Path], assignments: Sequence[Assignment]
) -> tuple[dict[str, downloads.Owner], dict[str, str]]:
    """Leave out the owners whose files are of several students, and return a note for each file that is in doubt.

    Others name files like Canvas, with the course first: `ml_3_10234_anna.zip`. If files that seem to be one student's
    answer the same exercise, they are of several. If not, their names can tell, and if all names begin with the same
    word, it is probably the course. Whatever Moodle says is not in doubt.
    """
    of_owners = defaultdict[str, list[Path]](list)
    for path in paths:
        if path.name in owners and downloads.is_ambiguous(path.name):
            of_owners[owners[path.name].student].append(path)
    several = {student for student, each in of_owners.items() if _answer_the_same(student, each, owners, assignments)}
    names, same_start = _names(assignments), len({student.rpartition("_")[0] for student in of_owners}) == 1
    files = {path.name: owners[path.name] for each in of_owners.values() for path in each}
    of_groups = [[files[path.name].file for path in each] for each in of_owners.values()]
    of_all = [*{file for each in of_groups for file in each}]
    if same_start and (several or any(downloads.of_several(each, names) for each in [*of_groups, of_all])):
        notes = {name: _OTHERWISE.format(clean(owner.student)) for name, owner in files.items()}
        doubts, several = {} if several else notes, {*of_owners}
    else:
        doubts = {
            path.name: clean(_TOGETHER.format(listed([path.name for path in each])))
            for student, each in of_owners.items()
            if student not in several and _is_doubtful(each, owners, names, same_start)
            for path in each
        }
    left_out = {name for name, owner in files.items() if owner.student in several}
    return {name: owner for name, owner in owners.items() if name not in left_out}, doubts


def _is_doubtful(
    paths: Sequence[Path], owners: Mapping[str, downloads.Owner], names: Sequence[str], same_start: bool
) -> bool:
    """Return whether files that seem to be one student's may be of several, unless they are copies of one file."""
    files = {path: owners[path.name].file for path in paths}
    readable = [file for path, file in files.items() if os.path.isdir(path) or path.suffix.lower() in _READABLE]
    different = len({downloads.stem(file) for file in files.values()}) > 1
    return downloads.of_several(readable, names) or (same_start and different)


def _answer_the_same(
    student: str, paths: Sequence[Path], owners: Mapping[str, downloads.Owner], assignments: Sequence[Assignment]
) -> bool:
    """Return whether two archives, notebooks or code files answer the same exercise, and are no versions of one file.

    Archives that hold no answers may hold anything.
    """
    answered, room = defaultdict[tuple[str, str], set[str]](set), Room()
    for path in paths if len(paths) > 1 else ():
        suffix, file = path.suffix.lower(), owners[path.name].file
        packed = os.path.isdir(path) or suffix in (*ARCHIVES, *UNREAD)
        kind = "archive" if packed else "notebook" if suffix == NOTEBOOK else "file"
        try:
            ids = [*read(clean(student), path, assignments, room=room).answers]
        except Exception:  # as in grading, where a note says so
            ids = []
        for id in ids or ["nothing"] * packed:
            if any(not _is_version(file, other) for other in answered[kind, id]):
                return True
            answered[kind, id].add(file)
    return False


def _is_version(file: str, other: str) -> bool:
    """Return whether one file's name is that of the other with a number: twice2.py, and twice-1.py from Canvas."""
    stems = downloads.stem(file), downloads.stem(other)
    bare = [stem.rstrip("0123456789") for stem in stems]
    return file != other and (stems[0] == stems[1] or bare[0] == stems[1] or bare[1] == stems[0])


def _apart(paths: Sequence[Path], assignments: Sequence[Assignment]) -> bool:
    """Return whether one of several archives or notebooks does not answer what its name seems to say: Group_A1.zip.

    Then they are of several students, although the rest of their names is equal.
    """
    several = [path for path in paths if path.suffix.lower() in (*ARCHIVES, NOTEBOOK)]
    names, room = _names(assignments), Room()
    for path in several if len(several) > 1 else ():
        found = downloads.known_name(_stem(path), names)
        if found is None:
            continue
        named = [item.id for each in assignments for item in each.items if found[0] in _names_of(each, item)]
        try:
            answered = read("", path, assignments, room=room).answers
        except Exception:  # as in grading, where a note says so
            return True
        if answered.keys().isdisjoint(named):
            return True
    return False


def written(submission: Submission, assignments: Sequence[Assignment]) -> set[str]:
    """Return the ids of the exercises for which a submission has more than the starter."""
    items = [item for each in assignments for item in each.items if item.id in submission.answers]
    return {item.id for item in items if not is_starter(submission.answers[item.id], item)}


def _stem(path: Path) -> str:
    """Return the name of an entry, without the suffixes of a file."""
    if os.path.islink(path) or os.path.isdir(path):
        return path.name
    name = path.stem if path.suffix.lower() in (*ARCHIVES, *UNREAD, *CODE, NOTEBOOK) else path.name
    return name[:-4] if name.lower().endswith((".tar", ".tar.")) else name


def _free(id: str, path: Path, taken: Container[str]) -> str:
    """Return an id that is not taken: anna and anna.zip are two submissions."""
    suffix = "" if os.path.isdir(path) else clean(path.suffix)
    while id in taken:
        id += suffix if suffix and not id.endswith(suffix) else "+"
    return id


class Room:
    """Counts what may still be read of a student's files.

    Attributes:
        bytes: Number of bytes of files that are read.
        code: Number of characters of code that is parsed.
        effort: The effort of parsing code (`cells.effort`).
        notebooks: Number of notebooks.
        refused: Number of bytes of files that are too long.
        archives: The archives, which count themselves.
    """

    def __init__(self) -> None:
        self.bytes, self.code, self.notebooks, self.refused = MAX_TOTAL, MAX_PARSED, MAX_NOTEBOOKS, MAX_REFUSED
        self.effort = MAX_EFFORT
        self.archives = Archives((*CODE, NOTEBOOK))

    def take(self, code: str) -> None:
        """Count code that is about to be parsed. Code of too much effort counts nothing, because it never is.

        Raises:
            LeftOutError: There is too much code.
        """
        if len(code) > self.code:
            raise LeftOutError(f"there are more than {MAX_PARSED >> 20} MiB of code.")
        effort = cells.effort(code)
        counted = effort if effort <= cells.EFFORT else 0
        if counted > self.effort:
            raise LeftOutError(f"with the files before it, {cells.TOO_SLOW}")
        self.code -= len(code)
        self.effort -= counted


class _Reader:
    def __init__(self, assignments: Sequence[Assignment], others: Sequence[Assignment], room: Room) -> None:
        self.assignments, self.others, self.room, self.skipped = assignments, others, room, 0
        self.folders_of_others = {each.id for each in others}
        self.items = {item.id: item for each in assignments for item in each.items}
        self.items_by_name = {item.name: item for item in self.items.values()}
        self.files: dict[str, list[tuple[Found, Entry, str]]] = {}
        self.from_notebooks: dict[str, str] = {}
        self.notes: list[str] = []
        self.unread: list[str] = []

    def note(self, note: str) -> None:
        """Add a note, unless there are too many."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(clean(note)[:300])
        elif len(self.notes) == MAX_NOTES:
            self.notes.append("… and more.")

    def add(self, entry: Entry) -> None:
        """Read a file if it can contain answers."""
        suffix = entry.path.suffix.lower()
        try:
            if entry.path.parent.name.partition("_")[0] in self.folders_of_others:
                self.skipped += 1
            elif suffix == NOTEBOOK:
                self._add_notebook(entry)
            elif suffix == ".py" or (suffix in CODE and downloads.known_name(entry.path.stem, self.items_by_name)):
                self._add_code(entry)
            elif suffix in (*ARCHIVES, *UNREAD):
                raise LeftOutError("archives inside archives are not read.")
            elif entry.path.name not in _HANDED_OUT and not suffix.startswith(".bak-"):
                self.unread.append(str(entry.path))
        except LeftOutError as reason:
            self.note(f"{entry.name} is left out: {reason}")

    def answers(self) -> dict[str, str]:
        """Return the answers from files and notebooks, and add notes on the files that do not count."""
        found = {id: self._choose(id) for id in self.files}
        for id, code in self.from_notebooks.items():
            item = self.items[id]
            if id not in found or is_starter(found[id], item):
                found[id] = code
            elif not is_starter(code, item):
                self.note(f"{id} has an answer in a file and one in a notebook. The file counts.")
        if self.unread:
            self.note(f"Not read, because only .py, .ipynb and archives are: {listed(self.unread)}.")
        return {id: found[id] for id in self.items if id in found}

    def _choose(self, id: str) -> str:
        """Return the code of the file that counts: one that was edited, rather than a misnamed one, and then the first.

        Of misnamed files, the last counts: a browser, or Canvas, numbers the later versions of a file.
        """
        item, candidates = self.items[id], self.files[id]
        ranks = [
            (is_starter(code, item), found.rank, -n if found.rank else n)
            for n, (found, _, code) in enumerate(candidates)
        ]
        best = ranks.index(min(ranks))
        for number, (found, entry, _) in enumerate(candidates):
            if number != best:
                self.note(f"{entry.name} is left out: another file has the answer to {id}.")
            elif found.why:
                self.note(f"{entry.name} is taken as the answer to {id}, because {found.why}.")
        return candidates[best][2]

    def _add_code(self, entry: Entry) -> None:
        code = self._text(entry, MAX_CODE)
        found = self._find(entry, code, self.assignments)
        for each in found:
            candidates = self.files.setdefault(each.item.id, [])
            candidates.append((each, entry, code))
            if len(candidates) > MAX_CANDIDATES:  # of misnamed files, the last counts
                ranks = [candidate.rank for candidate, _, _ in candidates]
                candidates.pop(ranks.index(max(ranks)) if any(ranks) else -1)
                self.note(f"More than {MAX_CANDIDATES} files may be the answer to {each.item.id}. Some are left out.")
        if found and "\0" in code:
            self.note(f"{entry.name} is not text in UTF-8, so Python cannot read it. Ask for it in that encoding.")
        if not found and self._find(entry, code, self.others):
            self.skipped += 1
        elif not found and len(self.notes) <= MAX_NOTES:
            raise LeftOutError(proposal(entry.path, code, self.assignments))

    def _find(self, entry: Entry, code: str, assignments: Sequence[Assignment]) -> list[Found]:
        """Return the exercises that code may answer. Only so much code is parsed."""
        if not mentions(entry.path, code, assignments):
            return []
        self.room.take(code)
        return find_exercises(entry.path, code, assignments)

    def _text(self, entry: Entry, most: int) -> str:
        if self.room.refused <= 0:
            raise LeftOutError("too many files are too long.")
        data = entry.read(min(most, self.room.bytes) + 1)
        if len(data) > min(most, self.room.bytes):
            self.room.refused -= len(data)
            if most > self.room.bytes:
                raise LeftOutError(f"all files together have more than {MAX_TOTAL >> 20} MiB.")
            outputs = " Clear its outputs, and save it again." if most == MAX_NOTEBOOK else ""
            raise LeftOutError(f"it has more than {most >> 10:,} KiB.{outputs}")
        self.room.bytes -= len(data)
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell writes files
        return data.decode("utf-16" if wide else "utf-8-sig", errors="replace").replace("\r\n", "\n")

    def _add_notebook(self, entry: Entry) -> None:
        if not self.room.notebooks:
            raise LeftOutError(f"there are more than {MAX_NOTEBOOKS} notebooks.")
        self.room.notebooks -= 1
        text = self._text(entry, MAX_NOTEBOOK)
        try:
            notebook = cells.notebook_json(text)
            listed = cells.nested(notebook, "cells")
            if isinstance(listed, list) and len(listed) > MAX_CELLS:
                raise LeftOutError(f"it has more than {MAX_CELLS:,} cells.")
            assignment = find_assignment(entry.path, notebook, [*self.assignments, *self.others])
            if assignment in self.others:
                self.skipped += 1
                return
            found = notebooks.answers(notebook, assignment, self.room.take)
            unread = notebooks.unread(notebook)
        except (ValueError, RecursionError) as error:
            raise LeftOutError(str(error)) from None
        for item in assignment.items:
            if item.name in unread and not found.get(item.name):
                self.note(f"{entry.name}: {item.id} is in {unread[item.name]}, which is not read.")
        for name, code in found.items():
            id = f"{assignment.id}.{name}"
            before = self.from_notebooks.get(id)
            if len(code.encode()) > MAX_CODE:
                self.note(f"{entry.name}: {id} is left out: it has more than {MAX_CODE >> 10} KiB.")
            elif before is None or is_starter(before, self.items[id]):
                self.from_notebooks[id] = code
            elif len(self.notes) <= MAX_NOTES and not is_starter(code, self.items[id]):
                self.note(f"{entry.name}: {id} is left out: another notebook has an answer to it.")
