"""Classes in NumPy whose call has a name of its own."""

import numpy as np


class PositionalEncoding:
    base = 10000

    def __init__(self, maxDimension, embeddingSize):
        angles = np.arange(maxDimension)[:, None] / self.base ** (np.arange(0, embeddingSize, 2) / embeddingSize)
        self.encoding = np.zeros((maxDimension, embeddingSize))
        self.encoding[:, 0::2], self.encoding[:, 1::2] = np.sin(angles), np.cos(angles)

    def forwardPropagation(self, inputData):
        return inputData + self.encoding[: inputData.shape[1]]


class PositionalEncodingOfOtherBase(PositionalEncoding):
    base = 100000
