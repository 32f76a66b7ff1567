"""What the room raises."""


class LayoutError(ValueError):
    """Weights do not have the layout that they should have, or one cannot hold them; the message says why."""


def listed(names: object, most: int = 12) -> str:
    """Names for an error, sorted, the first of them if there are many.

    >>> listed(["b", "a"]), listed(["c", "b", "a"], most=2), listed([])
    ('`a`, `b`', '`a`, `b` and 1 more', 'none')
    """
    ordered = sorted(names)  # type: ignore[call-overload]
    shown = ", ".join(f"`{name}`" for name in ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown or "none"
