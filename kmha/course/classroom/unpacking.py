"""Read the files of an untrusted folder or archive without writing anything to disk.

Links are not followed, only regular files are opened, and archives are not extracted: a member is read up to a limit,
whatever size the archive claims for it.
"""

import bz2
import contextlib
import dataclasses
import io
import mmap
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn, Self

from kmha.regular_files import USUAL_ZIPS, open_below

# Limits of a submission.
MAX_FILES = 5_000
MAX_ARCHIVES = 20
MAX_MEMBERS = 20_000  # in all archives together
MAX_ARCHIVE = 256 << 20  # bytes
MAX_DEPTH = 12  # maximum depth of nested folders
MAX_UNPACKED = 1 << 30  # bytes of all tar archives that are decompressed
# Bytes of names and attributes of a file, and of all, in tar archives. Until Python 3.11.10, `tarfile` takes four
# seconds for 64 KiB of digits, and a time that grows with the square. So beyond `USUAL_HEADER`, they count as often as
# they are longer than that.
MAX_HEADER, MAX_HEADERS, USUAL_HEADER = 1 << 13, 2 << 20, 1 << 10
GLOBAL_COST = 2048  # attributes of all files in a tar archive count so many times, because each file has a copy of them
MAX_STREAMS = 1_000  # parts compressed by themselves, usually one a file. Each takes time, even if it is empty
CHUNK = 1 << 16  # bytes of a compressed file that are read at a time
MAX_ENDS = 100  # times that a tar archive may be read beyond its end
MAX_EXTRA = 8 << 20  # bytes of extra fields of all members of zip archives, which `zipfile` takes apart in slow steps
MAX_PATH = 1_000  # characters of the path of a file in an archive. Longer names would take seconds
MAX_MEMBER, MAX_KEPT = 16 << 20, 64 << 20  # bytes of one file, and of all files, in tar archives
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".tbz", ".tbz2")
UNREAD = {".7z": "7z", ".rar": "RAR", ".xz": "XZ", ".txz": "XZ", ".zst": "Zstandard", ".lz4": "LZ4", ".z": "compress"}
ADVICE = "Ask for a .zip or a .tar.gz"
_IGNORED = ("__MACOSX", "__pycache__")
_DRIVE = re.compile("[A-Za-z]:(/|$)")
# The decompressors of gzip, with its header, and of bzip2.
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    b"BZh": bz2.BZ2Decompressor,
}
# XZ may ask for 4 GiB of memory.
_UNREAD_SIGNATURES = {b"7z\xbc\xaf": "7z", b"Rar!": "RAR", b"\xfd7zXZ": "XZ", b"\x28\xb5\x2f\xfd": "Zstandard"}
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

    @property
    def name(self) -> str:
        """The path, unless it is too long for a sentence."""
        return f"{self.path!s:.200}"


def entries(path: Path, note: Callable[[str], None], archives: "Archives", name: str | None = None) -> Iterator[Entry]:
    """Yield the files in a folder and its archives, the files in an archive, or the file itself.

    Args:
        path: Path of the folder, archive or file. All paths of a submission are in the same folder.
        note: Function called with a sentence for each thing that is left out.
        archives: The archives of the submission, and what its files have used up of the limits.
        name: Name of a file in the submission, if it is not the name on disk.
    """
    if os.path.islink(path):
        note(f"{path.name} is left out: it is a link.")
        return
    archives.base = path.parent
    found = _walk(path, PurePosixPath(), note) if os.path.isdir(path) else [(PurePosixPath(name or path.name), path)]
    for within, file in found:
        archives.files += 1
        if archives.files > MAX_FILES:
            note(f"There are more than {MAX_FILES:,} files. The rest is left out.")
            return
        # Of equal paths in an archive, the last counts, as when it is unpacked.
        yield from {entry.path: entry for entry in _of_file(file, within, note, archives)}.values()


class Archives:
    """The archives of a submission. Only one is open at a time: all grading threads share the limit on open files.

    As a context manager, it closes the archive at the end. Entries can be read until then.

    Args:
        suffixes: Suffixes of the files that are kept from a tar archive, in lower case. By default, all are kept.
    """

    def __init__(self, suffixes: Collection[str] = ()) -> None:
        self.suffixes = suffixes
        self.files, self.count, self.members, self.kept, self.unpacked, self.headers = 0, 0, 0, 0, 0, 0
        self.streams, self.extra = 0, 0
        self.base = Path()  # the class's folder. Below it, no link is followed, not even one that was put there since
        self.path: Path | None = None
        self.file: IO[bytes] | None = None
        self.archive: zipfile.ZipFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def members_of(self, path: Path) -> list[zipfile.ZipInfo]:
        """Open a new zip archive, count it and its members against the limits, and return the members."""
        self.count_archive(path)
        count, extra = _count_members(path, self)
        self.count_members(0, least=count)
        self.extra += extra
        if self.extra > MAX_EXTRA:
            raise LeftOutError(f"its members have more than {MAX_EXTRA >> 20} MiB of extra fields")
        found = self.open(path).infolist()
        self.count_members(len(found))
        return found

    def count_archive(self, path: Path) -> None:
        """Count an archive against the limits."""
        self.count += 1
        if self.count > MAX_ARCHIVES:
            raise LeftOutError(f"there are more than {MAX_ARCHIVES} archives")
        if path.stat().st_size > MAX_ARCHIVE:
            raise LeftOutError(f"it has more than {MAX_ARCHIVE >> 20} MiB")

    def count_members(self, number: int, least: int = 0) -> None:
        """Count members of an archive against the limit. `least` may be more than are counted for good."""
        if self.members + max(number, least) > MAX_MEMBERS:
            raise LeftOutError(f"the archives hold more than {MAX_MEMBERS:,} files")
        self.members += number

    def keep(self, path: PurePosixPath, file: IO[bytes], size: int) -> Callable[[int], bytes]:
        """Read a member of a tar archive, and return the `read` of its entry."""
        if self.suffixes and path.suffix.lower() not in self.suffixes:
            return lambda most: b""
        most = min(MAX_MEMBER, MAX_KEPT - self.kept)
        if size > most:
            return _too_large
        data = file.read(most)
        self.kept += len(data)
        return lambda most: data[:most]

    def open(self, path: Path) -> zipfile.ZipFile:
        if self.archive is None or self.path != path:
            self.close()
            self.file = _open_regular(path, self)
            self.archive, self.path = zipfile.ZipFile(self.file), path
        return self.archive

    def close(self) -> None:
        for each in (self.archive, self.file):
            if each is not None:
                each.close()
        self.archive = self.file = None


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
        else:
            note(f"{name} is left out: it is not a regular file.")


def _of_file(path: Path, within: PurePosixPath, note: Callable[[str], None], archives: Archives) -> Iterator[Entry]:
    suffix = path.suffix.lower()
    if suffix not in (*ARCHIVES, *UNREAD):
        yield Entry(within, partial(_read, path, archives))
        return
    try:
        with _open_regular(path, archives) as file:
            start = file.read(8)
        kind = next((kind for mark, kind in _UNREAD_SIGNATURES.items() if start.startswith(mark)), UNREAD.get(suffix))
        if kind is not None:
            raise LeftOutError(f"it is a {kind} archive, which kmha does not read. {ADVICE}")
        zipped = start.startswith(b"PK") or suffix == ".zip"
        yield from _of_zip(path, note, archives) if zipped else _of_tar(path, start, note, archives)
    except (zipfile.BadZipFile, tarfile.ReadError) as error:
        reason = str(error).removeprefix("File is ").rstrip(".")  # "File is not a zip file"
        note(f"{within} could not be opened ({reason}).")
    except UnicodeDecodeError:
        note(f"{within} could not be opened (the name of a file in it is damaged).")
    except Exception as error:  # a damaged archive can raise almost anything
        note(f"{within} is left out: {error}.")


def _of_tar(file: Path, start: bytes, note: Callable[[str], None], archives: Archives) -> Iterator[Entry]:
    """Yield the files in a tar archive. It is read once from start to end, so the entries keep their content."""
    archives.count_archive(file)
    make = next((make for mark, make in _DECOMPRESSORS.items() if start.startswith(mark)), None)
    with (
        _open_regular(file, archives) as raw,
        _Decompressed(raw, make, archives) if make else raw as plain,
        _Tar.open(fileobj=_Limited(plain, archives), mode="r|") as archive,
    ):
        for info in archive:
            archive.members.clear()  # `tarfile` keeps them all
            archives.count_members(1)
            path = _path(info.name)
            if info.isdir() or _is_ignored(path):
                continue
            content = archive.extractfile(info) if info.isreg() else None
            if reason := _why_path_refused(path) or ("" if content else "it is not a regular file"):
                note(f"{path!s:.200} is left out: {reason}.")
            elif content is not None:
                yield Entry(path, archives.keep(path, content, info.size))


class _Header(tarfile.TarInfo):
    """A header of a tar archive. `tarfile` reads long names, attributes and maps of sparse files without a limit."""

    _LONG = (*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)

    def _proc_member(self, archive: "_Tar") -> tarfile.TarInfo:
        if self.size < 0:
            raise LeftOutError("it claims to contain less than nothing")
        if self.type in self._LONG:
            archives = archive.archives
            times = GLOBAL_COST if self.type == tarfile.XGLTYPE else max(self.size // USUAL_HEADER, 1)
            archives.headers += self.size * times
            if self.size > MAX_HEADER or archives.headers > MAX_HEADERS:
                raise LeftOutError("its names and attributes are too long")
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        if not 0 <= found.size <= MAX_UNPACKED:  # `tarfile` would skip it in steps of 10 kB, past the end of the file
            raise LeftOutError(f"it claims to contain a file of {found.size:,} bytes")
        return found

    def _refuse_sparse(self, *_: object) -> NoReturn:
        raise LeftOutError("it contains a sparse file")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


class _Tar(tarfile.TarFile):
    tarinfo = _Header
    members: list[tarfile.TarInfo]

    @property
    def archives(self) -> Archives:
        """The archives of the submission, which count the bytes of all names and attributes."""
        found: Archives = self.fileobj.fileobj.archives  # type: ignore[attr-defined]
        return found


class _Decompressed(io.RawIOBase):
    """The content of a gzip or bzip2 file, whose streams are counted.

    Python's own modules count none, and read the file name in a gzip header, which can be endless, letter by letter.
    """

    def __init__(self, raw: IO[bytes], make: Callable[[], Any], archives: Archives) -> None:
        self.raw, self.make, self.archives = raw, make, archives
        self.stream: Any = None
        self.rest = b""  # what has been read, but not yet decompressed

    def read(self, size: int = -1) -> bytes:
        while size:
            if self.stream is None and not self._begin():
                break
            data: bytes = self.stream.decompress(self.rest, size)
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
            else:
                self.rest = getattr(self.stream, "unconsumed_tail", b"")  # the decompressor of bzip2 keeps it itself
            if data:
                return data
            if self.stream is not None and not self.rest:
                self.rest = self.raw.read(CHUNK)
                if not self.rest:
                    raise EOFError("it ends too early")
        return b""

    def _begin(self) -> bool:
        """Begin the next stream. Return False if there is none. Zeros may follow the last one."""
        self.rest = self.rest.lstrip(b"\0") or self.raw.read(CHUNK).lstrip(b"\0")
        if self.rest:
            self.archives.streams += 1
            if self.archives.streams > MAX_STREAMS:
                raise LeftOutError(f"it consists of more than {MAX_STREAMS:,} compressed streams")
            self.stream = self.make()
        return bool(self.rest)


class _Limited(io.RawIOBase):
    """A stream that ends with an error after `MAX_UNPACKED` bytes, whatever a decompressor makes of a small file."""

    def __init__(self, stream: IO[bytes] | io.RawIOBase, archives: Archives) -> None:
        self.stream, self.archives, self.ends = stream, archives, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self.archives.unpacked += len(data)
        self.ends += not data
        if self.ends > MAX_ENDS:
            raise LeftOutError("it ends too early")
        if self.archives.unpacked > MAX_UNPACKED:
            raise LeftOutError(f"the tar archives unpack to more than {MAX_UNPACKED >> 20} MiB")
        return data


def _count_members(path: Path, archives: Archives) -> tuple[int, int]:
    """Return at least the number of members of a zip archive, and of the bytes of their extra fields.

    They are counted before `zipfile` makes an object for each member.
    """
    start, count, extra = 0, 0, 0
    with (
        contextlib.suppress(ValueError),  # mmap refuses an empty file
        _open_regular(path, archives) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        while count <= MAX_MEMBERS and (found := data.find(b"PK\1\2", start)) >= 0:
            start, count = found + 4, count + 1
            extra += int.from_bytes(data[found + 30 : found + 32], "little")
    return count, extra


def _of_zip(file: Path, note: Callable[[str], None], archives: Archives) -> Iterator[Entry]:
    room = file.stat().st_size  # of the members, unless they overlap, which makes an archive of 2 MB take hours
    for info in sorted(archives.members_of(file), key=lambda info: str(_path(info.filename))):
        if not info.filename:  # zipfile itself fails on a member without a name
            note("A file in an archive is left out: it has no name.")
            continue
        path = _path(info.filename)
        if info.is_dir() or _is_ignored(path):
            continue
        room -= info.compress_size
        if reason := "the files in the archive overlap" if room < 0 else _why_refused(info, path):
            note(f"{path!s:.200} is left out: {reason}.")
        else:
            yield Entry(path, partial(_read_member, archives, file, info))


def _why_refused(info: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Return why a member of an archive must not be read, or an empty string."""
    if reason := _why_path_refused(path):
        return reason
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "it is not a regular file"
    if info.compress_type not in USUAL_ZIPS:
        return "its compression is not the usual one. Ask for a .zip made without special options"
    return "it is encrypted" if info.flag_bits & _ENCRYPTED else ""


def _path(name: str) -> PurePosixPath:
    """Return the path of a file in an archive, or the start of one that is too long.

    Some programs for Windows write it with backslashes.
    """
    return PurePosixPath(name[: 2 * MAX_PATH].replace("\\", "/"))


def _why_path_refused(path: PurePosixPath) -> str:
    if len(str(path)) > MAX_PATH:
        return "its name is too long"
    outside = path.is_absolute() or ".." in path.parts or _DRIVE.match(str(path))
    return "its path leads out of the archive" if outside else ""


def _is_ignored(path: PurePosixPath) -> bool:
    return any((part.startswith(".") and part != "..") or part in _IGNORED for part in path.parts)


def _too_large(most: int) -> bytes:
    raise LeftOutError(f"in tar archives, a file may have {MAX_MEMBER >> 20} MiB, and all files {MAX_KEPT >> 20} MiB.")


def _open_regular(path: Path, archives: Archives) -> IO[bytes]:
    """Open a regular file.

    Raises:
        LeftOutError: The file cannot be read, or is not a regular file.
    """
    try:
        return open_below(archives.base, path.relative_to(archives.base))
    except OSError as error:
        raise LeftOutError(f"{error.strerror}") from None


def _read(path: Path, archives: Archives, most: int) -> bytes:
    try:
        with _open_regular(path, archives) as file:
            return file.read(most)
    except OSError as error:
        raise LeftOutError(f"{error.strerror}") from None


def _read_member(archives: Archives, path: Path, info: zipfile.ZipInfo, most: int) -> bytes:
    try:
        with archives.open(path).open(info) as file:
            return file.read(most)
    except Exception as error:  # a damaged archive can raise almost anything
        raise LeftOutError(f"it cannot be read: {error}") from None
