"""Decoding step by step equals the full sequence at once."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import MultiHeadAttention, Transformer, cache
from kmha.verify import tolerance
from kmha.verify.comparing.running import WIDEST

pytestmark = pytest.mark.sampled(4)

N, D, H, F, V, W, T = 2, 12, 3, 7, 11, 13, 6
WIDE = WIDEST[keras.backend.backend()]
CLOSE = WIDE if keras.backend.backend() == "tensorflow" else "float32"  # as Keras normalizes there
SOURCE = np.array([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0], [10, 2, 0, 0, 0]], "int32")
TARGET = np.random.default_rng(0).integers(1, W, (3, T)).astype("int32")
KINDS = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "window": {"attention": {"sliding_window": 2}},
    "gate": {"attention": {"use_gate": True, "value_dim": 5}},
    "no biases, wide heads": {"attention": {"use_bias": False}, "key_dim": 7},
    "tied": {"tie_embeddings": "target"},
}


def _model(**options):
    model = Transformer(N, D, H, F, V, W, 20, 21, final_activation=None, dtype=WIDE, **options)
    model.build()
    for weight in model.weights:  # biases are not all zero
        weight.assign(weight + 0.1 * np.random.default_rng(len(weight.shape)).normal(size=weight.shape))
    return model


def _steps(model, state, target):
    """Logits (N, T, W)."""
    logits = []
    for position in range(target.shape[1]):
        one, state = model.step(target[:, position], state)
        logits.append(ops.convert_to_numpy(one))
    return np.stack(logits, 1), state


@pytest.mark.parametrize("length", [None, T + 2])
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_equals_all_at_once(kind, length):
    model = _model(**KINDS[kind])
    full = ops.convert_to_numpy(model(SOURCE, TARGET, return_attention_scores=False))
    stepped, state = _steps(model, model.start_cache(SOURCE, length=length), TARGET)
    assert tolerance.is_close(stepped, full, CLOSE)
    assert int(state["index"]) == T
    assert length is None or state["keys"][0].shape[2] == length


def test_a_batch_equals_its_sentences_one_by_one():
    model = _model()
    batch, _ = _steps(model, model.start_cache(SOURCE), TARGET)
    for row, length in enumerate((5, 3, 2)):
        one, _ = _steps(model, model.start_cache(SOURCE[row : row + 1, :length]), TARGET[row : row + 1])
        assert tolerance.is_close(one[0], batch[row], CLOSE)


def test_beams_share_the_source_and_can_be_exchanged():
    model = _model(attention={"sliding_window": 3})
    target = np.random.default_rng(1).integers(1, W, (6, T)).astype("int32")  # two beams for each of three sentences
    full = ops.convert_to_numpy(model(np.repeat(SOURCE, 2, 0), target, return_attention_scores=False))
    state = model.start_cache(SOURCE, beams=2)
    stepped, _ = _steps(model, state, target)
    assert tolerance.is_close(stepped, full, CLOSE)
    assert state["cross_keys"][0].shape[0] == 3
    _, state = _steps(model, state, target[:, :-1])
    rows = np.array([1, 0, 2, 2, 5, 4])
    logits, _ = model.step(target[rows, -1], cache.take(state, rows))
    assert tolerance.is_close(ops.convert_to_numpy(logits), full[rows, -1], CLOSE)


@pytest.mark.tensorflow
def test_a_step_projects_one_position():
    import tensorflow as tf

    model = _model()
    state = model.start_cache(SOURCE)
    for _ in range(3):
        _, state = model.step(TARGET[:, 0], state)
    step = tf.function(lambda ids, state: model.step(ids, state)[0], autograph=False)
    graph = step.get_concrete_function(tf.constant(TARGET[:, 0]), state).graph
    shapes = [op.outputs[0].shape for op in graph.get_operations() if op.type in ("MatMul", "BatchMatMulV2")]
    assert shapes
    rows = {int(np.prod(shape[:-1])) for shape in shapes}
    # Three sentences of one position each: H heads of projections, and H heads of scores.
    assert max(rows) <= 3 * H


def test_an_override_of_compute_attention_is_refused():
    class Own(MultiHeadAttention):
        def _compute_attention(self, query, key, value, attention_mask=None, training=None, **kwargs):
            return super()._compute_attention(query, key, value, attention_mask, training, **kwargs)

    model = Transformer(N, D, H, F, V, W, 20, 21, dtype=WIDE)
    model.decoder.dec_layers[1].mha1 = Own(H, D // H, dtype=WIDE)
    with pytest.raises(ValueError, match="overrides `_compute_attention`"):
        model.start_cache(SOURCE)
