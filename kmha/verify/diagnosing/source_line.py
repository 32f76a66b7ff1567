"""The line of the candidate's code that a diagnosis points to."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of the candidate's code.

    Attributes:
        path: File that contains the line.
        number: Number of the line, counted from 1.
        text: Text of the line, without indentation.
    """

    path: str
    number: int
    text: str
