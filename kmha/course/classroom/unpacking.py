"""The files in a stranger's folder or archive, without a trace on the disk.

No link is followed, nothing but plain files is opened, and an archive is not unpacked: what is wanted of it is read, up
to a limit, whatever size it claims to have.
"""

import dataclasses
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath

ENTRIES = 5_000  # files that are looked at in a folder
ARCHIVES = 20  # that are looked at in a folder
MEMBERS = 20_000  # in all these archives
ARCHIVE = 256 << 20  # bytes of an archive
DEPTH = 12  # of folders in folders
_IGNORED = ("__MACOSX", "__pycache__")
_ENCRYPTED = 1


class LeftOutError(Exception):
    """Why a file, or the rest of a submission, is left out."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file.

    Attributes:
        path: within the folder or archive.
        read: at most so many of its bytes.

    `read` raises a `LeftOutError` where it cannot be read.
    """

    path: PurePosixPath
    read: Callable[[int], bytes]


def entries(path: Path, note: Callable[[str], None], opened: ExitStack) -> Iterator[Entry]:
    """The files in a folder and in the archives in it, those in an archive, or the file itself.

    Args:
        path: of the folder, archive or file.
        note: is told what is left out, in a sentence.
        opened: is closed when nothing is to be read any more.
    """
    archives = _Archives()
    opened.callback(archives.close)
    if not path.is_dir():
        yield from _of_file(path, PurePosixPath(path.name), note, archives)
        return None
    for count, (within, file) in enumerate(_walk(path, PurePosixPath(), note)):
        if count == ENTRIES:
            return note(f"There are more than {ENTRIES:,} files: the rest is left out.")
        yield from _of_file(file, within, note, archives)
    return None


class _Archives:
    """Those of a submission. Only one is open at a time: files that are open are counted over all that are graded."""

    def __init__(self) -> None:
        self.count, self.members = 0, 0
        self.path: Path | None = None
        self.archive: zipfile.ZipFile | None = None

    def listed(self, path: Path) -> list[zipfile.ZipInfo]:
        """What is in one that was not opened before."""
        self.count += 1
        if self.count > ARCHIVES:
            raise LeftOutError(f"there are more than {ARCHIVES} archives")
        if path.stat().st_size > ARCHIVE:
            raise LeftOutError(f"it has more than {ARCHIVE >> 20} MiB")
        found = self.open(path).infolist()
        if self.members + len(found) > MEMBERS:
            raise LeftOutError(f"the archives hold more than {MEMBERS:,} files")
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
    """All plain files, in the order of their names."""
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
            if len(name.parts) > DEPTH:
                note(f"{name} is left out: it lies too deep.")
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
    except Exception as error:  # an archive can be spoilt in many ways, and says so in as many
        note(f"{within} is left out: {error}.")


def _of_archive(file: Path, note: Callable[[str], None], archives: _Archives) -> Iterator[Entry]:
    for info in sorted(archives.listed(file), key=lambda info: info.filename):
        if not info.filename:  # zipfile itself breaks down over these
            note("A file in an archive is left out: it has no name.")
            continue
        path = PurePosixPath(info.filename)
        if info.is_dir() or any((part.startswith(".") and part != "..") or part in _IGNORED for part in path.parts):
            continue
        if why := _refused(info, path):
            note(f"{path} is left out: {why}.")
        else:
            yield Entry(path, partial(_read_member, archives, file, info))


def _refused(info: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Why a member of an archive is not looked at, or an empty text."""
    if path.is_absolute() or ".." in path.parts or "\\" in info.filename or ":" in info.filename:
        return "its path leads out of the archive"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "it is a link, or no file"
    return "it is encrypted" if info.flag_bits & _ENCRYPTED else ""


def _read(path: Path, most: int) -> bytes:
    try:
        # A pipe that someone put there must not make us wait.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LeftOutError("it is no file")
            return file.read(most)
    except OSError as error:
        raise LeftOutError(f"{error.strerror}") from None


def _read_member(archives: _Archives, path: Path, info: zipfile.ZipInfo, most: int) -> bytes:
    try:
        with archives.open(path).open(info) as file:
            return file.read(most)
    except Exception as error:  # as above
        raise LeftOutError(f"it cannot be read: {error}") from None
