"""The colours of a score, the same on paper and in the terminal: from white to a dark blue, ever darker."""

ANCHORS = ("#ffffff", "#e4f3da", "#b7e0cb", "#70c5ca", "#3296c1", "#2560a8", "#20317f", "#0d1547")
SHADES = "·░▒▓█"


def colour(fraction: float) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of a fraction of the scale.

    >>> colour(0), colour(1)
    ((255, 255, 255), (13, 21, 71))
    """
    place = min(max(fraction, 0.0), 1.0) * (len(ANCHORS) - 1)
    index = min(int(place), len(ANCHORS) - 2)
    lower, upper = (bytes.fromhex(anchor[1:]) for anchor in ANCHORS[index : index + 2])
    red, green, blue = (round(a + (b - a) * (place - index)) for a, b in zip(lower, upper, strict=True))
    return red, green, blue


def shade(fraction: float) -> str:
    """The character for a fraction of the scale.

    >>> "".join(shade(fraction / 4) for fraction in range(5))
    '·░▒▓█'
    """
    return SHADES[round(min(max(fraction, 0.0), 1.0) * (len(SHADES) - 1))]
