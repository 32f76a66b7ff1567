"""Wrong calls and arguments: each error states the rule, what was received, and how to fix it."""

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import addons, masking

B, T, S, I, J = 2, 3, 5, 6, 8  # J is the width of value and key


def _x(*shape, dtype="float32"):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def _layer(**arguments):
    given = {"num_heads": 7, "key_dim": 4, **arguments}
    return kmha.MultiHeadAttention(**{name: value for name, value in given.items() if value is not ...})


def _call(*args, **kwargs):
    return lambda: _layer()(*args, **kwargs)


def _built(**arguments):
    layer = _layer(**arguments)
    layer.build((None, T, I), (None, S, J))
    return layer


QUERY, VALUE = _x(B, T, I), _x(B, S, J)
X = _x(B, T, I)
MASK = np.ones((B, T, T), bool)

# name: (what goes wrong, fragments of the message)
CONSTRUCTORS = {
    "num_heads zero": ({"num_heads": 0}, ["MultiHeadAttention", "`num_heads`", "positive integer (H)", "num_heads=0"]),
    "num_heads negative": ({"num_heads": -2}, ["`num_heads`", "Received: num_heads=-2"]),
    "num_heads float": ({"num_heads": 2.0}, ["`num_heads`", "num_heads=2.0"]),
    "num_heads string": ({"num_heads": "8"}, ["`num_heads`", "num_heads='8'"]),
    "num_heads boolean": ({"num_heads": True}, ["`num_heads`", "num_heads=True"]),
    "key_dim tuple": ({"key_dim": (4, 4)}, ["`key_dim`", "key_dim=(4, 4)", "width // num_heads"]),
    "key_dim zero": ({"key_dim": 0}, ["`key_dim`", "key_dim=0"]),
    "key_dim none": ({"key_dim": None}, ["`key_dim`", "key_dim=None"]),
    "value_dim zero": ({"value_dim": 0}, ["`value_dim`", "value_dim=0", "None means `key_dim`"]),
    "value_dim float": ({"value_dim": 1.5}, ["`value_dim`", "value_dim=1.5"]),
    "dropout NaN": ({"dropout": float("nan")}, ["`dropout`", "between 0 and 1", "dropout=nan"]),
    "dropout above one": ({"dropout": 10}, ["`dropout`", "dropout=10"]),
    "dropout negative": ({"dropout": -0.1}, ["`dropout`", "dropout=-0.1"]),
    "dropout string": ({"dropout": "0.1"}, ["`dropout`", "dropout='0.1'"]),
    "use_bias string": ({"use_bias": "no"}, ["`use_bias`", "True or False", "use_bias='no'"]),
    "use_gate number": ({"use_gate": 1}, ["`use_gate`", "use_gate=1"]),
    "output_shape float": ({"output_shape": 8.0}, ["Invalid `output_shape`", "output_shape=8.0"]),
    "output_shape zero": ({"output_shape": 0}, ["Invalid `output_shape`", "output_shape=0"]),
    "output_shape with None": ({"output_shape": (None, 8)}, ["Invalid `output_shape`", "(None, 8)"]),
    "attention_axes string": ({"attention_axes": "1"}, ["`attention_axes`", "attention_axes='1'"]),
    "attention_axes floats": ({"attention_axes": (1.0,)}, ["`attention_axes`", "attention_axes=(1.0,)"]),
    "sliding_window zero": ({"sliding_window": 0}, ["`sliding_window`", "sliding_window=0", "no limit"]),
    "sliding_window float": ({"sliding_window": 2.5}, ["`sliding_window`", "sliding_window=2.5"]),
    "flash_attention string": ({"flash_attention": "yes"}, ["`flash_attention`", "True, False or None"]),
    "seed float": ({"seed": 0.5}, ["`seed`", "seed=0.5"]),
    "misspelt argument": ({"nums_heads": 8}, ["nums_heads", "Did you mean `num_heads`?"]),
    "argument of another library": ({"embed_dim": 8}, ["embed_dim", "Did you mean `key_dim`?"]),
    "no key_dim": (
        {"key_dim": ...},
        ["MultiHeadAttention.__init__() missing 1 required positional argument: 'key_dim'"],
    ),
    "unknown argument": ({"qqq": 8}, ["qqq", "Known arguments: num_heads, key_dim"]),
}

CALLS = {
    "no value": (_call(X), ["value", "Self-attention is `layer(x, x)`"]),
    "a list, as in Addons": (_call([X, X, X]), ["kmha.layers.addons.MultiHeadAttention"]),
    "mask=": (_call(X, X, mask=MASK), ["mask", "Did you mean `attention_mask`?"]),
    "misspelt flag": (_call(X, X, causal_mask=True), ["causal_mask", "Did you mean `use_causal_mask`?"]),
    "torch's names": (
        _call(X, X, key_padding_mask=MASK),
        ["key_padding_mask", "In torch, True means ignore", "`key_mask=~key_padding_mask`"],
    ),
    "torch's other name": (_call(X, X, attn_mask=MASK), ["`attention_mask=~attn_mask`"]),
    "mask as 3rd positional": (
        _call(X, X, ops.convert_to_tensor(MASK)),
        ["`key` must be floating point", "Pass a mask as `attention_mask=`"],
    ),
    "mask as 2nd positional": (_call(X, np.ones((T, T), bool)), ["Pass a mask as `attention_mask=`"]),
    "mask as 4th positional, where the tensor carries one": (
        lambda: _layer()(*[_carrying()] * 3, ops.convert_to_tensor(MASK)),
        ["`query_mask` must be a padding mask (B, T) = (2, 3)", "`attention_mask=`"],
    ),
    "mask as 4th positional, symbolic": (
        lambda: _layer()(*[keras.Input((T, I))] * 3, keras.Input((T, T), dtype="bool")),
        ["`query_mask` must be a padding mask", "`attention_mask=`"],
    ),
    "query_mask that does not fit what is carried": (
        lambda: _layer()(_carrying(), VALUE, query_mask=np.ones((B, T + 1), bool)),
        ["`query_mask` must be a padding mask (B, T) = (2, 3)"],
    ),
    "a flag as a mask": (_call(X, X, attention_mask=True), ["attention_mask.shape=()"]),
    "a mask as a flag": (
        _call(X, X, use_causal_mask=MASK[0]),
        ["`use_causal_mask` must be True or False", "`attention_mask=`"],
    ),
    "mask as 4th positional": (
        _call(X, X, X, ops.convert_to_tensor(MASK)),
        ["`query_mask` must be a padding mask (B, T) = (2, 3)", "`attention_mask=`", "query_mask.shape=(2, 3, 3)"],
    ),
    "mask in query_mask's place": (
        _call(QUERY, VALUE, query_mask=np.ones((B, 1, T, S), bool)),
        ["`attention_mask=`", "(2, 1, 3, 5)"],
    ),
    "query_mask of the key's length": (
        _call(QUERY, VALUE, query_mask=np.ones((B, S), bool)),
        ["`query_mask`", "(B, T) = (2, 3)", "query_mask.shape=(2, 5)"],
    ),
    "value_mask of the query's length": (
        _call(QUERY, VALUE, value_mask=np.ones((B, T), bool)),
        ["`value_mask`", "(B, S) = (2, 5)"],
    ),
    "key_mask of another batch": (
        _call(QUERY, VALUE, VALUE, key_mask=np.ones((3, S), bool)),
        ["`key_mask`", "key_mask.shape=(3, 5)"],
    ),
    "attention_mask of another length": (
        _call(QUERY, VALUE, attention_mask=np.ones((T, T), bool)),
        ["`attention_mask` must broadcast", "attention_mask.shape=(3, 3)", "query.shape=(2, 3, 6)"],
    ),
    "attention_mask transposed": (
        _call(QUERY, VALUE, attention_mask=np.ones((B, S, T), bool)),
        ["`attention_mask`", "(B, T, S)", "(2, 5, 3)"],
    ),
    "attention_mask of rank 1": (
        _call(QUERY, VALUE, attention_mask=np.ones((S,), bool)),
        ["`attention_mask`", "attention_mask.shape=(5,)"],
    ),
    "attention_mask of rank 5": (
        _call(QUERY, VALUE, attention_mask=np.ones((1, B, 1, T, S), bool)),
        ["`attention_mask`", "(1, 2, 1, 3, 5)"],
    ),
    "attention_mask with too many heads": (
        lambda: _layer(num_heads=3)(QUERY, VALUE, attention_mask=np.ones((B, 4, T, S), bool)),
        ["`attention_mask`", "(2, 4, 3, 5)"],
    ),
    "padding mask as attention_mask": (
        _call(QUERY, VALUE, attention_mask=np.ones((B, S), bool)),
        ["A padding mask (B, S) goes in `value_mask`"],
    ),
    "additive mask": (
        _call(QUERY, VALUE, attention_mask=np.where(np.ones((T, S)), 0.0, -1e9) - 1e9),
        ["`attention_mask` must be boolean", "-1e+09", "True means attend", "attention_mask == 0"],
    ),
    "additive padding mask": (
        _call(QUERY, VALUE, value_mask=np.full((B, S), -1e9)),
        ["`value_mask` must be boolean", "float32"],
    ),
    "probabilities as a mask": (
        _call(QUERY, VALUE, value_mask=np.full((B, S), 0.5)),
        ["`value_mask` must be boolean", "0.5"],
    ),
    "key and value of different lengths": (
        _call(QUERY, VALUE, _x(B, T, J)),
        ["`value` and `key`, except the last one, must be equal", "(query, value, key)"],
    ),
    "query and key exchanged": (_call(VALUE, VALUE, QUERY), ["must be equal", "Did you swap query and key?"]),
    "no batch axis": (_call(_x(T, I), _x(S, J)), ["same number of axes, three or more", "x[None]"]),
    "different ranks": (_call(_x(B, T, I), _x(B, 1, S, J)), ["same number of axes", "value.shape=(2, 1, 5, 8)"]),
    "different batches": (_call(_x(B, T, I), _x(3, S, J)), ["same size in the batch (B)", "value.shape=(3, 5, 8)"]),
    "different between axes": (
        lambda: _layer(attention_axes=2)(_x(B, 3, T, I), _x(B, 4, S, J)),
        ["same size in axis 1, which is not an attention axis", "attention_axes=(2,)"],
    ),
    "token ids": (_call(np.ones((B, T, I), "int32"), VALUE), ["`query` must be floating point", "Embed token ids"]),
    "unknown width": (
        lambda: _layer()(keras.Input((T, None)), keras.Input((S, J))),
        ["the last axis of `query` (I, the features) must be known"],
    ),
    "another width than built": (
        lambda: _built()(_x(B, T, 10), VALUE),
        ["the query kernel was built for inputs with 6 features (I)", "query.shape=(2, 3, 10)"],
    ),
    "key and value exchanged": (
        lambda: _exchanged()(QUERY, _x(B, S, 9), VALUE),
        ["built for inputs with 8 features", "Key and value seem to be swapped"],
    ),
    "attention_axes of the batch": (
        lambda: _layer(attention_axes=0)(QUERY, VALUE),
        ["`attention_axes` must name different axes", "attention_axes=(0,)"],
    ),
    "attention_axes beyond the rank": (
        lambda: _layer(attention_axes=(1, 2))(QUERY, VALUE),
        ["`attention_axes`", "an input with 3 axes"],
    ),
    "symbolic mask that does not fit": (
        lambda: _layer()(keras.Input((T, I)), keras.Input((S, J)), attention_mask=keras.Input((S, T), dtype="bool")),
        ["`attention_mask` must broadcast"],
    ),
    "symbolic inputs of different ranks": (
        lambda: _layer()(keras.Input((T, I)), keras.Input((4, S, J))),
        ["same number of axes"],
    ),
    "set_weights before build": (lambda: _layer().set_weights([QUERY]), ["no weights before it is built"]),
    "query_dense before build": (
        lambda: _layer().query_dense,
        # torch's modules replace the message of an AttributeError
        ["query_dense" if keras.backend.backend() == "torch" else "no weights before it is built"],
    ),
    "weights in the built-in's layout": (
        lambda: _built().set_weights(
            [np.swapaxes(w, 0, 1) if i in (0, 2, 4) else w for i, w in enumerate(_built().get_weights())]
        ),
        ["(H, I, O) = (7, 6, 4)", "(I, H, O)", "kmha.interchange"],
    ),
    "unknown attribute": (lambda: kmha.MultiheadAttention, ["MultiheadAttention", "MultiHeadAttention"]),
    "addons: a tensor instead of a list": (
        lambda: addons.MultiHeadAttention(4, 7)(X),
        ["expected a list of two or three", "kmha.MultiHeadAttention"],
    ),
    "addons: four tensors": (lambda: addons.MultiHeadAttention(4, 7)([X] * 4), ["two or three"]),
    "addons: lengths of key and value": (
        lambda: addons.MultiHeadAttention(4, 7)([QUERY, VALUE, _x(B, T, J)]),
        ["must be equal"],
    ),
    "addons: mask": (
        lambda: addons.MultiHeadAttention(4, 7)([QUERY, VALUE], mask=np.ones((T, T), bool)),
        ["`mask` must broadcast to the scores"],
    ),
    "addons: no tensors": (lambda: addons.MultiHeadAttention(4, 7)([]), ["expected a list of two or three"]),
    "addons: attention_mask": (
        lambda: addons.MultiHeadAttention(4, 7)([QUERY, VALUE], attention_mask=MASK),
        ["attention_mask", "Known arguments: inputs, training, mask"],
    ),
    "addons: output_size": (lambda: addons.MultiHeadAttention(4, 7, 0), ["`output_size`", "output_size=0"]),
    "addons: misspelt": (lambda: addons.MultiHeadAttention(4, 7, outputsize=3), ["Did you mean `output_size`?"]),
}


def _carrying():
    x = ops.convert_to_tensor(X)
    masking.carry(x, ops.convert_to_tensor(np.ones((B, T), bool)))
    return x


def _exchanged():
    layer = _layer()
    layer.build((None, T, I), (None, S, J), (None, S, 9))
    return layer


def _message(call):
    with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructor_explains(name):
    arguments, fragments = CONSTRUCTORS[name]
    message = _message(lambda: _layer(**arguments))
    assert [fragment for fragment in fragments if fragment not in message] == [], message


@pytest.mark.parametrize("name", CALLS)
def test_call_explains(name):
    call, fragments = CALLS[name]
    message = _message(call)
    assert [fragment for fragment in fragments if fragment not in message] == [], message


def test_flash_attention_has_no_dropout_where_the_kernel_has_none():
    if keras.backend.backend() == "tensorflow":  # there it means blocks, which have
        assert _layer(flash_attention=True, dropout=0.1).dropout == 0.1
        return
    message = _message(lambda: _layer(flash_attention=True, dropout=0.1))
    assert "Dropout is not supported when flash attention is enabled." in message
    assert "dropout=0.1" in message


def test_flash_attention_has_no_scores():
    message = _message(lambda: _layer(flash_attention=True)(X, X, return_attention_scores=True))
    assert "Returning attention scores is not supported when flash attention is enabled." in message


@pytest.mark.tensorflow
def test_a_float_mask_is_warned_of_where_its_values_cannot_be_seen():
    import tensorflow as tf

    layer = _layer()
    layer(X, X)
    traced = tf.function(lambda x, mask: layer(x, x, attention_mask=mask))
    with pytest.warns(UserWarning, match=r"`attention_mask` has dtype float32: .* True means attend"):
        traced(tf.constant(X), tf.ones((T, T)))


@pytest.mark.tensorflow
def test_an_integer_mask_is_read_without_a_word():
    import tensorflow as tf

    layer = _layer()
    expected = layer(X, X, attention_mask=np.eye(T, dtype=bool))
    traced = tf.function(lambda x, mask: layer(x, x, attention_mask=mask))
    assert np.allclose(traced(tf.constant(X), tf.eye(T, dtype="int32")), expected, atol=1e-6)


def test_an_error_of_somebody_elses_stays_as_it_is():
    with pytest.raises(TypeError) as caught:
        _layer(kernel_initializer=lambda shape: 1)(X, X)
    assert "Known arguments" not in str(caught.value)


def test_weights_of_the_built_in_are_refused_with_a_remedy(tmp_path):
    inputs = keras.Input((T, I))
    models = [
        keras.Model(inputs, layer_class(7, 4, name="attention")(inputs, inputs))
        for layer_class in (keras.layers.MultiHeadAttention, kmha.MultiHeadAttention)
    ]
    models[0].save_weights(tmp_path / "model.weights.h5")
    message = _message(lambda: models[1].load_weights(tmp_path / "model.weights.h5"))
    assert "(H, I, O) = (7, 6, 4). Received: (6, 7, 4)" in message
    assert "`kmha.interchange`" in message


def test_there_are_enough_of_them():
    assert len(CONSTRUCTORS) + len(CALLS) >= 40
