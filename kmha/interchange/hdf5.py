"""Read arrays from an HDF5 file that nobody vouches for: no links, no more objects than a model has, no bombs."""

import contextlib
import math
import mmap
import re
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kmha.interchange import errors
from kmha.interchange.errors import LONGEST_NAME, MOST_ARRAYS, FileError, check_parts, optional

_CHUNKED = 1000  # the factor by which HDF5 compresses zeros; Keras itself compresses nothing
_LONGEST_PATH = 3 * LONGEST_NAME  # a file of Keras 2 has each name twice in a path
_MOST_CHUNKS = 10**6  # maximum number of chunks of all arrays; HDF5 takes 100 bytes for each when it reads
_HEAP = struct.Struct("<4sB3xQ")  # the start of a heap of texts: its mark, version and size
_IN_HEAP = struct.Struct("<HHIQ")  # the start of what is in it: index (0 for free room), references, nothing, and size
_DEPTH = 64  # maximum depth of nested groups
_MOST_OBJECTS = 10 * MOST_ARRAYS  # maximum number of arrays and groups; each layer has two groups


def h5py() -> Any:
    """Return the library, or raise an error that says how to install it."""
    return optional("h5py", "convert")


def check_heaps(source: Path | bytes) -> None:
    """Raise a FileError if HDF5 would walk through a heap of texts in a file, or in its bytes, forever."""
    with contextlib.ExitStack() as stack:
        data: Any = source
        if isinstance(source, Path):
            file = stack.enter_context(open(source, "rb"))
            if not source.stat().st_size:
                return  # which cannot be mapped
            data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        place = data.find(b"GCOL\1")
        while 0 <= place <= len(data) - _HEAP.size:
            end, inside = min(place + _HEAP.unpack_from(data, place)[2], len(data)), place + _HEAP.size
            while inside <= end - _IN_HEAP.size:
                index, _, _, size = _IN_HEAP.unpack_from(data, inside)
                step = _IN_HEAP.size + -(-size // 8) * 8 if index else size
                if step < _IN_HEAP.size:
                    raise FileError("it has a heap of texts with free room of no size. It is damaged. Save it again.")
                inside += step
            place = data.find(b"GCOL\1", place + 1)


def check_file(file: Any) -> None:
    """Raise a FileError if an open file counts in other sizes than of 8 bytes, as `check_heaps` expects."""
    if file.id.get_create_plist().get_sizes() != (8, 8):
        raise FileError("it counts in unusual sizes, as no HDF5 file of Keras does. Save it again.")


def datasets(file: Any, skipped: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the path of each dataset in an HDF5 file, and the dataset, without the groups at the top in `skipped`.

    Raises:
        FileError: The file has links, circles, a path longer than `_LONGEST_PATH`, or far more groups than a model has.
    """
    yield from _datasets(file, "", {}, skipped)


def _datasets(
    group: Any, path: str, seen: dict[Any, str], skipped: Collection[str] = (), depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the datasets below a group.

    `seen` has the first path of each object. In HDF5, an object can have any number of names, so a small file could
    name a large array a thousand times.
    """
    library = h5py()
    if depth > _DEPTH:
        raise FileError(f"`{path[:80]}` is nested deeper than {_DEPTH} groups. No model is.")
    if len(seen) + len(group) > _MOST_OBJECTS:
        raise FileError(f"it has more than {_MOST_OBJECTS:,} groups and arrays. Save a part of the model.")
    for name in sorted(group, key=_natural):
        here = f"{path}/{name}".lstrip("/")
        if len(here) > _LONGEST_PATH:
            raise FileError(
                f"`{here[:80]}`… is a path of {len(here):,} characters. kmha reads at most {_LONGEST_PATH:,}."
            )
        if not isinstance(group.get(name, getlink=True), library.HardLink):
            raise FileError(f"`{here}` is a link. kmha does not follow links.")
        if name in skipped:
            continue
        found = group[name]
        stored = library.h5o.get_info(found.id)
        if (first := seen.setdefault((stored.fileno, stored.addr), here)) != here:
            raise FileError(f"`{here}` and `{first}` are the same. Keras writes each group and variable once.")
        if isinstance(found, library.Group):
            yield from _datasets(found, here, seen, (), depth + 1)
        else:
            yield here, found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts `dense_2` before `dense_10`."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def check_sizes(datasets: Mapping[str, Any]) -> None:
    """Raise a FileError if datasets take far less space in the file than in memory."""
    chunks = (
        math.prod(-(-length // part) for length, part in zip(item.shape, item.chunks, strict=True))
        for item in datasets.values()
        if item.chunks
    )
    if sum(chunks) > _MOST_CHUNKS:
        raise FileError(f"its arrays have more than {_MOST_CHUNKS:,} chunks. Save them with larger ones.")
    declared = {  # HDF5 reads whole chunks, which can be larger than their array
        where: max(math.prod(item.shape), math.prod(item.chunks or ())) * item.dtype.itemsize
        for where, item in datasets.items()
    }
    if sum(declared.values()) > errors.LIMIT:
        stored = {where: dataset.id.get_storage_size() for where, dataset in datasets.items()}
        if sum(stored.values()) > next(iter(datasets.values())).file.id.get_filesize():
            raise FileError("several of its arrays are the same bytes of the file. It is damaged.")
        check_parts([(where, declared[where], stored[where]) for where in datasets], _CHUNKED)


def array_of(dataset: Any, path: str) -> np.ndarray:
    """Return the numbers of a dataset, or raise a FileError if they are elsewhere, no numbers, or too many."""
    if dataset.external or dataset.is_virtual:
        raise FileError(f"`{path}` keeps its numbers in another file, which kmha does not read.")
    if dataset.dtype.hasobject:
        raise FileError(f"`{path}` is an array of objects or texts. Expected arrays of real numbers.")
    _check_chunks(dataset, path)
    array = dataset[()]
    if text_of(dataset, "dtype") == "bfloat16":
        array = np.asarray(array).view(ml_dtypes.bfloat16)
    return np.asarray(array)


def _check_chunks(dataset: Any, path: str) -> None:
    """Raise a FileError if a compressed chunk is larger than it should be: HDF5 would decompress all of it."""
    h5z, properties = h5py().h5z, dataset.id.get_create_plist()
    filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    if not filters:
        return
    usual = [code for code in (h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE, h5z.FILTER_FLETCHER32) if code in filters]
    if filters != usual:  # another order would hide from us what HDF5 decompresses
        raise FileError(f"`{path}` is compressed in a way that kmha does not read. It reads gzip, as in h5py.")
    size = math.prod(dataset.chunks) * dataset.dtype.itemsize
    chunks: list[Any] = []
    dataset.id.chunk_iter(chunks.append)
    for chunk in chunks:
        stored = b"" if chunk.size > 2 * size + 64 else dataset.id.read_direct_chunk(chunk.chunk_offset)[1]
        if not stored or (h5z.FILTER_DEFLATE in filters and len(_inflated(stored, size)) > size):
            raise FileError(f"`{path}` has a chunk of more than {size:,} bytes, the size of its chunks. It is damaged.")


def _inflated(data: bytes, size: int) -> bytes:
    """Return what compressed data contain, up to one byte more than `size`."""
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        return b""  # HDF5 says what is wrong


def text_of(item: Any, name: str) -> str | None:
    """Return a text attribute, or None if a damaged file gives it another type, on which HDF5 would crash."""
    if name not in item.attrs:
        return None
    noted = item.attrs.get_id(name)
    is_text = h5py().check_string_dtype(noted.dtype) is not None and noted.shape == ()
    return str(item.attrs[name]) if is_text else None
