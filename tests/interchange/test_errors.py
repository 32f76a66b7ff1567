"""The checks of files that are read."""

import struct
import zipfile

import pytest

from kmha.interchange.errors import FileError, check_directory


def _archive(path, before=b"", comment=b"", start=0, large=False):
    """Write an archive, perhaps with bytes before it, a comment, another start of its directory, or a large end."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"weights")
        archive.comment = comment
    body = path.read_bytes()
    end = len(body) - 22 - len(comment)
    size, place = struct.unpack("<2L", body[end + 12 : end + 20])
    record = b""
    if large:
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, place + start)
        record += struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
        start = 0
    body = body[:end] + record + body[end : end + 16] + struct.pack("<L", place + start) + body[end + 20 :]
    path.write_bytes(before + body)
    return zipfile.ZipFile(path)


@pytest.mark.parametrize("large", [False, True])
def test_a_directory_where_the_end_says_that_it_is(large, tmp_path):
    with _archive(tmp_path / "x.pt", large=large) as archive:
        check_directory(archive)


@pytest.mark.parametrize(
    "more", [{"before": b"PK\3\4" + bytes(40)}, {"comment": b"c"}, {"start": -3}, {"start": -3, "large": True}]
)
def test_a_directory_elsewhere_is_refused(more, tmp_path):
    """torch's reader found another directory than Python's, and made 4,000 MB of a member that Python did not see."""
    with _archive(tmp_path / "x.pt", **more) as archive, pytest.raises(FileError, match="two programs can see"):
        check_directory(archive)
