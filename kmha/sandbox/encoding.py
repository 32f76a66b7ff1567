"""Encode values that processes exchange, without pickle: JSON for the structure, then the bytes of the arrays.

>>> result = decode(encode({"scores": np.eye(2), "shape": (2, 3)}))
>>> result["scores"].tolist(), result["shape"]
([[1.0, 0.0], [0.0, 1.0]], (2, 3))
"""

import json
import math
import re
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

LARGEST = 64 << 20  # maximum size of a message, in bytes
LARGEST_REQUEST = 8 << 20  # the same for a request: while its supervisor copies it, nobody watches a worker
LONGEST_HEAD = 8 << 20  # maximum size of a message's JSON part, which takes many times as much memory when parsed
PARTS = 1 << 18  # maximum number of brackets and commas in the JSON part: of lists, dicts and what they contain
DEEPEST = 50  # maximum depth of lists, tuples and dicts inside each other
AXES = 64  # maximum number of axes of an array
KINDS = "biufc"  # kinds of dtypes that are sent: booleans, integers, floats, complex numbers
_DTYPE = re.compile(rf"[<>=|]?[{KINDS}][1-9][0-9]?")
LENGTH = struct.Struct("<Q")  # format of the length before each message, and before the JSON part in it


class EncodingError(ValueError):
    """A message was not written by `encode`, or a value cannot be encoded."""


def encode(value: Any) -> bytes:
    """Encode arrays, tensors, numbers, strings and `None`, and tuples, lists and dicts that contain them.

    The keys of a dict must be strings.

    Raises:
        EncodingError: The value contains something else, or is too large.
    """
    chunks: list[bytes] = []
    head = json.dumps(_to_tree(value, chunks)).encode()
    if len(head) > LONGEST_HEAD:
        raise EncodingError(
            f"the result is too large: {len(head):,} bytes beside its arrays. At most {LONGEST_HEAD:,} are allowed."
        )
    message = b"".join([LENGTH.pack(len(head)), head, *chunks])
    if count_parts(message) > PARTS:
        raise EncodingError(f"the result has too many parts: more than {PARTS >> 1:,}. Return arrays instead of lists.")
    if len(message) > LARGEST:
        raise EncodingError(f"the result is too large: {len(message):,} bytes. At most {LARGEST:,} are allowed.")
    return message


def decode(message: bytes, longest_head: int = LONGEST_HEAD) -> Any:
    """Return the value in a message. The message may come from untrusted code, so its size is checked first.

    Args:
        message: The message.
        longest_head: Maximum size of its JSON part, in bytes.

    Raises:
        EncodingError: `encode` did not write the message.
    """
    try:
        (length,) = LENGTH.unpack_from(message)
        if length > longest_head:
            raise EncodingError(f"malformed message: {length:,} bytes before the arrays.")
        if count_parts(message) > PARTS:
            raise EncodingError(f"malformed message: more than {PARTS:,} parts.")
        tree = json.loads(message[LENGTH.size : LENGTH.size + length])
        arrays = memoryview(message)[LENGTH.size + length :]
        value, used = _read_tree(tree, arrays, 0, DEEPEST)
        if used != len(arrays):
            raise EncodingError(f"malformed message: {len(arrays) - used} bytes too many.")
        return value
    except EncodingError:
        raise
    except Exception as error:  # a malformed message can cause any error
        raise EncodingError(f"malformed message: {type(error).__name__}: {error}") from None


def count_parts(message: bytes) -> int:
    """Return the number of brackets and commas in the JSON of a message: reading it takes time in proportion."""
    end = LENGTH.size + LENGTH.unpack_from(message)[0]
    return sum(message.count(mark, LENGTH.size, end) for mark in (b",", b"[", b"{"))


def write(sink: BinaryIO, message: bytes) -> None:
    """Write a message, preceded by its length."""
    sink.write(LENGTH.pack(len(message)) + message)
    sink.flush()


def read(source: BinaryIO) -> bytes | None:
    """Read a message that `write` wrote, or return `None` at the end of the stream."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = source.read(length)
    return message if len(message) == length else None


def _to_tree(value: Any, chunks: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | str):
        return {"plain": value}
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return {"number": repr(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise EncodingError("cannot send a dict whose keys are not strings.")
        return {"dict": [[_to_tree(key, chunks), _to_tree(item, chunks)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_to_tree(item, chunks) for item in value]}
    return _array_to_tree(value, chunks)


def _array_to_tree(value: Any, chunks: list[bytes]) -> Any:
    try:
        array = np.asarray(value)
    except Exception as error:  # an untrusted object can raise anything
        raise EncodingError(f"cannot send a {type(value).__name__}: {error}") from None
    if array.dtype.kind == "V" and array.dtype.names is None:  # bfloat16 and other dtypes of ml_dtypes
        array = array.astype(np.float32)
    if array.dtype.kind not in KINDS:
        raise EncodingError(f"cannot send a {type(value).__name__}: expected arrays, numbers or strings.")
    chunks.append(np.ascontiguousarray(array).tobytes())
    return {"array": [array.dtype.str, list(array.shape)]}


def _read_tree(tree: Any, arrays: memoryview, position: int, depth: int) -> tuple[Any, int]:
    ((kind, content),) = tree.items()
    if kind == "plain":
        return (content if content is None or isinstance(content, bool | str) else str(content)), position
    if kind == "number":
        return (int(content) if content.lstrip("-").isdigit() else float(content)), position
    if kind == "array":
        return _read_array(content, arrays, position)
    if not depth or not isinstance(content, list) or kind not in ("dict", "list", "tuple"):
        raise EncodingError(f"malformed message: {kind!r:.20}, or more than {DEEPEST} levels.")
    if kind == "dict":
        found: dict[str, Any] = {}
        for key, item in content:
            # Only the hashes of strings are secret. Numbers can be chosen so that all their hashes are the same.
            name, position = _read_tree(key, arrays, position, 0)
            if not isinstance(name, str):
                raise EncodingError("malformed message: a key that is not a string.")
            found[name], position = _read_tree(item, arrays, position, depth - 1)
        return found, position
    items = []
    for item in content:
        read, position = _read_tree(item, arrays, position, depth - 1)
        items.append(read)
    return (tuple(items) if kind == "tuple" else items), position


def _read_array(content: Any, arrays: memoryview, position: int) -> tuple[np.ndarray, int]:
    if len(content[1]) > AXES or any(len(str(size)) > 20 for size in content[1]):  # their product takes minutes
        raise EncodingError("malformed message: an array with too many axes, or a longer axis than exists.")
    name, shape = content[0], [int(size) for size in content[1]]
    if not _DTYPE.fullmatch(name) or min(shape, default=0) < 0:
        raise EncodingError(f"malformed message: an array with dtype and shape {content!r:.100}.")
    dtype = np.dtype(name)
    if math.prod(max(size, 1) for size in shape) > LARGEST:  # an axis of 0 makes longer ones free
        raise EncodingError(f"malformed message: an array with dtype and shape {content!r:.100}.")
    size = math.prod(shape) * dtype.itemsize
    if position + size > len(arrays):
        raise EncodingError(f"malformed message: too few bytes for an array with dtype and shape {content!r:.100}.")
    array = np.frombuffer(arrays[position : position + size], dtype).reshape(shape)
    return array.copy(), position + size
