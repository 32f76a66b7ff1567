"""Subclasses that call or override the private methods of the built-in layer."""

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

BUILTIN = keras.layers.MultiHeadAttention
WIDE = WIDEST[keras.backend.backend()]
B, T, S, H, I, J, O = 2, 3, 5, 7, 6, 8, 4

# What each private name of the built-in layer is in kmha's.
CALLED = "call and build call it, so an override acts"
READ = "the layer reads it, so a subclass may set it"
HELPFUL = "what subclasses read, with the built-in's value"
PRIVATE = {
    **dict.fromkeys(
        (
            "_build_attention",
            "_compute_attention",
            "_compute_attention_mask",
            "_compute_causal_mask",
            "_compute_sliding_window_mask",
            "_get_common_kwargs_for_sublayer",
            "_make_output_dense",
            "_masked_softmax",
        ),
        CALLED,
    ),
    **dict.fromkeys(
        (
            "_activity_regularizer",
            "_attention_axes",
            "_bias_constraint",
            "_bias_initializer",
            "_bias_regularizer",
            "_dropout",
            "_dropout_layer",
            "_flash_attention",
            "_gate_dense",
            "_inverse_sqrt_key_dim",
            "_kernel_constraint",
            "_kernel_initializer",
            "_kernel_regularizer",
            "_key_dense",
            "_key_dim",
            "_num_heads",
            "_output_dense",
            "_output_shape",
            "_query_dense",
            "_sliding_window",
            "_softmax",
            "_use_bias",
            "_use_gate",
            "_value_dense",
            "_value_dim",
        ),
        READ,
    ),
    # An override of `_build_attention` may set them. Otherwise kmha does not compute with einsums.
    **dict.fromkeys(("_combine_equation", "_dot_product_equation"), HELPFUL),
}


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(WIDE)


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _names(layer):
    return {name for name in dir(layer) if name.startswith("_") and not name.startswith("__")}


def _built(layer_class, rank=3, **arguments):
    layer = layer_class(H, O, use_gate=True, **arguments)
    lengths = [None] * (rank - 2)
    layer.build((None, *lengths, I), (None, *lengths, J))
    return layer


def test_every_private_name_of_the_built_in_is_there():
    plain = keras.layers.Layer()
    plain.build(())
    theirs = {name for name in _names(_built(BUILTIN)) - _names(plain) if not name.startswith(("_self_", "_abc_"))}
    assert theirs == set(PRIVATE)
    assert set(PRIVATE) <= _names(_built(kmha.MultiHeadAttention))


@pytest.mark.parametrize(
    ("rank", "axes"), [(3, None), (4, None), (4, 2), (4, (-2,)), (5, (1, 3)), (5, (3, 1)), (6, (2, 4))]
)
def test_equations_and_axes_are_the_built_ins(rank, axes):
    ours, theirs = (_built(c, rank, attention_axes=axes) for c in (kmha.MultiHeadAttention, BUILTIN))
    for name in ("_dot_product_equation", "_combine_equation", "_attention_axes", "_inverse_sqrt_key_dim"):
        assert getattr(ours, name) == getattr(theirs, name)
    scores = _x(*range(2, len(ours._combine_equation.partition(",")[0]) + 2))
    for mask in (None, scores > 0, (scores > 0)[:, 0] if rank == 3 else None):
        assert np.allclose(_array(ours._masked_softmax(scores, mask)), _array(theirs._masked_softmax(scores, mask)))
    assert ours.get_config()["attention_axes"] == theirs.get_config()["attention_axes"]


def test_arguments_of_sublayers_are_the_built_ins():
    arguments = {"kernel_initializer": "he_normal", "bias_regularizer": "l2", "bias_constraint": "non_neg"}
    ours, theirs = (
        c(H, O, dtype="mixed_bfloat16", **arguments)._get_common_kwargs_for_sublayer()
        for c in (kmha.MultiHeadAttention, BUILTIN)
    )
    assert {name: type(value) for name, value in ours.items()} == {name: type(value) for name, value in theirs.items()}
    assert ours["dtype"] == theirs["dtype"]


MASKS = [
    {"query_mask": _x(B, T) > 0},
    {"value_mask": _x(B, S) > 0, "key_mask": _x(B, S, seed=1) > -0.5},
    {"attention_mask": _x(T, S) > 0, "use_causal_mask": True},
    {"attention_mask": _x(B, H, T, S) > 0},
    {"attention_mask": (_x(B, T, S) > 0).astype("int32"), "query_mask": _x(B, T) > 0, "use_causal_mask": True},
    {},
]


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("masks", MASKS)
def test_masks_are_the_built_ins(masks, window):
    ours, theirs = (_built(c, sliding_window=window) for c in (kmha.MultiHeadAttention, BUILTIN))
    query, value, heads = _x(B, T, I), _x(B, S, J), (_x(B, T, H, O), _x(B, S, H, O))
    expected = theirs._compute_attention_mask(query, value, **masks)
    for inputs in ((query, value), heads):
        mask = ours._compute_attention_mask(*inputs, **masks)
        assert (mask is None) == (expected is None)
        if mask is not None:
            assert np.array_equal(_array(mask), _array(expected))
    assert np.array_equal(_array(ours._compute_causal_mask(query, value)), _array(theirs._compute_causal_mask(*heads)))
    assert np.array_equal(_array(ours._compute_causal_mask(query)), _array(theirs._compute_causal_mask(query)))
    if window:
        one, other = (layer._compute_sliding_window_mask(query, value) for layer in (ours, theirs))
        assert np.array_equal(_array(one), _array(other))


def _one_ahead(base):
    class OneAhead(base):
        def _compute_causal_mask(self, query, value=None):
            shape = ops.shape(query)[1], ops.shape(query if value is None else value)[1]
            return ops.expand_dims(ops.tril(ops.ones(shape, dtype="bool"), k=1), 0)

    return OneAhead


def _wide_window(base):
    class WideWindow(base):
        def _compute_sliding_window_mask(self, query, value=None):
            return ops.ones((1, ops.shape(query)[1], ops.shape(value)[1]), dtype="bool")

    return WideWindow


def _first_only(base):
    class FirstOnly(base):
        def _compute_attention_mask(self, query, value, **masks):
            mask = super()._compute_attention_mask(query, value, **masks)
            first = ops.reshape(ops.less(ops.arange(ops.shape(value)[1]), 2), (1, 1, -1))
            return first if mask is None else ops.logical_and(mask, first)

    return FirstOnly


def _sharp(base):
    class Sharp(base):
        def _masked_softmax(self, attention_scores, attention_mask=None):
            return super()._masked_softmax(3.0 * attention_scores, attention_mask)

    return Sharp


class _Sigmoid(keras.layers.Layer):
    supports_masking = True

    def call(self, scores, mask=None):
        scores = ops.sigmoid(scores)
        return scores if mask is None else ops.where(mask, scores, ops.zeros_like(scores))


def _other_parts(base):
    class OtherParts(base):
        def _build_attention(self, rank):
            super()._build_attention(rank)
            self._softmax = _Sigmoid(dtype=self.dtype_policy)

    return OtherParts


def _other_arguments(base):
    class OtherArguments(base):
        def _get_common_kwargs_for_sublayer(self):
            return {**super()._get_common_kwargs_for_sublayer(), "bias_initializer": keras.initializers.Constant(0.3)}

    return OtherArguments


def _own_output(base):
    class OwnOutput(base):
        def _make_output_dense(self, query_shape, common_kwargs, name=None):
            return keras.layers.EinsumDense(
                "abcd,cde->abe", (None, query_shape[-1]), "tanh", bias_axes="e", name=name, **common_kwargs
            )

    return OwnOutput


def _unscaled(base):
    class Unscaled(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._inverse_sqrt_key_dim = 1.0

    return Unscaled


def _own_call(base):
    class OwnCall(base):
        def call(self, query, value, key=None, attention_mask=None, return_attention_scores=False, **kwargs):
            heads = self._query_dense(query), self._key_dense(value), self._value_dense(value)
            mixed, scores = self._compute_attention(*heads, attention_mask, None, return_attention_scores)
            output = self._output_dense(mixed)
            return (output, scores) if return_attention_scores else output

    return OwnCall


def _built_ins_code(base):
    """The built-in's `_compute_attention` as it stands in Keras, which people copy and change."""

    class BuiltInsCode(base):
        def _compute_attention(
            self, query, key, value, attention_mask=None, training=None, return_attention_scores=False
        ):
            return BUILTIN._compute_attention(self, query, key, value, attention_mask, training, True)

    return BuiltInsCode


OVERRIDES = [
    _one_ahead,
    _wide_window,
    _first_only,
    _sharp,
    _other_parts,
    _other_arguments,
    _own_output,
    _unscaled,
    _own_call,
    _built_ins_code,
]


def _alike(make, **arguments):
    """Return subclasses of kmha's layer and of the built-in, with the same weights."""
    ours, theirs = (make(base)(H, O, dtype=WIDE, **arguments) for base in (kmha.MultiHeadAttention, BUILTIN))
    for layer in (ours, theirs):
        layer.build((None, T, I), (None, S, J))
    theirs.set_weights([ops.convert_to_numpy(weight) + 0.1 for weight in theirs.weights])
    pairs = zip(theirs.get_weights(), ours.weights, strict=True)
    ours.set_weights([value if value.shape == weight.shape else value.swapaxes(0, 1) for value, weight in pairs])
    return ours, theirs


@pytest.mark.parametrize("make", OVERRIDES)
def test_an_override_acts_as_in_the_built_in(make):
    ours, theirs = _alike(make, sliding_window=2)
    query, value = _x(B, T, I), _x(B, S, J)
    for options in ({}, {"use_causal_mask": True}, {"attention_mask": _x(B, T, S) > -1}):
        (one, scores), (other, expected) = (
            layer(query, value, return_attention_scores=True, **options) for layer in (ours, theirs)
        )
        assert is_close(_array(one), _array(other), WIDE)
        assert is_close(_array(scores), _array(expected), WIDE)
        assert is_close(_array(ours(query, value, **options)), _array(one), WIDE)  # also without the scores


@pytest.mark.parametrize("make", OVERRIDES)
def test_an_override_changes_the_numbers(make):
    """Otherwise the test above would prove nothing."""
    if make in (_own_call, _built_ins_code):
        return
    ours, _ = _alike(make, sliding_window=2)
    plain = kmha.MultiHeadAttention(H, O, sliding_window=2, dtype=WIDE)
    plain.build((None, T, I), (None, S, J))
    if make is not _other_arguments:
        plain.set_weights(ours.get_weights())
    query, value = _x(B, T, I), _x(B, S, J)
    one, other = (_array(layer(query, value, use_causal_mask=True)) for layer in (ours, plain))
    assert not np.allclose(one, other, atol=1e-3)


def test_dropout_acts_in_a_call_of_ones_own_that_does_not_pass_training_on():
    layer = _own_call(kmha.MultiHeadAttention)(H, O, dropout=0.5)
    model = keras.Sequential([_Self(layer)])
    x = _x(B, T, I)
    assert not np.allclose(_array(model(x, training=True)), _array(model(x, training=False)))
    assert np.array_equal(_array(model(x)), _array(model(x, training=False)))


class _Self(keras.layers.Layer):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def call(self, x):
        return self.attention(x, x)
