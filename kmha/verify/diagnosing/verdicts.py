"""The parts of a diagnosis: its verdict, the evidence for it, and the line of code that it points to.

| verdict | meaning |
| --- | --- |
| `RIGHT` | the candidate's numbers are those of the reference |
| `KNOWN` | mistakes of the bank give the same wrong numbers |
| `UNKNOWN` | the numbers are others, and no mistakes of the bank give them: another design, or an unknown mistake |
| `RAISES` | the candidate raises an error in every call |
| `UNJUDGED` | the calls that ran do not suffice for a verdict |
"""

import dataclasses

RIGHT, KNOWN, UNKNOWN, RAISES, UNJUDGED = "right", "known", "unknown", "raises", "unjudged"
ENOUGH = 0.5  # share of calls that must run for a verdict that something is wrong


@dataclasses.dataclass(frozen=True)
class Finding:
    """A piece of evidence.

    Attributes:
        says: Evidence as a sentence of the report.
        ids: Ids of the mistakes that it names, or an empty tuple if it names none.
        conclusive: Whether it names the mistakes whatever the numbers are.
    """

    says: str
    ids: tuple[str, ...] = ()
    conclusive: bool = False


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
