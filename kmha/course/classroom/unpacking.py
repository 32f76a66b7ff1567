"""Read the files of an untrusted folder or archive without writing anything to disk.

Links are not followed, only regular files are opened, and archives are not extracted: a member is read up to a limit,
whatever size the archive claims for it.
"""

import dataclasses
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath

# Limits of a submission.
MAX_FILES = 5_000
MAX_ARCHIVES = 20
MAX_MEMBERS = 20_000  # in all archives together
MAX_ARCHIVE = 256 << 20  # bytes
MAX_DEPTH = 12  # maximum depth of nested folders
_IGNORED = ("__MACOSX", "__pycache__")
_ENCRYPTED = 1  # a flag bit of the zip format


class LeftOutError(Exception):
    """A file, or the rest of a submission, is left out."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file in a submission.

    Attributes:
        path: Path within the folder or archive.
        read: Function that returns at most the given number of bytes of the file, or raises a `LeftOutError`.
    """

    path: PurePosixPath
    read: Callable[[int], bytes]


def entries(path: Path, note: Callable[[str], None], stack: ExitStack) -> Iterator[Entry]:
    """Yield the files in a folder and its archives, the files in an archive, or the file itself.

    Args:
        path: Path of the folder, archive or file.
        note: Function called with a sentence for each thing that is left out.
        stack: Exit stack that closes the archives. Entries can be read until it is closed.
    """
    archives = _Archives()
    stack.callback(archives.close)
    found = _walk(path, PurePosixPath(), note) if path.is_dir() else [(PurePosixPath(path.name), path)]
    for count, (within, file) in enumerate(found):
        if count == MAX_FILES:
            note(f"There are more than {MAX_FILES:,} files. The rest is left out.")
            return
        yield from _of_file(file, within, note, archives)


class _Archives:
    """The archives of a submission. Only one is open at a time: all grading threads share the limit on open files."""

    def __init__(self) -> None:
        self.count, self.members = 0, 0
        self.path: Path | None = None
        self.archive: zipfile.ZipFile | None = None

    def members_of(self, path: Path) -> list[zipfile.ZipInfo]:
        """Open a new archive, count it and its members against the limits, and return the members."""
        self.count += 1
        if self.count > MAX_ARCHIVES:
            raise LeftOutError(f"there are more than {MAX_ARCHIVES} archives")
        if path.stat().st_size > MAX_ARCHIVE:
            raise LeftOutError(f"it has more than {MAX_ARCHIVE >> 20} MiB")
        found = self.open(path).infolist()
        if self.members + len(found) > MAX_MEMBERS:
            raise LeftOutError(f"the archives hold more than {MAX_MEMBERS:,} files")
        self.members += len(found)
        return found

    def open(self, path: Path) -> zipfile.ZipFile:
        if self.archive is None or self.path != path:
            self.close()
            self.archive, self.path = zipfile.ZipFile(path), path
        return self.archive

    def close(self) -> None:
        if self.archive is not None:
            self.archive.close()
            self.archive = None


def _walk(folder: Path, within: PurePosixPath, note: Callable[[str], None]) -> Iterator[tuple[PurePosixPath, Path]]:
    """Yield all regular files, sorted by name."""
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        note(f"{within} is left out: {error.strerror}.")
        return
    for entry in found:
        name = within / entry.name
        if entry.name.startswith(".") or entry.name in _IGNORED:
            continue
        if entry.is_symlink():
            note(f"{name} is left out: it is a link.")
        elif entry.is_dir(follow_symlinks=False):
            if len(name.parts) > MAX_DEPTH:
                note(f"{name} is left out: it is nested too deeply.")
            else:
                yield from _walk(folder / entry.name, name, note)
        elif entry.is_file(follow_symlinks=False):
            yield name, folder / entry.name


def _of_file(path: Path, within: PurePosixPath, note: Callable[[str], None], archives: _Archives) -> Iterator[Entry]:
    if path.suffix.lower() != ".zip":
        yield Entry(within, partial(_read, path))
        return
    try:
        yield from _of_archive(path, note, archives)
    except zipfile.BadZipFile as error:
        reason = str(error).removeprefix("File is ").rstrip(".")  # "File is not a zip file"
        note(f"{within} could not be opened ({reason}).")
    except Exception as error:  # a damaged archive can raise almost anything
        note(f"{within} is left out: {error}.")


def _of_archive(file: Path, note: Callable[[str], None], archives: _Archives) -> Iterator[Entry]:
    for info in sorted(archives.members_of(file), key=lambda info: info.filename):
        if not info.filename:  # zipfile itself fails on a member without a name
            note("A file in an archive is left out: it has no name.")
            continue
        path = PurePosixPath(info.filename)
        if info.is_dir() or any((part.startswith(".") and part != "..") or part in _IGNORED for part in path.parts):
            continue
        if reason := _why_refused(info, path):
            note(f"{path} is left out: {reason}.")
        else:
            yield Entry(path, partial(_read_member, archives, file, info))


def _why_refused(info: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Return why a member of an archive must not be read, or an empty string."""
    if path.is_absolute() or ".." in path.parts or "\\" in info.filename or ":" in info.filename:
        return "its path leads out of the archive"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "it is not a regular file"
    return "it is encrypted" if info.flag_bits & _ENCRYPTED else ""


def _read(path: Path, most: int) -> bytes:
    try:
        # Opening a pipe must not block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LeftOutError("it is not a regular file")
            return file.read(most)
    except OSError as error:
        raise LeftOutError(f"{error.strerror}") from None


def _read_member(archives: _Archives, path: Path, info: zipfile.ZipInfo, most: int) -> bytes:
    try:
        with archives.open(path).open(info) as file:
            return file.read(most)
    except Exception as error:  # a damaged archive can raise almost anything
        raise LeftOutError(f"it cannot be read: {error}") from None
