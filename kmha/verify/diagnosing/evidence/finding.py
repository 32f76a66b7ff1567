"""What a piece of evidence says, and which mistakes it names."""

import dataclasses


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
