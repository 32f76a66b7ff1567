import pytest

from kmha.verify.probing.report import Probes, Property

ROWS = (
    Property("finite", True),
    Property("causal: source", False, 0.25, "output[0, 2] changes with source[:, 6:]", expected=None),
    Property("batch_size", False, float("inf"), "output[0, 1] changes when item 0 is alone"),
    Property("rows", None, None, "it returns no scores"),
)


def test_table():
    assert str(Probes("Attention 'mha' on x (3, 7, 8) float32", "tensorflow", 2e-5, ROWS)).splitlines() == [
        "Attention 'mha' on x (3, 7, 8) float32; tensorflow; effects up to 2e-05 count as none",
        "property                                      holds      effect  where",
        "the output is finite                          yes",
        "the future does not change the past (source)  no           0.25  output[0, 2] changes with source[:, 6:]",
        "the other items of the batch change nothing   no !          inf  output[0, 1] changes when item 0 is alone",
        "rows of scores sum to one                     not tried          it returns no scores",
        "! should hold but does not: batch_size",
    ]


def test_passed():
    assert not Probes("", "", 0, ROWS).passed
    right = Probes("", "", 0, ROWS[:2])
    assert right.passed
    assert str(right).endswith("every property that should hold does")


def test_rows_by_name():
    found = Probes("", "", 0, ROWS)
    assert found["causal: source"].effect == 0.25
    message = r"no property 'causal'\. The properties are finite, causal: source, batch_size, rows"
    with pytest.raises(KeyError, match=message):
        found["causal"]


def test_to_dict():
    found = Probes("x", "jax", 0.5, ROWS).to_dict()
    assert found["passed"] is False
    assert found["properties"][1]["expected"] is None
    assert found["properties"][2]["effect"] is None
