import bz2
import copy
import gzip
import io
import os
import shutil
import stat
import sys
import tarfile
import zipfile

import pytest

from kmha.course.classroom import unpacking
from kmha.course.classroom.unpacking import Archives, LeftOutError, entries


def _read(path, most=100):
    """Return the content of the files by path, and the notes."""
    notes = []
    with Archives() as opened:
        return {str(entry.path): entry.read(most) for entry in entries(path, notes.append, opened)}, notes


def _zip(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return path


def test_folder(tmp_path):
    for name in ("b/two.py", "one.py", ".hidden/no.py", "__pycache__/no.py", "b/.no.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert _read(tmp_path) == ({"b/two.py": b"b/two.py", "one.py": b"one.py"}, [])


def test_archive_alone_and_in_a_folder(tmp_path):
    path = _zip(tmp_path / "a.zip", ("a1_x/one.py", "1"), ("__MACOSX/a1_x/one.py", "no"), (".git/x", "no"), ("d/", ""))
    assert _read(path) == ({"a1_x/one.py": b"1"}, [])
    assert _read(tmp_path) == ({"a1_x/one.py": b"1"}, [])


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_last_of_equal_paths_in_an_archive_counts(tmp_path):
    """A new version of a file, added with `tar r`, once did not count."""
    versions = [("a1/one.py", "old"), ("a1/two.py", "two"), ("a1\\one.py", "older"), ("./a1/one.py", "new")]
    _zip(tmp_path / "a.zip", *versions)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, text in versions:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    for name in ("a.zip", "a.tar"):
        assert _read(tmp_path / name) == ({"a1/one.py": b"new", "a1/two.py": b"two"}, [])
        with Archives() as opened:
            assert len([*entries(tmp_path / name, print, opened)]) == 2


def test_single_file(tmp_path):
    (tmp_path / "a1.ipynb").write_text("{}")
    assert _read(tmp_path / "a1.ipynb") == ({"a1.ipynb": b"{}"}, [])


def test_read_stops_at_the_limit(tmp_path):
    path = _zip(tmp_path / "bomb.zip", ("bomb.py", "0" * 10_000_000))
    assert path.stat().st_size < 20_000
    assert _read(path, most=7) == ({"bomb.py": b"0000000"}, [])


def test_a_header_of_negative_size(tmp_path):
    """It made room for as many attributes as an archive can hold."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, -(2**60)
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    assert _read(tmp_path / "a.tar") == ({}, ["a.tar is left out: it claims to contain less than nothing."])


def test_members_that_overlap(tmp_path):
    """20,000 members of one megabyte of empty blocks, all in one place, took the grader an hour."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", os.urandom(10_000))
        for name in ("b.py", "c.py"):
            archive.filelist.append(copy.copy(archive.filelist[0]))
            archive.filelist[-1].filename = archive.filelist[-1].orig_filename = name
    notes = []
    with Archives() as opened:
        found = [str(entry.path) for entry in entries(tmp_path / "a.zip", notes.append, opened)]
    assert found == ["a.py"]
    assert notes == [f"{name} is left out: the files in the archive overlap." for name in ("b.py", "c.py")]


def test_names_from_windows_and_times_of_day(tmp_path):
    path = _zip(tmp_path / "a.zip", ("a1_x\\one.py", "1"), ("hw 12:30/two.py", "2"))
    assert _read(path) == ({"a1_x/one.py": b"1", "hw 12:30/two.py": b"2"}, [])


@pytest.mark.parametrize("name", ["../up.py", "/root.py", "a/../../up.py", "C:\\x.py", "a\\..\\..\\x.py"])
def test_paths_that_lead_out_of_an_archive(tmp_path, name):
    found, notes = _read(_zip(tmp_path / "a.zip", (name, "x"), ("good.py", "y")))
    assert found == {"good.py": b"y"}
    assert len(notes) == 1
    assert notes[0].endswith("its path leads out of the archive.")


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
@pytest.mark.parametrize("swapped", ["eve", "eve/a1", "eve/a1/one.py", "eve.zip"])
def test_links_that_are_put_there_later_are_not_followed(tmp_path, swapped):
    """Whoever could write to the class's folder got another student's answer as their own."""
    for student in ("eve", "bob"):
        (tmp_path / student / "a1").mkdir(parents=True)
        (tmp_path / student / "a1" / "one.py").write_text(student)
        _zip(tmp_path / f"{student}.zip", ("a1/one.py", student))
    path = tmp_path / swapped
    student = tmp_path / swapped.partition("/")[0]

    def swap():
        path.rename(tmp_path / "kept")
        path.symlink_to(tmp_path / swapped.replace("eve", "bob"))

    with Archives() as opened:
        if student.is_dir():
            (entry,) = entries(student, print, opened)
            swap()
            with pytest.raises(LeftOutError):
                entry.read(100)
        else:
            assert len([*entries(student, print, opened)]) == 1
            opened.close()
            swap()
            with pytest.raises(LeftOutError):
                opened.open(student)


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "solution.py").write_text("secret")
    folder = tmp_path / "handed-in"
    folder.mkdir()
    (folder / "solution.py").symlink_to(tmp_path / "secret" / "solution.py")
    (folder / "deeper").symlink_to(tmp_path / "secret")
    link = zipfile.ZipInfo("solution.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    _zip(folder / "a.zip", (link, "../secret/solution.py"))
    assert _read(folder) == (
        {},
        [
            "solution.py is left out: it is not a regular file.",
            "deeper is left out: it is a link.",
            "solution.py is left out: it is a link.",
        ],
    )


def test_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    assert _read(tmp_path) == ({}, ["pipe.py is left out: it is not a regular file."])
    with pytest.raises(LeftOutError, match="it is not a regular file"):
        _read(tmp_path / "pipe.py")


def test_unreadable_file(tmp_path):
    with Archives() as opened:
        (entry,) = entries(tmp_path / "gone.py", print, opened)
        with pytest.raises(LeftOutError, match="No such file"):
            entry.read(5)


def test_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_FILES", 2)
    monkeypatch.setattr(unpacking, "MAX_DEPTH", 1)
    for name in ("1.py", "2.py", "3.py", "0/0/deep.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    assert _read(tmp_path) == (
        {"1.py": b"", "2.py": b""},
        ["0/0 is left out: it is nested too deeply.", "There are more than 2 files. The rest is left out."],
    )
    path = _zip(tmp_path / "a.zip", ("1.py", ""), ("2.py", ""), ("3.py", ""))
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 2)
    assert _read(path) == ({}, ["a.zip is left out: the archives hold more than 2 files."])
    monkeypatch.setattr(unpacking, "MAX_ARCHIVE", 10)
    assert _read(path)[1] == ["a.zip is left out: it has more than 0 MiB."]


def test_invalid_archive(tmp_path):
    (tmp_path / "a.zip").write_text("no archive")
    assert _read(tmp_path) == ({}, ["a.zip could not be opened (not a zip file)."])


def test_damaged_archive(tmp_path):
    path = _zip(tmp_path / "a.zip", ("one.py", "something long enough to be compressed, compressed, compressed"))
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(LeftOutError, match="it cannot be read"):
        _read(path)


@pytest.mark.parametrize("name", ["", "\0abc.py"])
def test_archive_member_without_a_name(tmp_path, name):
    info = zipfile.ZipInfo("x")
    info.filename = name
    path = _zip(tmp_path / "a.zip", (info, "x"), ("good.py", "y"))
    assert _read(path) == ({"good.py": b"y"}, ["A file in an archive is left out: it has no name."])


def test_archive_that_makes_zipfile_fail(tmp_path, monkeypatch):
    def breaks(archive):
        raise IndexError("out of range")

    _zip(tmp_path / "a.zip", ("one.py", "1"))
    (tmp_path / "b.py").write_text("2")
    monkeypatch.setattr(zipfile.ZipFile, "infolist", breaks)
    assert _read(tmp_path) == ({"b.py": b"2"}, ["a.zip is left out: out of range."])


def test_limits_count_all_archives(tmp_path, monkeypatch):
    for name in "abcd":
        _zip(tmp_path / f"{name}.zip", (f"{name}1.py", ""), (f"{name}2.py", ""))
    monkeypatch.setattr(unpacking, "MAX_ARCHIVES", 3)
    found, notes = _read(tmp_path)
    assert list(found) == ["a1.py", "a2.py", "b1.py", "b2.py", "c1.py", "c2.py"]
    assert notes == ["d.zip is left out: there are more than 3 archives."]
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 5)
    found, notes = _read(tmp_path)
    assert list(found) == ["a1.py", "a2.py", "b1.py", "b2.py"]
    assert notes[0] == "c.zip is left out: the archives hold more than 5 files."


def test_one_archive_is_open_at_a_time(tmp_path, monkeypatch):
    made = []

    class Noted(zipfile.ZipFile):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    for name in "abc":
        _zip(tmp_path / f"{name}.zip", (f"{name}.py", name))
    monkeypatch.setattr(unpacking.zipfile, "ZipFile", Noted)
    with Archives() as opened:
        found = list(entries(tmp_path, print, opened))
        for entry in (*found, *reversed(found)):
            assert entry.read(9).decode() == entry.path.stem
            assert sum(archive.fp is not None for archive in made) == 1
    assert all(archive.fp is None for archive in made)


def _tar(path, mode, *members):
    with tarfile.open(path, mode) as archive:
        for member, text in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.TGZ", "w:gz"), ("a.tar.bz2", "w:bz2")]
)
def test_tar_archives(tmp_path, name, mode):
    path = _tar(tmp_path / name, mode, ("a1_x/one.py", "1"), ("b.py", "22"), (".git/x", "no"), ("__MACOSX/x.py", "no"))
    assert _read(path) == ({"a1_x/one.py": b"1", "b.py": b"22"}, [])
    assert _read(path, most=1) == ({"a1_x/one.py": b"1", "b.py": b"2"}, [])


def test_tar_members_that_are_left_out(tmp_path):
    link, device = tarfile.TarInfo("link.py"), tarfile.TarInfo("device.py")
    link.type, link.linkname, device.type = tarfile.SYMTYPE, "/etc/passwd", tarfile.CHRTYPE
    path = _tar(
        tmp_path / "a.tar", "w", ("../up.py", "x"), ("/root.py", "x"), (link, ""), (device, ""), ("good.py", "y")
    )
    found, notes = _read(path)
    assert found == {"good.py": b"y"}
    assert notes == [
        "../up.py is left out: its path leads out of the archive.",
        "/root.py is left out: its path leads out of the archive.",
        "link.py is left out: it is not a regular file.",
        "device.py is left out: it is not a regular file.",
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("attributes", [{}, {"size": str(10**20)}], ids=["header", "attribute"])
def test_a_tar_that_claims_a_huge_file(tmp_path, attributes):
    """`tarfile` skipped it in 10^17 steps, so that a class never got its grades."""
    info = tarfile.TarInfo("huge.py")
    info.size, info.pax_headers = 1 if attributes else 2**70, attributes
    header = info.tobuf(tarfile.PAX_FORMAT if attributes else tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(header + b"x" * 512)
    found, (note,) = _read(tmp_path / "a.tar")
    assert found == {}
    assert "it claims to contain a file of" in note


def test_zip_that_is_a_tar(tmp_path):
    _tar(tmp_path / "a.tgz", "w:gz", ("one.py", "1"))
    os.rename(tmp_path / "a.tgz", tmp_path / "a.gz")
    assert _read(tmp_path) == ({"one.py": b"1"}, [])


@pytest.mark.parametrize("limit", ["MAX_UNPACKED", "MAX_MEMBERS", "MAX_KEPT", "MAX_ARCHIVE"])
def test_limits_of_tar_archives(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(unpacking, limit, 1)
    path = _tar(tmp_path / "a.tgz", "w:gz", ("one.py", "1"), ("two.py", "2" * 100_000))
    opened = {}
    with Archives() as stack:
        notes = []
        for entry in entries(path, notes.append, stack):
            try:
                opened[str(entry.path)] = entry.read(9)
            except LeftOutError as error:
                notes.append(str(error))
    assert set(opened) <= {"one.py"}
    assert len(notes) == 1


@pytest.mark.parametrize("module", [gzip, bz2])
@pytest.mark.parametrize("size", [1, 700, 1 << 16])
def test_compressed_files_of_several_streams(tmp_path, monkeypatch, module, size):
    """A tar archive may be compressed in parts, with zeros behind it."""
    monkeypatch.setattr(unpacking, "CHUNK", size)
    files = {f"{number}.py": text for number, text in enumerate(("1" * 100_000, os.urandom(5_000).hex(), ""))}
    data = _tar(tmp_path / "plain.tar", "w", *files.items()).read_bytes()
    parts = [data[:700], b"", data[700:120_001], data[120_001:]]
    (tmp_path / "plain.tar").write_bytes(b"".join(map(module.compress, parts)) + bytes(3_000))
    assert _read(tmp_path / "plain.tar", most=1 << 20) == ({name: text.encode() for name, text in files.items()}, [])


@pytest.mark.parametrize("module", [gzip, bz2])
def test_empty_streams_are_counted(tmp_path, module):
    """A MiB of them took 0.4 seconds, and 5 GiB were allowed."""
    (tmp_path / "a.tgz").write_bytes(module.compress(b"") * 2_000)
    note = "a.tgz is left out: it consists of more than 1,000 compressed streams."
    assert _read(tmp_path / "a.tgz") == ({}, [note])


class _Counted(io.BytesIO):
    reads = 0

    def read(self, size=-1):
        self.reads += 1
        return super().read(size)


def test_an_endless_name_in_a_gzip_header(tmp_path, monkeypatch):
    """It was read letter by letter."""
    file = _Counted(b"\x1f\x8b\x08\x08\0\0\0\0\0\3" + b"a" * (1 << 20))
    (tmp_path / "a.tgz").touch()
    monkeypatch.setattr(_Counted, "close", lambda _: None)
    monkeypatch.setattr(unpacking, "_open_regular", lambda *_: file.seek(0) or file)
    assert _read(tmp_path / "a.tgz")[1] == ["a.tgz is left out: it ends too early."]
    assert file.reads < 50


@pytest.mark.parametrize("opener", [gzip.open, bz2.open])
def test_damaged_tar_archives(tmp_path, opener):
    suffix = ".gz" if opener is gzip.open else ".bz2"
    with opener(tmp_path / f"no-tar{suffix}", "wb") as file:
        file.write(b"def twice(array): ...")
    whole = _tar(tmp_path / f"whole.tar{suffix}", f"w:{suffix[1:]}", ("one.py", os.urandom(99).hex()), ("two.py", "2"))
    (tmp_path / f"half.tar{suffix}").write_bytes(whole.read_bytes()[:-40])
    whole.unlink()
    (tmp_path / "empty.tar").touch()
    _, notes = _read(tmp_path)
    assert len(notes) == 3
    assert all(f"{name}" in " ".join(notes) for name in ("no-tar", "half", "empty.tar"))


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [("a.7z", b"7z\xbc\xaf\x27\x1c", "7z"), ("b.zip", b"Rar!", "RAR"), ("c.7z", b"?", "7z"), ("d.txz", b"", "XZ")],
)
def test_archives_that_are_not_read_say_what_to_ask_for(tmp_path, name, start, kind):
    (tmp_path / name).write_bytes(start)
    note = f"{name} is left out: it is a {kind} archive, which kmha does not read. Ask for a .zip or a .tar.gz."
    assert _read(tmp_path) == ({}, [note])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_members_that_unpack_without_a_limit(tmp_path, method):
    """900 bytes with bzip2 took gigabytes of memory, however few bytes were asked for."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("bomb.py", bytes(10_000), method)
        archive.writestr("good.py", "y", zipfile.ZIP_DEFLATED)
    found, (note,) = _read(tmp_path / "a.zip")
    assert found == {"good.py": b"y"}
    assert note.startswith("bomb.py is left out: its compression is not the usual one.")


def _header(type, size, **pax):
    info = tarfile.TarInfo("long")
    info.type, info.size = type, size
    info.pax_headers = pax
    return info.tobuf(tarfile.USTAR_FORMAT if not pax else tarfile.PAX_FORMAT)


@pytest.mark.parametrize(
    "start",
    [
        _header(tarfile.XHDTYPE, 1 << 20) + b"5 a=\n5 b=\n" * 104_858 + bytes(508),
        _header(tarfile.GNUTYPE_LONGNAME, 1 << 20) + b"x" * (1 << 20),
        _header(tarfile.GNUTYPE_SPARSE, 0),
        _header(tarfile.REGTYPE, 0, **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}) + b"1\n" * (1 << 10),
        _header(tarfile.REGTYPE, 0, **{"GNU.sparse.map": f"{-(2**62)},{2**62},0,100", "GNU.sparse.size": "100"}),
        _header(tarfile.REGTYPE, 0, **{"GNU.sparse.size": "9", "GNU.sparse.offset": "0", "GNU.sparse.numbytes": "9"}),
        # Each of the files after it has a copy of these.
        _header(tarfile.XGLTYPE, 8 << 10) + b"5 a=\n5 b=\n".ljust(8 << 10, b"\0"),
    ],
    ids=["attributes", "name", "sparse", "sparse 1.0", "sparse 0.1", "sparse 0.0", "attributes of all files"],
)
def test_tar_headers_that_are_read_without_a_limit(tmp_path, start):
    """Attributes of 1 GiB took minutes, a map of that size 5 GB of memory, and a map beyond the end forever."""
    (tmp_path / "a.tar").write_bytes(start + _header(tarfile.REGTYPE, 0) + bytes(1024))
    found, notes = _read(tmp_path / "a.tar")
    assert found == {}
    assert len(notes) == 1
    assert "it contains a sparse file" in notes[0] or "its names and attributes are too long" in notes[0]


def test_long_headers_count_more(tmp_path):
    """Looking for attributes in 250 headers with 8 KB of digits took 16 seconds."""
    start = _header(tarfile.XHDTYPE, 8 << 10) + (b"12 comment=1\n" + b"1" * (8 << 10))[: 8 << 10]
    (tmp_path / "a.tar").write_bytes((start + _header(tarfile.REGTYPE, 0)) * 250 + bytes(1024))
    with Archives() as archives:
        notes = []
        assert len([*entries(tmp_path / "a.tar", notes.append, archives)]) <= 32
    assert notes == ["a.tar is left out: its names and attributes are too long."]
    assert archives.headers == 33 * (64 << 10)


def test_all_headers_of_a_tar_archive_together_are_limited(tmp_path, monkeypatch):
    """A few thousand small files with long attributes took gigabytes of memory."""
    monkeypatch.setattr(unpacking, "MAX_HEADERS", 100_000)
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(9):
            info = tarfile.TarInfo(f"{number}.py")
            info.pax_headers = {"comment": "x" * 5_000}
            archive.addfile(info)
    found, notes = _read(tmp_path / "a.tar")
    assert (len(found), notes) == (4, ["a.tar is left out: its names and attributes are too long."])
    shutil.copy(tmp_path / "a.tar", tmp_path / "b.tar")
    assert len(_read(tmp_path)[0]) == 4


def test_a_tar_archive_is_not_read_beyond_its_end_for_ever(tmp_path):
    stream = unpacking._Limited(io.BytesIO(b"x"), Archives())
    with pytest.raises(LeftOutError, match="it ends too early"):
        [stream.read(10) for _ in range(1000)]


def test_the_limits_hold_for_all_archives_of_a_submission(tmp_path, monkeypatch):
    """Twelve files of 249 bytes took 844 MB, most of it for files that are never read."""
    monkeypatch.setattr(unpacking, "MAX_KEPT", 30_000)
    for number in range(3):
        _tar(tmp_path / f"{number}.tgz", "w:gz", ("a.bin", "2" * 25_000), ("one.py", "1" * 20_000))
    read, notes = [], []
    with Archives((".py",)) as archives:
        for number in range(3):
            for entry in entries(tmp_path / f"{number}.tgz", notes.append, archives):
                try:
                    read.append((entry.path.name, len(entry.read(99_999))))
                except LeftOutError as reason:
                    notes.append(str(reason))
    assert read == [("a.bin", 0), ("one.py", 20_000), ("a.bin", 0), ("a.bin", 0)]
    assert len(notes) == 2


def test_a_long_name_in_a_tar_archive(tmp_path):
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=format) as archive:
            info = tarfile.TarInfo("x" * 300 + "/é.py")
            info.size = 1
            archive.addfile(info, io.BytesIO(b"y"))
        assert _read(tmp_path / "a.tar") == ({info.name: b"y"}, [])


@pytest.mark.parametrize("suffix", ["py", "txt"])
def test_names_that_no_file_system_has(tmp_path, suffix):
    """Looking for exercises in two hundred of them took minutes."""
    name = f"{'a_' * 30_000}.{suffix}"
    _zip(tmp_path / "a.zip", (name, "x"))
    _tar(tmp_path / "b.tar.gz", "w:gz", (f"{'a_' * 3_000}.{suffix}", "x"))
    found, notes = _read(tmp_path)
    assert found == {}
    assert [note[:9] for note in notes] == ["a_a_a_a_a"] * 2
    assert all(note.endswith("its name is too long.") for note in notes)


def test_a_zip_with_millions_of_members_is_not_opened(tmp_path, monkeypatch):
    """Once, 5 million empty members took 40 seconds and 2 GiB before they were counted."""
    path = tmp_path / "empty.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(50):
            archive.writestr(f"{number}", "")
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 40)
    monkeypatch.setattr(unpacking.zipfile, "ZipFile", lambda *_: pytest.fail("it was opened"))
    notes = []
    with Archives() as stack:
        assert not [*entries(path, notes.append, stack)]
    assert notes == ["empty.zip is left out: the archives hold more than 40 files."]


def test_a_zip_with_much_beside_the_names_is_not_opened(tmp_path, monkeypatch):
    """Once, 100 MB of empty extra fields took 16 seconds."""
    path = tmp_path / "empty.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(200):
            info = zipfile.ZipInfo(f"{number}")
            info.extra = bytes(60_000)
            archive.writestr(info, "")
    monkeypatch.setattr(unpacking.zipfile, "ZipFile", lambda *_: pytest.fail("it was opened"))
    notes = []
    with Archives() as stack:
        assert not [*entries(path, notes.append, stack)]
    assert notes == ["empty.zip is left out: its members have more than 8 MiB of extra fields."]


def test_all_tar_archives_together_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_UNPACKED", 1 << 20)
    for name in "abc":
        with tarfile.open(tmp_path / f"{name}.tar.bz2", "w:bz2") as archive:
            info = tarfile.TarInfo(f"{name}.bin")
            info.size = 600 << 10
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    notes = []
    with Archives() as stack:
        assert [each.path.name for each in entries(tmp_path, notes.append, stack)] == ["a.bin"]
    assert len(notes) == 2
