"""Read the bytes that a sandbox sent."""

import struct

import numpy as np
import pytest

from kmha.sandbox import results
from kmha.sandbox.encoding import encode
from kmha.sandbox.results import read


def _message(value):
    data = value if isinstance(value, bytes) else encode(value)
    return struct.pack("<Q", len(data)) + data


def _read(*messages, count=2, stopped="", status=0):
    sent = np.frombuffer(b"".join(_message(each) for each in messages), np.uint8)
    return read({"sent": sent, "stopped": stopped, "status": status, "seconds": 1.5}, count, 3.0)


LOADED = {"error": None, "printed": "hello"}


def test_results_are_read_in_order():
    ran = _read(
        LOADED, {"result": np.arange(3), "printed": "x"}, {"error": {"kind": "E", "says": "s"}, "changed": ["a"]}
    )
    assert (ran.error, ran.printed) == (None, "hello")
    assert ran.results[0].value.tolist() == [0, 1, 2]
    assert ran.results[1].error == {"kind": "E", "says": "s", "text": "", "file": "", "operands": "", "line": None}
    assert ran.results[1].changed == ("a",)


@pytest.mark.parametrize(
    ("stopped", "status", "says"),
    [
        ("time", -9, "your code took longer than 3 seconds"),
        ("files", -9, "too many files, or files that are too large"),
        ("output", -9, "your code returned more than 64 MiB"),
        ("", -11, r"signal 11"),
        ("", 0, "your code ended the process before it returned a result"),
    ],
)
def test_reason_for_missing_results(stopped, status, says):
    for messages, count in (((), 0), ((LOADED, {"result": 1}), 1)):
        ran = _read(*messages, stopped=stopped, status=status)
        assert says in (ran.results[count].error if ran.results else ran.error)["says"]


def test_extra_results_are_ignored():
    assert [answer.value for answer in _read(LOADED, *[{"result": number} for number in range(5)]).results] == [0, 1]


@pytest.mark.parametrize("garbage", [b"garbage", b"\xff" * 40, b"\0" * 40, encode([1, 2]), encode("text")], ids=len)
def test_reading_stops_at_garbage(garbage):
    ran = _read(LOADED, {"result": 1}, garbage, {"result": 2})
    assert ran.results[0].value == 1
    assert ran.results[1].error is not None
    assert _read(garbage).error is not None


@pytest.mark.parametrize(
    "message",
    [
        {"error": 3},
        {"error": {"kind": [1], "says": {"a": 2}, "line": "x", "text": np.zeros(3), "file": None}},
        {"changed": 5, "printed": ["x"]},
        {"changed": [np.zeros(2), None, "n" * 10_000]},
        {"printed": "p" * 1_000_000, "error": {"says": "s" * 1_000_000}},
        {"printed": "\ud800"},
    ],
    ids=str,
)
def test_malformed_fields_are_sanitized(message):
    answer = _read(LOADED, message).results[0]
    assert isinstance(answer.printed.encode(), bytes)
    assert len(answer.printed) < 5_000
    assert all(isinstance(name, str) and len(name) <= 100 for name in answer.changed)
    if answer.error is not None:
        assert {type(value) for value in answer.error.values()} <= {str, type(None)}
        assert all(len(value or "") < 5_000 for value in answer.error.values())


def test_colors_are_left_out_of_errors_and_other_characters_are_written_out():
    found = results._error({"says": "\x1b[1mOnly\x1b[0m inputs\x1b[2J\r\n\u2028"})
    assert found["says"] == "Only inputs\\x1b[2J\n\\u2028"
