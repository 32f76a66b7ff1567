import contextlib
import io
import json
import struct
import time

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from kmha.sandbox import encoding
from kmha.sandbox.encoding import EncodingError, decode, encode


def _message(tree, rest=b""):
    head = json.dumps(tree).encode()
    return struct.pack("<Q", len(head)) + head + rest


DTYPES = ("<f8", ">f4", "|b1", "|u1", "<c16", "<M8", "|O", "f8,f8", "<U3", "<f9", 8, None)
SIZES = (0, 1, 2, 3, -1, 1 << 62, "2", None)
LEAVES = (None, True, "a", "", 3, 2.5, [], {}, "-7", "nan", "1e999", "9" * 5000, "\ud800", [[], []], float("nan"))


def _grow(choices, depth=6):
    """Return a tree that resembles those of `encode`. The bytes decide on each part."""
    kind, number = next(choices, 0), next(choices, 0)
    parts = [_grow(choices, depth - 1) for _ in range(number % 4)] if depth and kind > 100 else []
    if kind > 200:
        return {"list" if kind % 2 else "tuple": parts}
    if kind > 130:
        keys = [{"plain": "ab"[next(choices, 0) % 2]} if kind % 8 else _grow(choices, 0) for _ in parts]
        return {"dict": [list(pair) for pair in zip(keys, parts, strict=True)]}
    if kind > 100:
        return parts if kind % 2 else {LEAVES[2 + kind % 2]: parts, "array": number}
    if kind > 50:
        sizes = [SIZES[next(choices, 0) % len(SIZES)] for _ in range(number % 5)]
        return {"array": [DTYPES[kind % len(DTYPES)], sizes]}
    return {("plain", "number")[kind % 2]: LEAVES[number % len(LEAVES)]}


def _damaged(data, place, more):
    """Return a message with a tree, and some bytes of it replaced."""
    message = _message(_grow(iter(data)), data[:24])
    place %= 2 * len(message)
    return message if place >= len(message) else message[:place] + more + message[place + 1 :]


MESSAGES = st.builds(_damaged, st.binary(max_size=60), st.integers(0, 1 << 16), st.binary(max_size=2)) | st.binary()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "text with ✓",
        3,
        -7,
        2.5,
        10**30,
        float("inf"),
        (1, "a", None),
        [1, [2, (3.0,)]],
        {"a": 1, "b": {"": "c"}},
        {},
        (),
        [],
    ],
    ids=repr,
)
def test_plain_values_come_back(value):
    found = decode(encode(value))
    assert found == value
    assert type(found) is type(value)


def test_nan_comes_back():
    assert np.isnan(decode(encode(float("nan"))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool", "complex128", ">f4"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 5)])
def test_arrays_come_back(dtype, shape):
    array = np.arange(np.prod(shape), dtype="int64").reshape(shape).astype(dtype)
    found = decode(encode({"array": array, "more": (array,)}))
    for each in (found["array"], found["more"][0]):
        assert each.dtype == array.dtype
        assert each.shape == array.shape
        np.testing.assert_array_equal(each, array)


def test_arrays_that_are_not_contiguous():
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::2]
    np.testing.assert_array_equal(decode(encode(array)), array)


def test_an_array_that_comes_back_can_be_written_to():
    found = decode(encode(np.zeros(3)))
    found[1] = 5
    assert found.tolist() == [0, 5, 0]


def test_bfloat16_comes_as_float32():
    import ml_dtypes

    found = decode(encode(np.array([1.5, 2.5], ml_dtypes.bfloat16)))
    assert found.dtype == np.float32
    assert found.tolist() == [1.5, 2.5]


class _Raising:
    def __array__(self, *_, **__):
        raise RuntimeError("no array for you")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "cannot send a object: expected arrays, numbers or strings"),
        (lambda: 1, "cannot send a function"),
        (np.array(["a"]), "cannot send a ndarray"),
        (np.array([None]), "cannot send a ndarray"),
        ({"a": {1, 2}}, "cannot send a set"),
        ({1: "a"}, "cannot send a dict whose keys are not strings"),
        ([[]] * encoding.PARTS, "too many parts"),
        (_Raising(), "cannot send a _Raising: no array for you"),
    ],
)
def test_what_cannot_be_sent(value, message):
    with pytest.raises(EncodingError, match=message):
        encode(value)


def test_what_is_too_large(monkeypatch):
    monkeypatch.setattr(encoding, "LARGEST", 1000)
    with pytest.raises(EncodingError, match=r"too large: .* At most 1,000 are allowed"):
        encode(np.zeros(200))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"short",
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        _message([1, 2]),
        _message({"eval": "1 + 1"}),
        _message({"plain": None}, b"more"),
        _message({"number": "exit()"}),
        _message({"array": ["<f8", [3], "float64"]}, b"\0" * 23),
        _message({"array": ["<f8", [-1], "float64"]}),
        _message({"array": ["|O", [1], "object"]}, b"\0" * 8),
        _message({"array": ["<f8", [1 << 62, 1 << 62], "float64"]}),
        _message({"array": ["<f8", "no shape", "float64"]}),
        _message({"array": ["<f4", [3 * 10**8, 0]]}),  # listing its rows takes all memory
        _message({"dict": [[{"list": []}, {"plain": None}]]}),
        _message({"plain": None, "number": "1"}),
        _message({"set": []}),
        _message({"list": {"plain": 1}}),
        _message({"dict": [[{"number": "1"}, {"plain": None}]]}),
        _message({"array": [{"names": ["a"], "formats": ["f8"]}, [1]]}, b"\0" * 8),
        _message({"array": ["f8," * 10_000, [1]]}, b"\0" * 80_000),
        _message({"array": ["<M8", [1]]}, b"\0" * 8),
        _message({"array": ["<f8", [1] * 100]}, b"\0" * 8),
        _message({"number": "9" * 100_000}),
    ],
)
def test_malformed_message(message):
    with pytest.raises(EncodingError, match="malformed message"):
        decode(message)


def test_deeply_nested_message():
    head = b'{"list": [' * 100_000 + b"]}" * 100_000
    with pytest.raises(EncodingError, match="malformed message"):
        decode(struct.pack("<Q", len(head)) + head)


HOSTILE = {
    "keys with the same hash": [{"dict": [[{"number": str(n * (2**61 - 1))}, {"plain": 1}] for n in range(100_000)]}],
    "empty lists": [{"list": [{"list": []}] * 450_000}],
    "the most allowed": [{"list": [{"number": "1"}] * (encoding.PARTS // 2 - 10)}],
    "many arrays": [{"list": [{"array": ["<f8", [0]]}] * 60_000}],
    "long numbers": [{"list": [{"number": "9" * 4_000}] * 2_000}],
    "long texts": [{"plain": "," * (7 << 20)}],
    "long sizes": [{"array": ["<f8", [10**4_290] * 700]}],
}


@pytest.mark.parametrize("id", HOSTILE)
def test_no_message_takes_long(id):
    """Some took minutes."""
    message, begin = _message(*HOSTILE[id]), time.monotonic()
    with contextlib.suppress(EncodingError):
        decode(message)
    assert time.monotonic() - begin < 10


@pytest.mark.slow
@pytest.mark.timeout(3000)
@hypothesis.settings(max_examples=100_000, deadline=None, database=None)
@hypothesis.given(MESSAGES)
def test_any_message(message):
    _decode_any(message)


@hypothesis.settings(max_examples=300, deadline=None, database=None, derandomize=True)
@hypothesis.given(MESSAGES)
def test_some_messages(message):
    _decode_any(message)


def _decode_any(message):
    """A message is decoded into what can be encoded again, or refused."""
    try:
        found = decode(message)
    except EncodingError:
        return
    np.testing.assert_equal(decode(encode(found)), found)


def test_messages_with_their_length():
    sink = io.BytesIO()
    for message in (b"", b"hello", b"x" * 1000):
        encoding.write(sink, message)
    sink.seek(0)
    assert [encoding.read(sink) for _ in range(4)] == [b"", b"hello", b"x" * 1000, None]


def test_truncated_message_reads_as_none():
    assert encoding.read(io.BytesIO(struct.pack("<Q", 5) + b"hell")) is None
    assert encoding.read(io.BytesIO(b"\0\0")) is None
