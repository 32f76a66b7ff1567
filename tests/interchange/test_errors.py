"""The checks of files that are read."""

import bz2
import struct
import zipfile
import zlib

import numpy as np
import pytest

from kmha.interchange.errors import FileError, check_members
from kmha.interchange.files import read_file


def test_an_unusual_compression_is_refused(tmp_path):
    """A file of 3,273 bytes took 8,400 MB: Python unpacks bzip2 without the limit of a member's declared size."""
    path = tmp_path / "x.npz"
    np.savez(path, **{"query/kernel": np.ones(3)})
    with zipfile.ZipFile(path) as archive:
        array = archive.read("query/kernel.npy")
    body, name = bz2.compress(array + bytes(10**8)), b"query/kernel.npy"
    sizes = zlib.crc32(array), len(body), len(array), len(name)
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 46, 0, zipfile.ZIP_BZIP2, 0, 33, *sizes, 0) + name + body
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 46, 46, 0, zipfile.ZIP_BZIP2, 0, 33, *sizes, *[0] * 6) + name
    path.write_bytes(local + entry + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0))
    with pytest.raises(FileError, match="compressed in an unusual way"):
        read_file(path)


def test_a_member_without_a_name_is_checked_too(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", bytes(100))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        archive.infolist()[0].filename = ""
        with pytest.raises(FileError, match="unusual way"):
            check_members(archive)


def test_usual_members_are_not_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(100))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        check_members(archive)
