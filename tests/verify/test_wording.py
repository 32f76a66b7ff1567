import pytest

from kmha.verify.wording import error_lines, error_text


class Mute(ValueError):
    def __str__(self):
        raise TypeError


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ValueError("first\n  second\n"), ["first", "second"]),
        (
            ValueError(
                "Exception encountered when calling X.call().\n\n\x1b[1mno\nway\x1b[0m\n\nArguments received by X"
            ),
            ["no", "way"],
        ),
        (ValueError("Exception encountered when waking up"), ["Exception encountered when waking up"]),
        (RecursionError(), []),
        (Mute(), []),
    ],
)
def test_error_texts(error, lines):
    assert error_lines(error) == lines
    assert error_text(error) == f"{type(error).__name__}: {' '.join(lines)}"
