import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical
from kmha.interchange.models import convert_model
from kmha.verify.tolerance import is_close

B, T, S, H, I, J, O, V = 2, 3, 5, 7, 6, 8, 4, 11
SCALE = 0.5
BUILTIN, OURS = keras.layers.MultiHeadAttention, kmha.MultiHeadAttention


def _random(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def _attention(**arguments):
    return BUILTIN(H, O, **{"bias_initializer": "random_normal", **arguments})


def _inputs(dtype=None):
    return keras.Input((T, I), dtype=dtype, name="target"), keras.Input((S, J), dtype=dtype, name="memory")


def _data(dtype="float32"):
    return [_random(B, T, I, dtype=dtype), _random(B, S, J, dtype=dtype)]


def _plain():
    query, value = _inputs()
    return keras.Model([query, value], _attention()(query, value)), _data()


def _all_settings():
    query, value = _inputs()
    arguments = {"value_dim": 9, "use_gate": True, "output_shape": 10, "sliding_window": 2, "use_bias": False}
    layer = _attention(**arguments, kernel_regularizer="l2", name="block2")
    return keras.Model([query, value], layer(query, value)), _data()


def _scores():
    query, value = _inputs()
    output, scores = _attention()(query, value, return_attention_scores=True, use_causal_mask=True)
    return keras.Model({"target": query, "memory": value}, {"output": output, "scores": scores}), dict(
        zip(("target", "memory"), _data(), strict=True)
    )


def _given_masks():
    query, value = _inputs()
    mask, padding = keras.Input((T, S), dtype="bool"), keras.Input((S,), dtype="bool")
    output = _attention()(query, value, attention_mask=mask, value_mask=padding)
    seen = np.random.default_rng(5).random((B, T, S)) < 0.6
    seen[:, :, 0] = True
    return keras.Model([query, value, mask, padding], output), [*_data(), seen, np.array([[1, 1, 1, 0, 0]] * B, bool)]


def _carried_masks():
    """The mask comes into the model, for the built-in takes off what is made inside."""
    ids, x = keras.Input((T,), dtype="int32"), keras.layers.Embedding(V, I, name="tokens")
    x = x(ids)
    hidden = keras.ops.not_equal(ids, 0)
    attended = _attention(name="self", dropout=0.2)(x, x, value_mask=hidden, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(x + attended)
    x = keras.layers.Lambda(lambda x: x * SCALE, output_shape=(T, I))(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(2)(x)), np.array([[1, 4, 0], [3, 0, 0]])


def _shared():
    query, value = _inputs()
    value = keras.layers.Dense(I)(value)
    layer = _attention(name="shared")
    x = layer(query, query)
    return keras.Model(_inputs_of(query, value), keras.ops.concatenate([layer(x, value), x * 2.0], axis=-1)), _data()


def _inputs_of(*tensors):
    return [keras.utils.get_source_inputs(tensor)[0] for tensor in tensors]


def _nested():
    query, value = _inputs()
    inner_query, inner_value = keras.Input((None, I)), keras.Input((None, J))
    inner = keras.Model(
        [inner_query, inner_value], _attention(name="inner_att")(inner_query, inner_value), name="inner"
    )
    x = inner([inner([query, value]), value])
    wide = keras.layers.Dense(J)(value)
    return keras.Model([query, value], [_attention(name="outer")(x, wide), inner([query, wide])]), _data()


def _sequential():
    x = keras.Input((T, I))
    inner = keras.Model(x, _attention()(x, x))
    return keras.Sequential([keras.layers.Dense(I), inner, keras.layers.Dropout(0.3, seed=4)], name="stack"), _random(
        B, T, 9
    )


def _higher_rank():
    x = keras.Input((T, S, I))
    return keras.Model(x, _attention(attention_axes=(2,))(x, x)), _random(B, T, S, I)


MODELS = {
    "plain": _plain,
    "all settings": _all_settings,
    "scores": _scores,
    "given masks": _given_masks,
    "carried masks": _carried_masks,
    "shared": _shared,
    "nested": _nested,
    "sequential": _sequential,
    "higher rank": _higher_rank,
}


def _equal(found, expected, dtype="float32"):
    found, expected = (keras.tree.flatten(value) for value in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one, other = (keras.ops.convert_to_numpy(x) for x in (one, other))
        assert one.dtype == other.dtype
        assert np.max(np.abs(one - other)) <= 1e-5
        assert is_close(one, other, dtype)


def _graphs(model):
    for layer in model.layers:
        yield layer
        if hasattr(layer, "layers"):
            yield from _graphs(layer)


@pytest.mark.tensorflow
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_there_and_back(make):
    keras.utils.set_random_seed(2)
    model, data = make()
    expected = model(data)
    before = [np.asarray(variable) for variable in model.variables]
    ours = convert_model(model)
    back = convert_model(ours, "keras")
    for made, kind, other in ((ours, OURS, BUILTIN), (back, BUILTIN, OURS)):
        kinds = [type(layer) for layer in _graphs(made)]
        assert kind in kinds
        assert other not in kinds
        assert type(made) is type(model)
        assert [layer.name for layer in _graphs(made)] == [layer.name for layer in _graphs(model)]
        assert made.count_params() == model.count_params()
        _equal(made(data), expected)
    for variable, array in zip(model.variables, before, strict=True):
        assert np.array_equal(np.asarray(variable), array)
    assert OURS not in [type(layer) for layer in _graphs(model)]
    for variable, returned in zip(model.weights, back.weights, strict=True):
        assert np.array_equal(np.asarray(variable), np.asarray(returned)), variable.path


@pytest.mark.tensorflow
@pytest.mark.parametrize("make", [_carried_masks, _sequential])
def test_dropout_draws_the_same(make):
    model, data = make()
    model(data, training=True)  # so that the seeds are no longer where they began
    ours = convert_model(model)
    expected = model(data, training=True)
    assert not np.allclose(expected, model(data, training=False))
    _equal(ours(data, training=True), expected)


@pytest.mark.tensorflow
@pytest.mark.parametrize("dtype", ["float64", "mixed_float16"])
def test_dtypes(dtype):
    given = "float64" if dtype == "float64" else "float32"
    query, value = _inputs(given)
    model = keras.Model([query, value], _attention(dtype=dtype)(query, value))
    ours = convert_model(model)
    layer = ours.layers[-1]
    assert layer.dtype_policy.name == dtype
    assert layer.query_dense.kernel.dtype == model.layers[-1].query_dense.kernel.dtype == given
    assert is_close(
        *(np.asarray(m(_data(given)), "float64") for m in (ours, model)), "float32" if given == "float64" else "float16"
    )


@pytest.mark.tensorflow
def test_a_shared_layer_stays_one():
    model, _ = _shared()
    ours = convert_model(model)
    assert [layer.name for layer in ours.layers].count("shared") == 1
    assert len(ours.get_layer("shared")._inbound_nodes) == 2


@pytest.mark.tensorflow
def test_a_layer_shared_with_an_inner_model_stays_one():
    query, value = _inputs()
    layer, value = _attention(name="shared"), keras.layers.Dense(I)(value)
    x = keras.Input((T, I))
    inner = keras.Model(x, layer(x, x))
    model = keras.Model(_inputs_of(query, value), layer(inner(query), value))
    ours = convert_model(model)
    found = [layer for layer in _graphs(ours) if layer.name == "shared"]
    assert len(found) == 2
    assert found[0] is found[1]
    _equal(ours(_data()), model(_data()))


@pytest.mark.tensorflow
def test_trainable_flags():
    model, _ = _nested()
    model.get_layer("inner").trainable = False
    model.get_layer("outer").key_dense.trainable = False
    model.get_layer("outer").query_dense.bias.trainable = False
    model.layers[-2].trainable = True
    for made in (convert_model(model), convert_model(convert_model(model), "keras")):
        flags = [
            [(v.path, tuple(v.shape) if len(v.shape) < 3 else 3) for v in m.trainable_variables] for m in (made, model)
        ]
        assert flags[0] == flags[1]
        assert not made.get_layer("outer").key_dense.trainable
        assert not made.get_layer("outer").query_dense.bias.trainable


@pytest.mark.tensorflow
def test_what_was_compiled_is_compiled_and_trains_alike():
    model, data = _carried_masks()

    def mine(true, predicted):
        return keras.ops.mean((true - predicted) ** 2)

    model.get_layer("tokens").trainable = False
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    metrics = ["mae", keras.metrics.MeanSquaredError()]
    model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), mine, metrics=metrics, run_eagerly=True)
    ours = convert_model(model)
    assert ours.run_eagerly
    assert ours.optimizer is not model.optimizer
    assert ours.optimizer.get_config() == model.optimizer.get_config()
    target = _random(B, 2)
    histories = [[m.train_on_batch(data, target) for _ in range(3)] for m in (model, ours)]
    assert np.allclose(*histories, atol=1e-5)
    _equal(ours(data), model(data))
    assert convert_model(_plain()[0]).compiled is False


@pytest.mark.tensorflow
@pytest.mark.parametrize("to", ["kmha", "keras"])
def test_what_was_converted_can_be_saved_and_loaded(to, tmp_path):
    model, data = _nested()
    made = convert_model(model)
    made = made if to == "kmha" else convert_model(made, "keras")
    made.save(tmp_path / "made.keras")
    _equal(keras.saving.load_model(tmp_path / "made.keras")(data), model(data))


@pytest.mark.tensorflow
def test_subclasses_stay_as_they_are():
    @keras.saving.register_keras_serializable("tests")
    class Mine(BUILTIN):
        pass

    query, value = _inputs()
    model = keras.Model([query, value], _attention()(Mine(H, O, name="mine")(query, value), value))
    ours = convert_model(model)
    assert [type(layer) for layer in ours.layers[2:]] == [Mine, OURS]
    _equal(ours(_data()), model(_data()))


def _embedded(dropout):
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(V, I, mask_zero=True, name="tokens")(ids)
    return keras.Model(ids, _attention(dropout=dropout)(x, x))


@pytest.mark.tensorflow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_mask_that_a_layer_makes_is_noted(dropout):
    """Without dropout the built-in gives averages where all is hidden; with it zeros, as ours does."""
    model = _embedded(dropout)
    with pytest.warns(UserWarning, match="tokens makes a mask"):
        ours = convert_model(model)
    data = np.array([[1, 4, 0], [3, 0, 0]])
    expected, found = (keras.ops.convert_to_numpy(m(data)) for m in (model, ours))
    assert is_close(found[data != 0], expected[data != 0], "float32")
    assert np.allclose(found[data == 0], expected[data == 0], atol=1e-5) == (dropout > 0)


@pytest.mark.tensorflow
def test_what_layers_have_learnt_without_training_is_carried_over():
    words, x = keras.Input((T,), dtype="string"), keras.Input((T, I))
    lookup, scaled = keras.layers.StringLookup(), keras.layers.Normalization()
    lookup.adapt([["a", "b", "c"]])
    scaled.adapt(_random(13, T, I) * 3 + 2)
    embedded = keras.layers.Embedding(V, I)(lookup(words))
    model = keras.Model([words, x], _attention()(embedded, scaled(x)))
    ours = convert_model(model)
    data = [_tensor([["a", "c", "?"], ["b", "a", "a"]]), _tensor(_random(B, T, I))]
    _equal(ours(data), model(data))


def _tensor(value):
    import tensorflow as tf

    return tf.constant(value)


@keras.saving.register_keras_serializable("tests")
class _Graph(keras.Model):
    """A subclass with inputs and outputs, like `keras.Model`."""


@keras.saving.register_keras_serializable("tests")
class _OwnConstructor(keras.Model):
    def __init__(self, heads=H):
        x = keras.Input((T, I))
        super().__init__(x, BUILTIN(heads, O)(x, x))

    def call(self, x):
        return 2 * super().call(x)


@pytest.mark.tensorflow
def test_a_class_of_graphs_stays():
    query, value = _inputs()
    model = _Graph([query, value], _attention()(query, value))
    ours = convert_model(model)
    assert type(ours) is _Graph
    _equal(ours(_data()), model(_data()))


class _Block(keras.layers.Layer):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.blocks = [{"att": _attention()}]

    def call(self, x):
        return self.blocks[0]["att"](x, x)


class _Closed(keras.layers.Layer):
    """A block whose code holds the built-in layer where nobody can replace it."""

    kept = (BUILTIN,)

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.blocks = [{"att": self.kept[0](H, O)}]

    def call(self, x):
        return self.blocks[0]["att"](x, x)


class _Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.att = _attention()

    def call(self, x):
        return self.att(x, x)


class _NoConfig(keras.layers.Layer):
    def __init__(self, size):
        super().__init__()

    def call(self, x):
        return x


def _of(layer, *args, **kwargs):
    query, value = _inputs()
    return keras.Model([query, value], layer(query, value, *args, **kwargs))


def _of_block():
    x = keras.Input((T, I))
    return keras.Model(x, _Block(name="block")(x))


def _of_closed_block():
    x = keras.Input((T, I))
    return keras.Model(x, _Closed(name="block")(x))


def _of_subclass():
    model = _Subclassed()
    model(_random(B, T, I))
    return model


def _of_time_distributed():
    x = keras.Input((T, I))
    inner = keras.Model(x, _attention(name="within", dropout=0.3, seed=5)(x, x))
    y = keras.Input((S, T, I))
    return keras.Model(y, keras.layers.TimeDistributed(inner, name="each")(y)), _random(B, S, T, I)


def _lora():
    model, _ = _plain()
    model.layers[-1].query_dense.enable_lora(2)
    return model


def _quantized():
    model, _ = _plain()
    model.layers[-1].query_dense.quantize("int8")
    return model


def _leaking():
    x = keras.Input((T, S, I))
    return keras.Model(x, _attention(attention_axes=(2,), name="far")(x, x, use_causal_mask=True))


def _no_config():
    query, value = _inputs()
    return keras.Model([query, value], _attention()(_NoConfig(3)(query), value))


def _no_attention():
    x = keras.Input((3,))
    return keras.Model(x, keras.layers.Dense(2)(x), name="network")


REFUSED = [
    (lambda: convert_model(_plain()[0], "torch"), r"`to` must be 'kmha' or 'keras'\. Received: 'torch'"),
    (lambda: convert_model(_attention()), "Expected a Keras model"),
    (lambda: convert_model(keras.Sequential([keras.layers.Dense(3)])), "has no weights yet"),
    (lambda: convert_model(_no_attention()), r"network has no keras\.layers\.MultiHeadAttention to convert\. .* Dense"),
    (lambda: convert_model(_plain()[0], "keras"), r"has no kmha\.MultiHeadAttention to convert"),
    (
        lambda: convert_model(_of_closed_block()),
        r"block: .* attribute, `_Closed\.blocks\[0\]\['att'\]`, .* Write kmha\.Multi",
    ),
    (lambda: convert_model(_of_subclass()), r"`_Subclassed\.att`, .* from_builtin.* Only Sequential and functional"),
    (
        lambda: convert_model(_OwnConstructor()),
        "Keras cannot rebuild the _OwnConstructor from its config",
    ),
    (lambda: convert_model(_lora()), "the layer has LoRA weights"),
    (lambda: convert_model(_quantized()), "the layer is quantized"),
    (lambda: convert_model(_leaking()), r"far: .* over the axes \(2,\), the built-in layer lays its causal mask"),
    (lambda: convert_model(_no_config()), "Keras cannot rebuild the _NoConfig from its config"),
    (lambda: convert_model(_of(_attention(), query_mask=np.ones((1, T), bool))), "ignores the `query_mask`"),
    (lambda: convert_model(_of(_attention(), None, np.ones((1, T), bool))), "name it: `attention_mask=`"),
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_is_refused_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.tensorflow
def test_blocks_in_place_of_flash_attention_are_not_in_the_built_in_layer():
    model = _of(OURS(H, O, flash_attention=True))
    with pytest.warns(UserWarning, match="the built-in layer has no flash_attention=True on TensorFlow"):
        back = convert_model(model, "keras")
    _equal(back(_data()), model(_data()))


@pytest.mark.tensorflow
def test_it_is_at_the_top():
    assert kmha.convert_model is convert_model
    ours = kmha.convert_model(_plain()[0])
    assert canonical.read(ours.layers[-1])["query/kernel"].shape == (H, I, O)


@keras.saving.register_keras_serializable("tests")
class _Backbone(keras.Model):
    """A functional model that its constructor makes, as the backbones of KerasHub."""

    def __init__(self, blocks, **arguments):
        ids, x = keras.Input((T,), dtype="int32"), keras.Input((T, I))
        table = keras.layers.Embedding(V, I, name="table")
        y = keras.layers.add([x, table(ids)])
        for number in range(blocks):
            y = _Block(name=f"block_{number}")(keras.layers.Dropout(0.2, seed=number)(y))
        output = BUILTIN(2, O, dropout=0.3, seed=5, name="last")(y, y)
        super().__init__([ids, x], output, **{"name": "backbone", **arguments})
        self.blocks = blocks

    def get_config(self):
        return {**keras.layers.Layer.get_config(self), "blocks": self.blocks}


def _of_backbone():
    return _Backbone(2), [np.arange(B * T).reshape(B, T), _random(B, T, I)]


def _of_blocks():
    return _of_block(), _random(B, T, I)


@pytest.mark.parametrize("make", [_of_blocks, _of_backbone, _of_time_distributed])
def test_what_makes_its_attention_itself_is_made_again(make):
    keras.utils.set_random_seed(2)
    model, data = make()
    model.layers[-1].trainable = False
    for variable in model.weights:
        variable.assign(_random(*variable.shape) / 4)
    for training in (False, True):
        model(data, training=training)  # so that the seeds are no longer where they began
    ours = convert_model(model)
    back = convert_model(ours, "keras")
    expected = [keras.ops.convert_to_numpy(model(data, training=training)) for training in (False, True)]
    for made, kind in ((ours, OURS), (back, BUILTIN)):
        assert {type(layer) for layer in made._flatten_layers()} & {OURS, BUILTIN} == {kind}
        assert type(made) is type(model)
        assert not made.layers[-1].trainable
        assert len(made.trainable_weights) == len(model.trainable_weights)
        for result, training in zip(expected, (False, True), strict=True):
            _equal(made(data, training=training), result)
    assert made.predict(data, verbose=0).shape == model.predict(data, verbose=0).shape  # JAX takes the arrays away
    assert BUILTIN is keras.layers.MultiHeadAttention


def test_backbones_of_keras_hub():
    keras_hub = pytest.importorskip("keras_hub")
    sizes = {"vocabulary_size": V, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
    model = keras_hub.models.BertBackbone(**sizes, max_sequence_length=T)
    for variable in model.weights:
        variable.assign(_random(*variable.shape) / 4)
    ids = np.arange(B * T).reshape(B, T)
    data = {"token_ids": ids, "segment_ids": ids % 2, "padding_mask": (ids < 5).astype("int32")}
    ours = convert_model(model)
    assert {type(layer) for layer in ours._flatten_layers()} & {OURS, BUILTIN} == {OURS}
    _equal(ours(data), model(data))
