"""Positional encodings, which represent positions by numbers to add to embeddings."""

from typing import Any

import numpy as np


def angles(positions: int, width: int) -> np.ndarray:
    """Return pos / 10000^(2i / d), the arguments of sine and cosine. Features 2i and 2i + 1 have the same argument.

    Args:
        positions: Number of positions.
        width: Number of features (d).

    Returns:
        Array (positions, width), float64.

    >>> angles(3, 4)[2]
    array([2.  , 2.  , 0.02, 0.02])
    """
    return angles_at(np.arange(positions)[:, None], np.arange(width), width)


def angles_at(position: Any, feature: Any, width: int) -> np.ndarray:
    """Return the `angles` of positions and features, whose arrays broadcast, for `width` features in all."""
    return np.asarray(position) / np.power(10000.0, 2 * (np.asarray(feature) // 2) / width)


def sinusoidal(positions: int, width: int) -> np.ndarray:
    """Return the encoding of Vaswani et al. 2017, section 3.5: sines at even features, cosines at odd ones.

    Args:
        positions: Number of positions.
        width: Number of features (d), which may be odd.

    Returns:
        Array (positions, width), float64.

    >>> sinusoidal(2, 4).round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.841, 0.54 , 0.01 , 1.   ]])
    """
    encoding = angles(positions, width)
    encoding[:, 0::2] = np.sin(encoding[:, 0::2])
    encoding[:, 1::2] = np.cos(encoding[:, 1::2])
    return encoding
