"""Results between processes, without pickle: JSON for the structure, and the arrays' bytes behind it.

>>> result = decode(encode({"scores": np.eye(2), "shape": (2, 3)}))
>>> result["scores"].tolist(), result["shape"]
([[1.0, 0.0], [0.0, 1.0]], (2, 3))
"""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

LARGEST = 64 << 20  # bytes of a message
LONGEST_HEAD = 8 << 20  # of which so many are no arrays: what is read from them takes many times their size
KINDS = "biufc"  # of dtypes that are sent: booleans, integers, floats, complex
LENGTH = struct.Struct("<Q")  # of what follows


class EncodingError(ValueError):
    """A message is not one of ours, or a value cannot be sent."""


def encode(value: Any) -> bytes:
    """Arrays, tensors, numbers, strings, `None`, and tuples, lists and dicts of them.

    Raises:
        EncodingError: there is something else in it, or it is too large.
    """
    pieces: list[bytes] = []
    head = json.dumps(_tree(value, pieces)).encode()
    if len(head) > LONGEST_HEAD:
        raise EncodingError(f"a result of {len(head):,} characters is too large: {LONGEST_HEAD:,} at most.")
    message = b"".join([LENGTH.pack(len(head)), head, *pieces])
    if len(message) > LARGEST:
        raise EncodingError(f"a result of {len(message):,} bytes is too large: {LARGEST:,} at most.")
    return message


def decode(message: bytes) -> Any:
    """The value that was encoded; nothing in the message is trusted.

    Raises:
        EncodingError: the message is not one of ours.
    """
    try:
        (length,) = LENGTH.unpack_from(message)
        if length > LONGEST_HEAD:
            raise EncodingError(f"not a message of ours: {length:,} bytes before the arrays.")
        tree = json.loads(message[LENGTH.size : LENGTH.size + length])
        return _value(tree, memoryview(message)[LENGTH.size + length :])
    except EncodingError:
        raise
    except Exception as error:  # what is not a message of ours can be anything
        raise EncodingError(f"not a message of ours: {type(error).__name__}: {error}") from None


def write(sink: BinaryIO, message: bytes) -> None:
    """A message with its length."""
    sink.write(LENGTH.pack(len(message)) + message)
    sink.flush()


def read(source: BinaryIO) -> bytes | None:
    """A message, or `None` at the end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = source.read(length)
    return message if len(message) == length else None


def _tree(value: Any, pieces: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | str):
        return {"plain": value}
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return {"number": repr(value)}
    if isinstance(value, Mapping):
        return {"dict": [[_tree(key, pieces), _tree(item, pieces)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_tree(item, pieces) for item in value]}
    return _array(value, pieces)


def _array(value: Any, pieces: list[bytes]) -> Any:
    try:
        array = np.asarray(value)
    except Exception as error:  # a stranger's object may raise anything
        raise EncodingError(f"cannot send a {type(value).__name__}: {error}") from None
    if array.dtype.kind == "V" and array.dtype.names is None:  # bfloat16 and its like
        array = array.astype(np.float32)
    if array.dtype.kind not in KINDS:
        raise EncodingError(f"cannot send a {type(value).__name__}: expected arrays, numbers or text.")
    pieces.append(np.ascontiguousarray(array).tobytes())
    return {"array": [array.dtype.str, list(array.shape)]}


def _value(tree: Any, rest: memoryview) -> Any:
    value, used = _read(tree, rest, 0)
    if used != len(rest):
        raise EncodingError(f"not a message of ours: {len(rest) - used} bytes too many.")
    return value


def _read(tree: Any, rest: memoryview, at: int) -> tuple[Any, int]:
    ((kind, content),) = tree.items()
    if kind == "plain":
        return (content if content is None or isinstance(content, bool | str) else str(content)), at
    if kind == "number":
        return (int(content) if content.lstrip("-").isdigit() else float(content)), at
    if kind == "array":
        return _read_array(content, rest, at)
    if kind == "dict":
        found = {}
        for pair in content:
            key, at = _read(pair[0], rest, at)
            found[key], at = _read(pair[1], rest, at)
        return found, at
    items = []
    for item in content:
        read, at = _read(item, rest, at)
        items.append(read)
    return (tuple(items) if kind == "tuple" else items), at


def _read_array(content: Any, rest: memoryview, at: int) -> tuple[np.ndarray, int]:
    dtype, shape = np.dtype(content[0]), [int(size) for size in content[1]]
    if dtype.kind not in KINDS or min(shape, default=0) < 0:
        raise EncodingError(f"not a message of ours: an array of {content!r}")
    size = math.prod(shape) * dtype.itemsize
    if at + size > len(rest):
        raise EncodingError(f"not a message of ours: an array of {content!r} with too few bytes")
    array = np.frombuffer(rest[at : at + size], dtype).reshape(shape)
    return array.copy(), at + size
