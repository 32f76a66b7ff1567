import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from kmha.core import one_block  # noqa: E402
from kmha.core.dynamic_shapes import cut, maximum, minimum, sizes_of  # noqa: E402
from kmha.core.one_block import AttentionProblem, Block  # noqa: E402

B, T, S, H = 2, 11, 7, 3


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("block", [Block(0, 11, 0, 7), Block(3, 5, 0, 7), Block(10, 1, 2, 4)])
def test_a_block_drops_what_keras_drops_of_the_whole(dtype, block):
    seeds = keras.random.SeedGenerator(4)
    seed = tf.cast(seeds.state.value, "int32")
    full = keras.random.dropout(tf.ones((B, H, T, S), dtype), 0.4, seed=seeds)
    expected = tf.transpose(full, (1, 0, 2, 3)) != 0
    expected = expected[:, :, block.first : block.last, block.low : block.high]
    kept = AttentionProblem(H, B, T, S, 1.0, rate=0.4, seed=seed).keep_mask(block, tf.as_dtype(dtype))
    assert np.array_equal(kept, tf.reshape(expected, kept.shape))
    assert 0 < np.mean(kept) < 1


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 4, 100])
@pytest.mark.parametrize(("rows", "columns"), [(11, 7), (7, 11), (1, 11), (11, 1)])
def test_a_block_sees_all_that_is_allowed_and_knows_what_is_not(rows, columns, causal, window):
    t, s = np.arange(rows)[:, None], np.arange(columns)[None]
    allowed = np.ones((rows, columns), bool)
    if causal:
        allowed &= s <= t
    if window is not None:
        allowed &= abs(t - s) < window
    problem = AttentionProblem(H, B, rows, columns, 1.0, causal, window)
    seen = np.zeros_like(allowed)
    for block in problem.blocks(3):
        part = problem.allowed(block)
        inside = slice(block.first, block.last), slice(block.low, block.high)
        seen[inside] = True if part is None else part
        empty = not allowed[inside[0]].any(axis=1).all()
        assert problem.may_have_empty_rows(block) or not empty
    assert np.array_equal(seen, allowed)


def test_no_mask_is_made_where_all_is_allowed():
    problem = AttentionProblem(H, B, 12, 12, 1.0, causal=True)
    assert problem.allowed(Block(8, 4, 0, 9)) is None
    assert problem.allowed(Block(8, 4, 0, 10)) is not None


def test_sizes_may_be_numbers_or_tensors():
    assert minimum(2, 3) == 2
    assert maximum(2, 3) == 3
    assert int(minimum(tf.constant(2), 3)) == 2
    assert int(maximum(2, tf.constant(3))) == 3

    @tf.function(input_signature=[tf.TensorSpec((2, None)), tf.TensorSpec((), "int32")])
    def part(x, start):
        assert sizes_of(x)[0] == 2
        return cut(x, 1, start, 2)

    x = np.arange(10.0, dtype="float32").reshape(2, 5)
    assert np.array_equal(part(x, 1), x[:, 1:3])
    assert np.array_equal(cut(tf.constant(x), 1, 1, 2), x[:, 1:3])


def _attention(problem, dtype="bfloat16", seed=0):
    """The attention of one block of everything, of random query, key and value (G, T or S, O)."""
    rng = np.random.default_rng(seed)
    group = problem.heads * problem.batch
    shapes = (group, problem.length, 16), (group, problem.keys, 16), (group, problem.keys, 5)
    inputs = [tf.cast(rng.normal(size=shape) * 2, dtype) for shape in shapes]
    return problem.attention(Block(0, problem.length, 0, problem.keys), *inputs)


@pytest.mark.parametrize(
    "structure", [{}, {"causal": True}, {"window": 3}, {"mask": np.arange(T * S).reshape(T, S) % 3 < 2}]
)
def test_scores_of_bfloat16_are_rounded_once(structure, monkeypatch):
    """On some processors TensorFlow's kernel does so by itself, and on the others it gets float32."""
    expected = tf.bfloat16 if one_block.softmax_rounds_once() else tf.float32
    mask = structure.get("mask")
    structure = {**structure, **({} if mask is None else {"mask": tf.constant(mask[None, None])})}
    problem = AttentionProblem(H, B, T, S, 0.25, **structure)
    found = _attention(problem).scores()
    monkeypatch.setattr(one_block, "softmax_rounds_once", lambda: False)
    wide = _attention(problem).scores()
    assert wide.dtype == tf.float32
    assert found.dtype == expected
    assert np.array_equal(tf.cast(found, "bfloat16"), tf.cast(wide, "bfloat16"))


def test_other_types_and_biases_are_computed_in_float32():
    problem = AttentionProblem(H, B, T, S, 0.25)
    assert _attention(problem, "float16").scores().dtype == tf.float32
    block = Block(0, T, 0, S)
    heads = [tf.zeros((H * B, length, 4), "bfloat16") for length in (T, S, S)]
    assert problem.attention(block, *heads, tf.zeros((1, 1, T, S), "bfloat16")).scores().dtype == tf.float32


@pytest.mark.parametrize("structure", [{"causal": True}, {"window": 257}, {"causal": True, "window": 257}])
def test_the_edge_of_what_bfloat16_sees_is_exact(structure):
    """From 256 on, bfloat16 cannot tell a position from its neighbour."""
    length = 600
    t, s = np.arange(length)[:, None], np.arange(length)[None]
    problem = AttentionProblem(1, 1, length, length, 1.0, **structure)
    allowed = np.ones((length, length), bool)
    if problem.causal:
        allowed &= s <= t
    if problem.window is not None:
        allowed &= abs(t - s) < problem.window
    block = Block(0, length, 0, length)
    heads = tf.zeros((1, length, 4), "bfloat16")  # all scores of what is visible are the same
    assert np.array_equal(problem.attention(block, heads, heads, heads).scores()[0] > 0, allowed)
