"""Positional encodings, which represent positions by numbers to add to embeddings."""

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
    pair = np.arange(width) // 2
    return np.arange(positions)[:, None] / np.power(10000.0, 2 * pair / width)


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
