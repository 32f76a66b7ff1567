"""Classes whose calls take one position each, without an axis of positions."""

import math

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.caches.one_token import as_sequence

torch = pytest.importorskip("torch")


def turn_by_rope(vectors, place):
    size = vectors.shape[-1] // 2
    angles = place / 10_000 ** (np.arange(size) / size)
    left, right = np.split(vectors, 2, axis=-1)
    return np.hstack([left * np.cos(angles) - right * np.sin(angles), left * np.sin(angles) + right * np.cos(angles)])


class Listener:
    """Hears one vector after another, and answers each from all that it has heard."""

    divisor = True

    def __init__(self, width):
        made = np.random.default_rng(3)
        self.Q, self.K, self.V = (made.normal(size=(width, width)) for _ in range(3))
        self.heard = np.zeros((40, width))  # the keys
        self.told = np.zeros((40, width))
        self.count = 0

    def push(self, vector):
        self.heard[self.count] = vector @ self.K
        self.told[self.count] = vector @ self.V
        self.count += 1
        fit = self.heard[: self.count] @ (vector @ self.Q)
        if self.divisor:
            fit = fit / math.sqrt(len(vector))
        share = np.exp(fit - max(fit))
        return share / share.sum() @ self.told[: self.count]


class Unscaled(Listener):
    divisor = False


class Rotating:
    """Decodes with rotary positions. The caller counts the positions."""

    def __init__(self, d_model, num_heads, seed=1):
        made = np.random.default_rng(seed)
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (made.normal(size=(d_model, d_model)) for _ in range(4))
        self.past = []

    def place(self, t):
        return t

    def decode_step(self, h, t):
        q, k, v = (np.reshape(h @ w, (self.num_heads, -1)) for w in (self.w_q, self.w_k, self.w_v))
        self.past.append((turn_by_rope(k, self.place(t)), v))
        q = turn_by_rope(q, self.place(t))
        keys, values = (np.stack(each) for each in zip(*self.past, strict=True))
        logits = np.einsum("ho,sho->hs", q, keys) / np.sqrt(q.shape[1])
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares = shares / shares.sum(1, keepdims=True)
        return np.einsum("hs,sho->ho", shares, values).ravel() @ self.w_o


class AlwaysFirst(Rotating):
    def place(self, t):
        return 0


class WithOffset(Rotating):
    """The positions come in an argument that kmha does not know, which has a default."""

    def decode_step(self, h, begin=0):
        return super().decode_step(h, begin)


class SharedKeys(torch.nn.Module):
    """One key and value for all heads, which the caller keeps."""

    scale = True

    def __init__(self, dim, heads, head_dim):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.to_q = torch.nn.Linear(dim, heads * head_dim, bias=False)
        self.to_k = torch.nn.Linear(dim, head_dim, bias=False)
        self.to_v = torch.nn.Linear(dim, head_dim, bias=False)
        self.to_out = torch.nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, token, past_k=None, past_v=None):
        q = self.to_q(token).unflatten(1, (self.heads, self.head_dim))
        k, v = self.to_k(token)[:, None], self.to_v(token)[:, None]
        if past_k is not None:
            k, v = torch.cat((past_k, k), 1), torch.cat((past_v, v), 1)
        logits = q @ k.mT
        weights = (logits / self.head_dim**0.5 if self.scale else logits).softmax(-1)
        return self.to_out((weights @ v).flatten(1)), k, v


class SharedUnscaled(SharedKeys):
    scale = False


class WholeSequence:
    """Takes a sequence in its call, so that its `step` is something else."""

    def __init__(self, width):
        self.w = np.eye(width)

    def __call__(self, x):
        return x @ self.w

    def step(self, x):
        return x


@pytest.mark.parametrize("kind", [Listener, Rotating, SharedKeys])
def test_right_classes_are_right(kind):
    found = diagnose(kind)
    assert found.verdict == "right"
    assert "one position in each call" in str(found)


def test_a_right_object_is_right():
    assert diagnose(Listener(6)).verdict == "right"


@pytest.mark.parametrize("kind", [Unscaled, SharedUnscaled])
def test_mistakes_of_attention_are_named(kind):
    assert diagnose(kind).ids == ("scale-missing",)


def test_positions_that_are_always_the_first_are_named():
    found = diagnose(AlwaysFirst)
    assert found.ids == ("cache-position-restarts",)
    assert "turn nothing" in str(found)


def test_positions_that_kmha_never_passed_are_not_missed():
    assert not diagnose(WithOffset).accused


class AddsPositions(Rotating):
    """Adds a vector for each position, which kmha does not know."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.pos = np.random.default_rng(0).normal(size=(64, d_model))

    def decode_step(self, h, t):
        return super().decode_step(np.add(h, self.pos[t]), t)


def test_what_does_more_than_attend_is_not_judged():
    found = diagnose(AddsPositions)
    assert found.verdict == "unjudged"
    assert "diagnose its attention alone" in str(found)


def test_a_class_that_takes_a_sequence_is_not_taken_for_another():
    assert as_sequence(WholeSequence) is None


class OfSequences(SharedKeys):
    """Takes a sequence, although it also takes keys of before."""

    def forward(self, x, past_k=None, past_v=None):
        return self.to_out(self.to_q(x)), past_k, past_v


def test_a_layer_with_a_cache_that_takes_a_sequence_is_not_taken_for_another():
    assert as_sequence(OfSequences) is None
    assert as_sequence(SharedKeys) is not None


def test_a_stack_of_matrices_may_be_multiplied_from_the_left():
    class Stacked(Listener):
        def __init__(self, d):
            super().__init__(d)
            self.A = np.stack([self.Q.T, self.K.T, self.V.T])
            del self.Q, self.K, self.V

        def push(self, vector):
            self.Q, self.K, self.V = np.swapaxes(self.A, 1, 2)
            result = super().push(vector)
            del self.Q, self.K, self.V
            return result

    assert diagnose(Stacked).verdict == "right"
