"""Functions that turn queries and keys by rotary positions, as people write them."""

import numpy as np


def rotate_half(x):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """Tables (T, O), each angle twice, and heads before positions."""
    cos, sin = np.expand_dims(cos, unsqueeze_dim - 1), np.expand_dims(sin, unsqueeze_dim - 1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def apply_rotary_emb(xq, xk, freqs_cis):
    """Complex numbers (T, O/2), and positions before heads."""
    turns = freqs_cis[None, :, None]
    return tuple(_of_complex(_as_complex(x) * turns) for x in (xq, xk))


def _as_complex(x):
    return x[..., ::2] + 1j * x[..., 1::2]


def _of_complex(x):
    return np.stack([x.real, x.imag], axis=-1).reshape(*x.shape[:-1], -1)


def apply_rope(x, cos, sin):
    """Tables (T, O/2)."""
    assert cos.shape[-1] == x.shape[-1] // 2
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def rope_of_one_angle(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    cos, sin = cos[..., :1], sin[..., :1]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def rotary(x, freqs):
    """Angles (T, O/2), in pairs."""
    turned = np.empty_like(x)
    turned[..., ::2] = x[..., ::2] * np.cos(freqs) - x[..., 1::2] * np.sin(freqs)
    turned[..., 1::2] = x[..., ::2] * np.sin(freqs) + x[..., 1::2] * np.cos(freqs)
    return turned


def rope(x, base=10000.0):
    """Makes its angles."""
    size = x.shape[-1]
    angles = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(0, size, 2) / size)
    return apply_rope(x, np.cos(angles), np.sin(angles))


def apply_rot_of_sizes(q, k, seq_len, head_dim, base=10000.0):
    """Makes its angles from sizes that it is given."""
    angles = np.arange(seq_len)[:, None] * base ** (-np.arange(0, head_dim, 2) / head_dim)
    return tuple(apply_rope(x, np.cos(angles), np.sin(angles)) for x in (q, k))


def precompute_freqs_cis(dim, end, theta=10000.0):
    return np.exp(1j * np.outer(np.arange(end), theta ** (-np.arange(0, dim, 2) / dim)))


def compute_frequencies(seq_len, head_dim, theta=10000.0):
    turns = precompute_freqs_cis(head_dim, seq_len, theta)
    return turns.real, turns.imag


def angles_of_all_features(seq_len, head_dim, theta=10000.0):
    """Its exponents are half of the right ones."""
    turns = np.exp(1j * np.outer(np.arange(seq_len), theta ** (-np.arange(head_dim // 2) / head_dim)))
    return turns.real, turns.imag


def apply_rotary_to_queries_alone(q, k, cos, sin):
    """Turns the queries twice."""
    turned = q * cos + rotate_half(q) * sin
    return turned, turned


def rope_of_wrong_second_half(seq_len, head_dim):
    """Its sines of the second half have another sign."""
    angles = np.outer(np.arange(seq_len), 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim))
    return np.tile(np.cos(angles), 2), np.concatenate([np.sin(angles), -np.sin(angles)], -1)


def proper_rope_attention(x, mask=None):
    """Its name does not make it rotary positions."""
    logits = x @ np.swapaxes(x, -1, -2) / np.sqrt(x.shape[-1])
    logits = logits if mask is None else np.where(mask, logits, -1e9)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ x


def rope_backwards(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos + second * sin, second * cos - first * sin], axis=-1)


def rope_without_sign(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos + second * sin, first * sin + second * cos], axis=-1)


def rope_mixed(x, base=10000.0):
    size = x.shape[-1]
    angles = np.repeat(np.outer(np.arange(x.shape[-2]), base ** (-np.arange(0, size, 2) / size)), 2, axis=-1)
    return x * np.cos(angles) + rotate_half(x) * np.sin(angles)


def rope_of_sines(x, base=10000.0):
    size = x.shape[-1]
    angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(0, size, 2) / size))
    return apply_rope(x, np.sin(angles), np.sin(angles))


def precompute_freqs_of_wrong_exponent(dim, end, theta=10000.0):
    turns = np.exp(1j * np.outer(np.arange(end), theta ** (-np.arange(0, dim, 2) / dim * 2)))
    return turns.real, turns.imag


def rope_of_another_base(x, base=500000.0):
    return rope(x, base)


def rope_of_another_constant(x):
    return rope(x, 100000.0)


def rope_of_wrong_exponent(x, base=10000.0):
    """Its exponents give the angles of the base 100, which it does not state."""
    size = x.shape[-1]
    angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(size // 2) / size))
    return apply_rope(x, np.cos(angles), np.sin(angles))


def compute_rope_angles(seq_len, head_dim, theta=10000.0):
    return np.outer(np.arange(seq_len), theta ** (-np.arange(0, head_dim, 2) / head_dim))


def doubled_freqs(seq_len, head_dim, theta=10000.0):
    return np.tile(compute_rope_angles(seq_len, head_dim, theta), 2)


class RotaryTables:
    """Its base is an attribute."""

    def __init__(self, size, theta=1e6):
        self.size, self.theta = size, theta

    def __call__(self, x):
        return compute_frequencies(x.shape[1], self.size, self.theta)


def sinusoids(max_len, d_model):
    angles = compute_rope_angles(max_len, d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_len, d_model)


THETA = 1000.0


def rope_of_a_base_of_the_module(x):
    return rope(x, THETA)


def rope_of_vision(x, theta=100.0):
    return rope(x, theta)


def rope_without_sign_of_another_base(x, base=500000.0):
    angles = np.outer(np.arange(x.shape[-2]), base ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1]))
    return rope_without_sign(x, np.cos(angles), np.sin(angles))


def rope_at_positions(x, positions, base=10000.0):
    angles = positions[..., None] * base ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    return apply_rope(x, np.cos(angles), np.sin(angles))
