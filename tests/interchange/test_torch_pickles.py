import pickle
import struct
import tarfile
import zipfile
import zlib

import pytest

from kmha.interchange import torch_pickles
from kmha.interchange.files import FileError, read_file

torch = pytest.importorskip("torch")

TEXT = b"X" + struct.pack("<I", 1 << 14) + b"a" * (1 << 14)
MANY = b"](" + b"K\x01" * 20_000 + b"e"
TUPLES = b"N" + b"q\0h\0\x86" * 60  # each tuple has the one before it twice
STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK\1NtQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\0J\0\xca\x9a;\x85K\0\x85\x89}tR"
HOSTILE = {
    "a long text is encoded again and again": TEXT
    + b"q\0c_codecs\nencode\nq\x01X\x06\0\0\0utf-32q\x02"
    + b"h\x01h\0h\x02\x86R" * 100,
    "bytes of any size": b"cbuiltins\nbytearray\nJ\0\0\0\x10\x85R",
    "a tensor of any size": b"ctorch\nTensor\nJ\0\0\0\x10\x85R",
    "a storage of any size": b"ctorch.storage\nUntypedStorage\nJ\0\0\0\x10\x85R",
    "a tensor of any size, by another operation": b"ctorch\nTensor\nJ\0\0\0\x10\x85\x81",
    "a long list is copied again and again": b"c__builtin__\nset\nq\x01" + MANY + b"q\0" + b"h\x01h\0\x85R" * 100,
    "a key that takes forever": b"}" + TUPLES + b"Ns",
    "keys that take forever": b"}(" + TUPLES + b"Nu",
    "a key nested too deeply": b"}" + b"N" + b"\x85" * 10**4 + b"Ns",
    "a storage with a key that takes forever": TUPLES + b"Q",
    "more values than any model needs": b"](" + b"]" * 10**5 + b"e",
    "a set of a tensor that takes no room": b"cbuiltins\nset\n" + TENSOR + b"\x85R",
    "counted elements of such a tensor": b"ccollections\nCounter\n" + TENSOR + b"\x85R",
    "a set of such a tensor, by another function": b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\nset\n"
    + b"ctorch\nTensor\n"
    + TENSOR
    + b"\x85}tR",
    "a codec that takes forever": b"c_codecs\nencode\nX\1\0\0\0aX\x08\0\0\0punycode\x86R",
    "keys that all have the same hash": b"}\x8a\x08" + struct.pack("<q", 2**61 - 1) + b"Ns",
    "a list in itself": b"]q\0" + b"h\0a" * 10**4 + b"q\0c__builtin__\nset\nh\0\x85R",
}
_START = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]


def _legacy(path, body):
    path.write_bytes(b"".join([*_START, b"\x80\x02" + body + b".", pickle.dumps([], 2)]))


def _zip(path, body):
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, b"\x80\x02" + body + b"." if name.endswith("data.pkl") else content)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("write", [_legacy, _zip])
def test_a_small_pickle_cannot_take_all_memory(write, body, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", None)
    monkeypatch.setattr(torch_pickles, "MOST_MADE", 10**5)
    write(tmp_path / "x.pt", body)
    with pytest.raises(FileError, match="contains other things than tensors"):
        read_file(tmp_path / "x.pt")


def _states():
    module = torch.nn.TransformerEncoderLayer(6, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(2, 3, 6)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
    yield module.state_dict()
    yield {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    yield dict(module.named_parameters())
    yield module.to(torch.bfloat16).state_dict()
    noted = torch.nn.Parameter(torch.ones(3))
    noted.note = "text"
    yield {"noted": noted, "buffer": torch.nn.Buffer(torch.ones(3))}
    yield {"model": module.state_dict(), "done": {1, 2}, "size": torch.Size([3]), "dtype": torch.float16}


def test_dtypes_without_a_storage_of_their_own(tmp_path):
    dtypes = {name: getattr(torch, name) for name in ("uint16", "float8_e4m3fn") if hasattr(torch, name)}
    torch.save({name: torch.ones(3).to(dtype) for name, dtype in dtypes.items()}, tmp_path / "x.pt")
    assert read_file(tmp_path / "x.pt").keys() == dtypes.keys()


@pytest.mark.parametrize("is_zip", [True, False])
def test_what_torch_saves_of_a_training_is_read(is_zip, tmp_path):
    for state in _states():
        torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=is_zip)
        assert read_file(tmp_path / "x.pt").keys() == state.get("model", state).keys()


def test_what_people_save_beside_the_weights_is_no_obstacle(tmp_path):
    state = {"w": torch.ones(3)}
    beside = {"tokenizer": b"\x01\xff" * 50, "merges": {(b"a", b"b"): 1}, "root": 1 + 2j, "text": "a" * 300_000}
    torch.save({"model": state, **beside, "done": {1}}, tmp_path / "x.pt")
    assert read_file(tmp_path / "x.pt").keys() == state.keys()


def test_numbers_that_are_not_in_the_file_are_not_made_of_what_was_in_memory(tmp_path):
    _legacy(tmp_path / "x.pt", b"}X\1\0\0\0w" + TENSOR + b"s")
    with pytest.raises(FileError, match="it lacks the numbers of '0'"):
        read_file(tmp_path / "x.pt")


def test_an_archive_that_python_does_not_recognise_is_checked(tmp_path):
    """torch finds the first end of the directory, and Python the last, which may be cut off."""
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data/0", bytes(10**6))
    data = bytearray((tmp_path / "x.pt").read_bytes()) + b"PK\5\6" + bytes(8)
    data[-14:-12] = struct.pack("<H", 12)  # the length of the comment
    (tmp_path / "x.pt").write_bytes(data)
    assert not zipfile.is_zipfile(tmp_path / "x.pt")
    with pytest.raises(FileError, match="damaged"):
        read_file(tmp_path / "x.pt")


def test_an_old_format_is_not_looked_for(tmp_path):
    """Python takes a minute for long headers of tar archives."""
    with tarfile.open(tmp_path / "x.pt", "w") as archive:
        archive.addfile(tarfile.TarInfo("N.N.N.N.N."))
    with pytest.raises(FileError, match=r"is no checkpoint that torch\.save wrote"):
        read_file(tmp_path / "x.pt")


def test_the_reason_is_told(tmp_path):
    _zip(tmp_path / "x.pt", b"ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n")
    with pytest.raises(FileError, match=r"it needs 'torch\._utils _rebuild_device_tensor_from_cpu_tensor'"):
        read_file(tmp_path / "x.pt")
    (tmp_path / "y.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FileError, match=r"as \.bin: it is no checkpoint that torch\.save wrote\. The file"):
        read_file(tmp_path / "y.bin")


@pytest.mark.parametrize("hidden", ["another directory", "another size"])
def test_torch_sees_the_members_that_are_checked(hidden, tmp_path):
    """torch's reader found another directory than Python's, or another size, and made 8,000 MB of a member."""
    path = tmp_path / "x.pt"
    torch.save({"query/kernel": torch.ones(4)}, path)
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    large, small = 3 * 2**20, 40
    packed, local = zlib.compress(bytes(large), 9)[2:-4], b"PK\3\4" + bytes(2000)
    directories = [b"", b""]  # the one where torch looks for it, and the one before the end record, which Python reads
    before = hidden == "another directory" and sum(46 + len(name) for name in contents)  # Python adds it to each start
    for name, content in contents.items():
        of_zeros, start, extra = name.endswith("data/0"), len(local), b""
        data, sizes = (packed, (large, small)) if of_zeros else (content, [len(content)] * 2)
        if of_zeros and hidden == "another size":  # torch reads the first of these two, and Python the second one
            sizes, extra = [2**32 - 1] * 2, struct.pack("<HHQHHQ", 1, 8, 2**32 - 1, 1, 8, small)
        fixed = 8 * of_zeros, 0, 33, zlib.crc32(bytes(small) if of_zeros else content), len(data)
        local += struct.pack("<4s2H3H3I2H", b"PK\3\4", 45, 0, *fixed, sizes[0], len(name), 0) + name.encode() + data
        for place, size in enumerate(sizes):
            entry = struct.pack("<4s3H3H3I", b"PK\1\2", 45, 45, 0, *fixed, size)
            entry += struct.pack("<5H2I", len(name), len(extra), 0, 0, 0, 0, start - place * before)
            directories[place] += entry + name.encode() + extra
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, *[len(contents)] * 2, len(directories[1]), len(local), 0)
    path.write_bytes(local + b"".join(directories[hidden == "another size" :]) + end)
    with torch_pickles.opened(path) as file:
        assert len(torch._C.PyTorchFileReader(file).get_record("data/0")) == small
