"""Attention in windows of two dimensions, with a table of biases for their offsets."""

import math
import types

import keras
import numpy as np
import pytest

from kmha.verify import diagnose

torch = pytest.importorskip("torch")


class Window(torch.nn.Module):
    """Attention among the pixels of a window. The window mask has 0 and -100."""

    rows_by = 2  # what the width is multiplied with in the index
    divides = True

    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads, self.window_size = num_heads, window_size
        self.spare = types.SimpleNamespace(dtype="float32", shape=None)  # as layers that are not built have
        height, width = window_size
        self.to_qkv = torch.nn.Linear(dim, 3 * dim)
        self.out = torch.nn.Linear(dim, dim)
        self.rel_table = torch.nn.Parameter(torch.randn((2 * height - 1) * (2 * width - 1), num_heads))
        y, x = np.divmod(np.arange(height * width), width)
        down, right = y[:, None] - y + height - 1, x[:, None] - x + width - 1
        self.register_buffer("rel_pos_index", torch.tensor(down * (self.rows_by * width - 1) + right))

    def forward(self, x, mask=None):
        """Takes windows (W, N, C) and perhaps a mask (W, N, N) of 0 or -100."""
        count, places, size = x.shape
        q, k, v = self.to_qkv(x).view(count, places, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        logits = self.logits(q, k) + self.rel_table[self.rel_pos_index].permute(2, 0, 1)
        if mask is not None:
            logits = logits + mask[:, None]
        return self.out((logits.softmax(3) @ v).transpose(1, 2).reshape(count, places, size))

    def logits(self, q, k):
        return q @ k.mT / (math.sqrt(q.shape[-1]) if self.divides else 1)


class RowsTooNear(Window):
    rows_by = 1


class Unscaled(Window):
    divides = False


class Cosines(Window):
    def __init__(self, dim, window_size, num_heads):
        super().__init__(dim, window_size, num_heads)
        self.temperature = torch.nn.Parameter(torch.full((num_heads, 1, 1), 2.0))

    def logits(self, q, k):
        return (
            torch.nn.functional.normalize(q, dim=-1)
            @ torch.nn.functional.normalize(k, dim=-1).mT
            * self.temperature.exp()
        )


class OfASquare(keras.layers.Layer):
    """A square window, whose side is a number."""

    def __init__(self, dim, win_size, n_heads):
        super().__init__()
        self.dim, self.heads, self.win_size = dim, n_heads, (win_size, win_size)
        self.q, self.k, self.v, self.o = (keras.layers.Dense(dim) for _ in range(4))
        places = np.stack(np.indices(self.win_size)).reshape(2, -1)
        between = places[:, :, None] - places[:, None] + win_size - 1
        self.relative_index = between[0] * (2 * win_size - 1) + between[1]

    def build(self, shape):
        self.table = self.add_weight(name="table", shape=((2 * self.win_size[0] - 1) ** 2, self.heads))
        super().build(shape)

    def call(self, x):
        def split(array):
            return keras.ops.reshape(array, (-1, x.shape[1], self.heads, self.dim // self.heads))

        logits = keras.ops.einsum("bqhd,bkhd->bhqk", split(self.q(x)), split(self.k(x)))
        bias = keras.ops.transpose(keras.ops.take(self.table, self.relative_index, axis=0), (2, 0, 1))
        weights = keras.ops.softmax(logits / (self.dim // self.heads) ** 0.5 + bias)
        mixed = keras.ops.einsum("bhqk,bkhd->bqhd", weights, split(self.v(x)))
        return self.o(keras.ops.reshape(mixed, (-1, x.shape[1], self.dim)))


@pytest.mark.parametrize("kind", [Window, Cosines, OfASquare])
def test_right_windows_are_right(kind):
    assert diagnose(kind).verdict == "right"


def test_offsets_that_share_an_entry_are_named():
    found = diagnose(RowsTooNear)
    assert found.ids == ("relative-bias-shared",)
    assert "entries for 45 offsets" in str(found)


def test_a_mistake_of_attention_is_named():
    assert diagnose(Unscaled).ids == ("scale-missing",)
