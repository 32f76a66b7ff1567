"""A heap of texts in an HDF5 file, which HDF5 itself walks through without a check."""

import struct

import h5py
import numpy as np
import pytest

from kmha.interchange.errors import FileError
from kmha.interchange.files import read_file


def _written(path):
    with h5py.File(path, "w") as file:
        group = file.create_group("layers/dense/vars")
        group.attrs["name"] = "dense"
        group.create_dataset("0", data=np.ones((3, 5)))
    data = bytearray(path.read_bytes())
    return data, data.index(b"GCOL")


@pytest.mark.timeout(60)
def test_free_room_of_no_size_is_refused(tmp_path):
    """HDF5 looped forever, and Ctrl-C did nothing."""
    path = tmp_path / "x.weights.h5"
    data, heap = _written(path)
    assert read_file(path)["dense/kernel"].shape == (3, 5)
    (free,) = struct.unpack_from("<Q", data, heap + 48)  # after the heap's start, and the only text
    assert heap + 40 + free == heap + 4096
    struct.pack_into("<Q", data, heap + 48, free - 256)
    path.write_bytes(data)
    with pytest.raises(FileError, match="free room of no size"):
        read_file(path)


def test_unusual_sizes_are_refused(tmp_path):
    path = tmp_path / "x.weights.h5"
    create = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    create.set_sizes(4, 4)
    h5py.File(h5py.h5f.create(bytes(path), fcpl=create)).close()
    with pytest.raises(FileError, match="unusual sizes"):
        read_file(path)


def test_the_mark_of_a_heap_in_weights_is_no_heap(tmp_path):
    path = tmp_path / "x.weights.h5"
    numbers = np.frombuffer(b"GCOL\1\0\0\0" + bytes(range(56)), "float64")
    with h5py.File(path, "w") as file:
        file.create_dataset("layers/dense/vars/0", data=numbers)
    [read] = read_file(path).values()
    np.testing.assert_array_equal(read, numbers)
