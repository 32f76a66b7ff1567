"""Damaged archives: whatever their bytes are, files are read within limits, or left out with a note."""

import bz2
import gzip
import io
import tarfile
import zipfile

import hypothesis
import hypothesis.strategies as st
import pytest

from kmha.course.classroom.unpacking import Archives, LeftOutError, entries

MOST = 50
NAMES = (
    "a1_x/one.py",
    "../out.py",
    "/tmp/out.py",
    "two.py",
    "d/",
    ".hidden",
    "ü\N{RIGHT-TO-LEFT OVERRIDE}.py",
    "c:\\three.py",
)


def _zip(method):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name in NAMES:
            archive.writestr(name, name * 20)
    return held.getvalue()


def _tar(form):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        for name in NAMES:
            info = tarfile.TarInfo(name)
            info.size = 20 * len(name.encode())
            archive.addfile(info, io.BytesIO(20 * name.encode()))
        link = tarfile.TarInfo("link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return held.getvalue()


TARS = [_tar(form) for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)]
ARCHIVES = [
    *map(_zip, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
    *TARS,
    gzip.compress(TARS[0]),
    bz2.compress(TARS[1]),
    b"7z\xbc\xaf\x27\x1c" + bytes(90),
    b"",
]
CHOICES = st.binary(min_size=3, max_size=13)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".7z", ".py", "")


def _read_all(folder, choices):
    """Read an archive that the choices name and damage. One draw of bytes is much faster than many draws."""
    kind, suffix, end, *places = choices
    archive = ARCHIVES[kind % len(ARCHIVES)]
    for place, more in zip(places[::2], places[1::2], strict=False):
        # Half of them hit the beginning or the end, where the headers are.
        place = place * 7 if place < 64 else -place if place < 128 else place * 37
        place %= len(archive) + 1
        archive = archive[:place] + bytes([more]) + archive[place + more % 2 :]
    path = folder / f"archive{SUFFIXES[suffix % len(SUFFIXES)]}"
    path.write_bytes(archive if end % 3 else archive[: len(archive) * end // 256])  # a third is truncated
    notes = []
    with Archives() as opened:
        for entry in entries(path, notes.append, opened):
            assert not entry.path.is_absolute()
            assert ".." not in entry.path.parts
            try:
                assert len(entry.read(MOST)) <= MOST
            except LeftOutError:
                continue
    assert all(isinstance(note, str) for note in notes)
    path.unlink()
    assert not [*folder.iterdir()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("archives")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@hypothesis.settings(max_examples=100_000, deadline=None, database=None)
@hypothesis.given(CHOICES)
def test_any_archive(folder, choices):
    _read_all(folder, choices)


@hypothesis.settings(max_examples=300, deadline=None, database=None, derandomize=True)
@hypothesis.given(CHOICES)
def test_some_archives(folder, choices):
    _read_all(folder, choices)
