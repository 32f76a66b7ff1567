import copy
import dataclasses
import io
import pickle

import keras
import numpy as np
import pytest
from keras import layers, ops

import kmha
from kmha.show import capture, pictures
from kmha.translation import search
from kmha.translation.tokenizer import END, START

BACKEND = keras.backend.backend()
RANDOM = np.random.default_rng(3)
QUERY, VALUE = (RANDOM.normal(size=shape).astype("float32") for shape in ((2, 5, 6), (2, 7, 4)))
VALUE_MASK = np.arange(7) < np.array([[7], [3]])
SOURCE = np.array([[4, 5, 6, 7, 0], [4, 5, 0, 0, 0]])
TARGET = np.array([[1, 7, 8, 9, 3, 2, 5], [1, 8, 9, 0, 0, 0, 0]])


def _array(x):
    return np.array(ops.convert_to_numpy(x))


def _equal(actual, desired):
    np.testing.assert_array_equal(_array(actual), _array(desired))


def _close(actual, desired):
    np.testing.assert_allclose(_array(actual), _array(desired), atol=1e-6, rtol=1e-5)


def _model(**options):
    """A model with one layer of each kind, and with the scores of both as outputs of a second model."""
    query, value = keras.Input((None, 6)), keras.Input((None, 4))
    own = kmha.MultiHeadAttention(3, 4, name="own", **options)
    builtin = layers.MultiHeadAttention(2, 5, name="builtin", **options)
    x, own_scores = own(query, value, return_attention_scores=True)
    y, builtin_scores = builtin(x, x, return_attention_scores=True)
    plain = keras.Model([query, value], builtin(own(query, value), own(query, value)))
    return plain, keras.Model([query, value], {"own": own_scores, "builtin": builtin_scores, "output": y})


def _transformer(**options):
    sizes = {"max_positional_encoding_input": 20, "max_positional_encoding_target": 21}
    return kmha.layers.Transformer(2, 6, 3, 7, 11, 12, **sizes, **options)


KINDS = {
    "own": lambda: kmha.MultiHeadAttention(3, 4, flash_attention=False),
    "own, dropout": lambda: kmha.MultiHeadAttention(3, 4, dropout=0.4),
    "own, window": lambda: kmha.MultiHeadAttention(3, 4, sliding_window=2),
    "built-in": lambda: layers.MultiHeadAttention(3, 4),
    "built-in, dropout": lambda: layers.MultiHeadAttention(3, 4, dropout=0.4),
    "grouped": lambda: layers.GroupQueryAttention(4, 6, 2),
    "grouped, dropout": lambda: layers.GroupQueryAttention(4, 6, 2, dropout=0.4),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("options", [{}, {"use_causal_mask": True}, {"training": True}], ids=str)
def test_a_layer(make, options):
    layer, twin = make(), make()
    value = VALUE if "grouped" not in str(type(layer)).lower() else RANDOM.normal(size=(2, 7, 6)).astype("float32")
    layer.build(QUERY.shape, value.shape)
    twin.build(QUERY.shape, value.shape)
    twin.set_weights(layer.get_weights())
    inputs = {"query": QUERY, "value": value, "value_mask": VALUE_MASK, **options}
    before = layer(**inputs)
    with capture(layer) as captured:
        inside = layer(**inputs)
    after = layer(**inputs)
    if not options.get("training"):
        _equal(inside, before)
        _equal(inside, after)
    _, scores = twin(**inputs | {"training": False}, return_attention_scores=True)
    _close(captured[layer.name], scores)
    assert list(captured) == [layer.name]
    assert captured[layer.name].shape == scores.shape


def test_masked_rows_are_zero():
    layer = kmha.MultiHeadAttention(3, 4)
    mask = np.ones((2, 5, 7), bool)
    mask[1, 2] = False
    with capture(layer) as captured:
        layer(QUERY, VALUE, attention_mask=mask)
    _equal(captured[layer.name][1, :, 2], np.zeros((3, 7)))
    _close(captured[layer.name].sum(-1), np.where(mask.any(-1), 1.0, 0.0)[:, None].repeat(3, 1))


@pytest.mark.parametrize("kind", [layers.Attention, layers.AdditiveAttention])
@pytest.mark.parametrize("training", [False, True])
def test_layers_of_one_head(kind, training):
    layer = kind(dropout=0.5)
    query, value = QUERY, RANDOM.normal(size=(2, 7, 6)).astype("float32")
    mask = [None, ops.convert_to_tensor(VALUE_MASK)]
    with capture(layer) as captured:
        layer([query, value], mask=mask, training=training)
    _, scores = layer([query, value], mask=mask, return_attention_scores=True)
    _close(captured[layer.name], scores[:, None])


def test_flash_attention():
    layer = kmha.MultiHeadAttention(3, 4, flash_attention=True)
    twin = kmha.MultiHeadAttention(3, 4)
    try:
        expected = layer(QUERY, VALUE)
    except Exception as error:
        pytest.skip(f"no fused kernel here: {error}")
    twin.build(QUERY.shape, VALUE.shape)
    twin.set_weights(layer.get_weights())
    with capture(layer) as captured:
        _equal(layer(QUERY, VALUE), expected)
    _close(captured[layer.name], twin(QUERY, VALUE, return_attention_scores=True)[1])
    assert layer._flash_attention is True


def test_several_attention_axes():
    layer = layers.MultiHeadAttention(2, 3, attention_axes=(1, 2))
    x = RANDOM.normal(size=(2, 3, 4, 5)).astype("float32")
    with capture(layer) as captured:
        layer(x, x)
    _close(captured[layer.name], layer(x, x, return_attention_scores=True)[1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("traced_before", [False, True])
def test_predict_in_batches(traced_before):
    model, with_scores = _model()
    model.compile("sgd", "mse")
    inputs = [RANDOM.normal(size=(5, 5, 6)).astype("float32"), RANDOM.normal(size=(5, 7, 4)).astype("float32")]
    if traced_before:
        model.predict(inputs, batch_size=2, verbose=0)
    function = model.predict_function
    jit_compile = model._jit_compile
    with capture(model) as captured:
        inside = model.predict(inputs, batch_size=2, verbose=0)
    assert model.predict_function is function
    assert model._jit_compile is jit_compile
    expected = with_scores(inputs)
    assert set(captured) == {"own", "builtin"}
    assert [len(calls) for calls in captured.calls.values()] == [6, 3]  # the query and the value of the second layer
    own = captured.calls["own"]
    _close(np.concatenate(own[::2]), expected["own"])
    _close(np.concatenate(own[1::2]), expected["own"])
    _close(captured["builtin"], expected["builtin"])
    _close(inside, expected["output"])
    _close(model.predict(inputs, batch_size=2, verbose=0), inside)


def test_predict_gives_the_same_numbers_without_xla():
    model, _ = _model()
    model.compile("sgd", "mse", jit_compile=BACKEND == "jax")
    before = model.predict([QUERY, VALUE], verbose=0)
    with capture(model):
        inside = model.predict([QUERY, VALUE], verbose=0)
    (_equal if BACKEND != "jax" else _close)(inside, before)
    _equal(model.predict([QUERY, VALUE], verbose=0), before)


def test_evaluate_and_fit():
    model, with_scores = _model()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    target = np.zeros((2, 5, 6), "float32")
    expected = _array(with_scores([QUERY, VALUE])["builtin"])
    with capture(model, ["builtin"]) as captured:
        model.evaluate([QUERY, VALUE], target, verbose=0)
        model.fit([QUERY, VALUE], target, epochs=2, shuffle=False, verbose=0)
    assert list(captured) == ["builtin"]
    assert len(captured.calls["builtin"]) == 3
    _close(captured["builtin"], np.concatenate([expected] * 3))


@pytest.mark.parametrize("kind", [kmha.MultiHeadAttention, layers.MultiHeadAttention])
def test_training_draws_the_same_random_numbers(kind):
    def train(captures):
        keras.utils.set_random_seed(5)
        x = keras.Input((5, 6))
        model = keras.Model(x, layers.Dropout(0.3, seed=1)(kind(3, 4, dropout=0.4, seed=2)(x, x)))
        model.compile("sgd", "mse", jit_compile=False)
        with capture(model) if captures else io.BytesIO() as captured:
            model.fit(QUERY, QUERY, epochs=2, verbose=0, shuffle=False)
        states = [_array(state) for state in model.non_trainable_variables]
        return captured, [*model.get_weights(), *states, _array(keras.random.uniform((3,)))]

    captured, found = train(True)
    _, expected = train(False)
    for one, other in zip(found, expected, strict=True):
        _close(one, other)
    (scores,) = captured.values()
    _close(scores.sum(-1), np.ones(scores.shape[:-1]))  # before dropout


@pytest.mark.parametrize("padded", [False, True])
def test_transformer(padded):
    model = _transformer()
    source, target = (SOURCE, TARGET) if padded else (np.where(SOURCE, SOURCE, 3), np.where(TARGET, TARGET, 3))
    output, scores = model(source, target)
    _, encoder_scores = model.encode(source, return_attention_scores=True)
    expected = {**encoder_scores, **scores}
    with capture(model) as captured:
        inside = model(source, target, return_attention_scores=False)
    _close(inside, output)
    assert list(captured) == list(expected)
    for name in expected:
        _close(captured[name], expected[name])
    figure = pictures.layers(captured, list("abcdefg"), list("uvwxy"), item=0)
    assert [text.get_text() for text in figure.texts][:2] == [
        "encoder layer 1: self-attention",
        "encoder layer 2: self-attention",
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("length", [None, 9])
@pytest.mark.parametrize("attention", [{}, {"sliding_window": 2}], ids=str)
def test_decoding_step_by_step(length, attention):
    model = _transformer(tie_embeddings="target", attention=attention)
    _, expected = model(SOURCE, TARGET)
    outputs = {}
    for captures in (False, True):
        state = model.start_cache(SOURCE, length=length)
        with capture(model.decoder) if captures else io.BytesIO() as captured:
            logits = []
            for ids in TARGET.T[:3]:
                one, state = model.step(ops.convert_to_tensor(ids), state)
                logits.append(_array(one))
        outputs[captures] = logits
    _equal(outputs[True], outputs[False])
    assert list(captured) == list(expected)
    for name, scores in expected.items():
        scores = _array(scores)[:, :, :3]
        found = captured[name]
        if name.endswith("self_att"):
            assert found.shape == (2, 3, 3, length or 3)
            found, scores = found[..., :3], scores[..., :3]
        _close(found, scores)


def test_beams_are_sequences():
    model = _transformer()
    state = model.start_cache(SOURCE, beams=3)
    with capture(model, ["decoder_layer1_block2_decenc_att"]) as captured:
        model.step(ops.array([1, 7, 8, 1, 7, 8]), state)
    _, expected = model(SOURCE.repeat(3, 0), np.array([[1], [7], [8]] * 2))
    _close(captured["decoder_layer1_block2_decenc_att"], expected["decoder_layer1_block2_decenc_att"])


def test_calls_with_a_cache():
    layer = kmha.MultiHeadAttention(3, 4)
    _, expected = layer(QUERY, QUERY, use_causal_mask=True, return_attention_scores=True)
    cache = ops.zeros((2, 2, 5, 3, 4))
    with capture(layer) as captured:
        for index in range(5):
            one = QUERY[:, index : index + 1]
            _, cache = layer(one, one, use_causal_mask=True, cache=cache, cache_update_index=index)
    _close(captured[layer.name], expected)


def _searched(**options):
    """A model in which each token prefers a follower, so that beams cross, and sentences of different lengths."""
    sizes = {"max_positional_encoding_input": 17, "max_positional_encoding_target": 13}
    model = kmha.layers.Transformer(2, 12, 3, 14, 11, 9, **sizes, final_activation=None, **options)
    model.build()
    numbers = np.random.default_rng(20)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(numbers.normal(0, 0.4, weight.shape))
    follower = numbers.permutation(np.arange(END + 1, 9))
    kernel = numbers.normal(0, 0.5, (12, 9))
    kernel[:, follower] += 1.875 * _array(model.decoder.embedding.embeddings)[np.roll(follower, 1)].T
    model.final_layer.kernel.assign(kernel)
    return model, np.array([[5, 3, 2, 0, 0, 0], [4, 10, 7, 7, 3, 2], [2, 0, 0, 0, 0, 0], [9, 6, 10, 4, 2, 0]])


def _check_search(captured, model, source, found):
    """The scores are those of the whole model for the returned hypotheses, as target and with their sentences."""
    flat = [(sentence, one) for sentence, hypotheses in enumerate(found) for one in hypotheses]
    steps = [len(one.ids) + one.finished for _, one in flat]
    target = np.zeros((len(flat), max(steps)), "int32")
    for row, (_, one), size in zip(target, flat, steps, strict=True):
        row[:size] = [START, *one.ids][:size]
    chosen = source[[sentence for sentence, _ in flat]]
    _, expected = model(chosen, target, return_attention_scores=True)
    _, of_encoder = model.encode(chosen, return_attention_scores=True)
    assert list(captured) == [*of_encoder, *expected]
    for name, scores in of_encoder.items():
        _close(captured[name], scores)
    for name, scores in expected.items():
        scores = _array(scores)
        assert captured[name].shape == scores.shape
        for size, one, other in zip(steps, captured[name], scores, strict=True):
            _close(one[:, :size], other[:, :size])
            _equal(one[:, size:], np.zeros_like(one[:, size:]))


SEARCHES = {
    "greedy": lambda model: search.Greedy(model),
    "beam of 1": lambda model: search.Beam(model, beam_size=1),
    "beam of 2": lambda model: search.Beam(model, beam_size=2, length_penalty=3.0),
    "beam of 5": lambda model: search.Beam(model, beam_size=5, length_penalty=3.0),
    "3 best of 5": lambda model: search.Beam(model, beam_size=5, n_best=3),
    "limit": lambda model: search.Beam(model, beam_size=4, n_best=4, max_length=1),
    "samples": lambda model: search.Sampling(model, samples=3, seed=4),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("kind", "attention"), [*((kind, {}) for kind in SEARCHES), ("3 best of 5", {"sliding_window": 2})], ids=str
)
def test_a_search_keeps_the_sentences_that_won(kind, attention):
    model, source = _searched(attention=attention)
    method = SEARCHES[kind](model)
    before = method(source)
    with capture(model) as captured:
        inside = method(source)
    assert inside == before == method(source)
    _check_search(captured, model, source, inside)
    assert all(len(calls) == 1 for calls in captured.calls.values())


@pytest.mark.slow
def test_the_beams_of_the_search_test_cross():
    """Otherwise the test above could not tell the winner from the beam of the same number."""
    model, source = _searched()
    for kind, least in (("beam of 2", 2), ("beam of 5", 3)):
        assert max(len(set(one.beams)) for [one] in SEARCHES[kind](model)(source)) >= least


@pytest.mark.slow
def test_searches_and_calls_in_one_block():
    model, source = _searched()
    method = search.Beam(model, beam_size=2)
    target = np.array([[1, 7, 8, 3, 5]] * 4)
    with capture(model) as whole:
        model(source, target)
        with capture(model, ["decoder_layer2_block2_decenc_att"]) as captured:
            first = method(source)
        second = method(source[:2])
    _check_search(_last(whole, 1), model, source, first)
    _check_search(_last(whole, 2), model, source[:2], second)
    (name,) = captured
    assert {len(calls) for calls in whole.calls.values()} == {3}
    _equal(captured[name], whole.calls[name][1])
    _close(whole.calls[name][0], model(source, target, return_attention_scores=True)[1][name])


def _last(captured, index):
    return {name: calls[index] for name, calls in captured.calls.items()}


def test_a_search_that_does_not_tell_its_beams():
    class Silent(search.Greedy):
        name = ""

        def _hypotheses(self, limits, *results):
            found = super()._hypotheses(limits, *results)
            return [[dataclasses.replace(one, beams=()) for one in hypotheses] for hypotheses in found]

    model, source = _searched()
    with capture(model.decoder) as captured:
        Silent(model)(source[:2])
    calls = captured.calls["decoder_layer1_block2_decenc_att"]
    assert len(calls) > 1
    assert {call.shape[1:3] for call in calls} == {(3, 1)}


@pytest.mark.slow
def test_a_part_of_the_model_that_searches():
    model, source = _searched()
    with capture(model.decoder.dec_layers[1]) as captured:
        found = search.Beam(model, beam_size=3)(source)
    with capture(model) as whole:
        search.Beam(model, beam_size=3)(source)
    _check_search(whole, model, source, found)
    _equal(captured["mha2"], whole["decoder_layer2_block2_decenc_att"])


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16", "bfloat16"])
@pytest.mark.parametrize("kind", [kmha.MultiHeadAttention, layers.MultiHeadAttention])
def test_half_precision(dtype, kind):
    layer = kind(3, 4, dtype=dtype)
    with capture(layer) as captured:
        layer(QUERY, VALUE)
    _, scores = layer(QUERY, VALUE, return_attention_scores=True)
    found = captured[layer.name]
    assert found.dtype == ("float32" if dtype == "bfloat16" else "float16")
    _equal(found, ops.cast(scores, str(found.dtype)))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.function")
def test_functions_of_tensorflow():
    import tensorflow as tf

    layer = kmha.MultiHeadAttention(3, 4)
    layer(QUERY, VALUE)
    early = tf.function(lambda query: layer(query, VALUE))
    early(QUERY)
    with pytest.raises(ValueError, match="nothing was recorded"), capture(layer):
        early(QUERY)
    with pytest.raises(ValueError, match="nothing was recorded"), capture(layer):
        tf.function(lambda query: layer(query, VALUE), jit_compile=True)(QUERY)
    late = tf.function(lambda query: layer(query, VALUE))
    with capture(layer) as captured:
        late(QUERY)
        late(2 * QUERY)
    late(QUERY)
    assert len(captured.calls[layer.name]) == 2
    for call, query in zip(captured.calls[layer.name], (QUERY, 2 * QUERY), strict=True):
        _close(call, layer(query, VALUE, return_attention_scores=True)[1])


@pytest.mark.skipif(BACKEND != "jax", reason="jax.jit")
def test_functions_of_jax():
    import jax

    layer = kmha.MultiHeadAttention(3, 4)
    layer(QUERY, VALUE)
    early, late = (jax.jit(lambda query: layer(query, VALUE)) for _ in range(2))
    early(QUERY)
    with pytest.raises(ValueError, match="nothing was recorded"), capture(layer):
        early(QUERY)
    with capture(layer) as captured:
        late(QUERY)
        late(2 * QUERY)
    late(QUERY)
    assert len(captured.calls[layer.name]) == 2
    _close(captured.calls[layer.name][1], layer(2 * QUERY, VALUE, return_attention_scores=True)[1])


def test_shapes_are_not_calls():
    class Outer(keras.Model):
        def __init__(self):
            super().__init__()
            self.attention = layers.MultiHeadAttention(3, 4)

        def call(self, x):
            return self.attention(x, x)

    model = Outer()
    with capture(model) as captured:
        model(keras.Input((5, 6)))
        assert not captured
        model(QUERY)
    assert {name: scores.shape for name, scores in captured.items()} == {"multi_head_attention": (2, 3, 5, 5)}


@pytest.mark.parametrize("kind", [kmha.MultiHeadAttention, layers.MultiHeadAttention])
def test_nested(kind):
    layer = kind(3, 4)
    with capture(layer) as outer:
        layer(QUERY, VALUE)
        with capture(layer) as inner:
            layer(2 * QUERY, VALUE)
        layer(3 * QUERY, VALUE)
    assert len(inner.calls[layer.name]) == 1
    assert len(outer.calls[layer.name]) == 3
    _equal(inner[layer.name], outer.calls[layer.name][1])


def _state(model):
    return {layer.path: sorted(vars(layer)) for layer in model._flatten_layers()}


def test_compile_inside_the_block_counts():
    attention = kmha.MultiHeadAttention(2, 3)
    inputs = keras.Input((5, 6))
    model = keras.Model(inputs, layers.Dense(6)(attention(inputs, inputs)))
    x = np.random.default_rng(0).normal(size=(4, 5, 6))
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(x, x, verbose=0)
    with capture(model):
        model.predict(x, verbose=0)
        attention.trainable = False
        model.compile("adam", "mse", jit_compile=False)
    before = attention.get_weights()
    model.fit(x, x, verbose=0)
    assert all(np.array_equal(*each) for each in zip(before, attention.get_weights(), strict=True))
    assert int(model.optimizer.iterations) == 1


def test_making_the_weights_is_no_call():
    model = keras.Sequential([kmha.layers.EncoderLayer(6, 3, 8, name="block")])
    with capture(model) as captured:
        model.predict(np.random.default_rng(0).normal(size=(2, 5, 6)), verbose=0)
    assert captured["block/mha"].shape == (2, 3, 5, 5)


class Strange(layers.Layer):
    """Computes attention with a method of the name that capture looks for."""

    def __init__(self, returned="mixed"):
        super().__init__()
        self.returned = returned

    def call(self, x):
        return self._compute_attention(x, x, x)[0]

    def _compute_attention(self, query, key, value):
        scores = ops.softmax(ops.matmul(query, ops.transpose(key, (0, 2, 1))))
        mixed = ops.matmul(scores, value)
        return {"mixed": (mixed,), "scores": (mixed, scores), "wide": (mixed, scores[0, 0])}[self.returned]


@pytest.mark.parametrize(("returned", "received"), [("mixed", "the arguments"), ("wide", "scores with 1 axes")])
def test_scores_that_cannot_be_read(returned, received):
    layer = Strange(returned)
    x = ops.array(np.random.default_rng(0).normal(size=(2, 5, 6)))
    with pytest.raises(ValueError, match=rf"cannot be read\. .*Received: {received}"), capture(layer):
        layer(x)


def test_scores_without_heads_count_as_one_head():
    layer = Strange("scores")
    with capture(layer) as captured:
        layer(ops.array(np.random.default_rng(0).normal(size=(2, 5, 6))))
    assert captured[layer.name].shape == (2, 1, 5, 5)


def test_a_block_that_is_also_elsewhere_keeps_its_name():
    class Probe(keras.Model):
        def __init__(self):
            super().__init__()
            self.transformer = kmha.layers.Transformer(1, 6, 3, 7, 11, 12, 20, 21)
            self.probe = self.transformer.encoder.enc_layers[0].mha

        def call(self, source, target):
            return self.transformer(source, target)

    ids = np.ones((2, 5), "int32")
    model = Probe()
    with capture(model) as captured:
        model(ids, ids)
    assert "encoder_layer1_self_att" in captured


@pytest.mark.slow
def test_nothing_remains(tmp_path):
    model, _ = _model()
    model.compile("sgd", "mse")
    expected = model.predict([QUERY, VALUE], verbose=0)
    state = _state(model)

    def fail():
        model.predict([QUERY, VALUE], verbose=0)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), capture(model):
        fail()
    assert _state(model) == state
    with capture(model):
        model([QUERY, VALUE])
        model.predict([QUERY, VALUE], verbose=0)
    assert _state(model) == state
    model.save(tmp_path / "model.keras")
    _close(keras.saving.load_model(tmp_path / "model.keras").predict([QUERY, VALUE], verbose=0), expected)
    _close(pickle.loads(pickle.dumps(model)).predict([QUERY, VALUE], verbose=0), expected)  # noqa: S301
    _close(copy.deepcopy(model).predict([QUERY, VALUE], verbose=0), expected)


def test_a_fresh_model_keeps_nothing_after_its_first_predict():
    model, _ = _model()
    with capture(model):
        model.predict([QUERY, VALUE], verbose=0)
    assert model.predict_function is None
    if BACKEND == "tensorflow":
        assert "predict_function" not in model._self_unconditional_dependency_names


class _Replaced(kmha.MultiHeadAttention):
    def _compute_attention(self, query, key, value, attention_mask=None, training=None, return_attention_scores=False):
        mixed, scores = super()._compute_attention(query, key, value, attention_mask, training, True)
        return 2 * mixed, scores


class _Silent(layers.MultiHeadAttention):
    """Returns no scores, and knows no argument to ask for them."""

    def _compute_attention(self, query, key, value, attention_mask=None, training=None):
        return super()._compute_attention(query, key, value, attention_mask, training, True)[0], None

    def call(self, query, value, key=None):
        key, value = self.key_dense(value), self.value_dense(value)
        return self.output_dense(self._compute_attention(self.query_dense(query), key, value)[0])


@pytest.mark.parametrize("kind", [_Replaced, _Silent])
def test_subclasses(kind):
    layer, builtin = kind(3, 4), (kmha.MultiHeadAttention if kind is _Replaced else layers.MultiHeadAttention)(3, 4)
    expected = layer(QUERY, VALUE)
    builtin.build(QUERY.shape, VALUE.shape)
    builtin.set_weights(layer.get_weights())
    with capture(layer) as captured:
        _equal(layer(QUERY, VALUE), expected)
    _close(captured[layer.name], builtin(QUERY, VALUE, return_attention_scores=True)[1])


def test_same_names_are_numbered():
    x = keras.Input((5, 6))
    blocks = [keras.Sequential([kmha.layers.EncoderLayer(6, 3, 8, name="block")], name=name) for name in "ab"]
    both = keras.Sequential([*blocks, keras.Sequential([blocks[0]], name="c")])
    with capture(both) as captured:
        both(QUERY)
    assert list(captured) == ["a/block/mha", "b/block/mha"]
    assert [len(captured.calls[name]) for name in captured] == [2, 1]
    transformers = [_transformer(name=name) for name in "ab"]
    twice = keras.Model(x, layers.MultiHeadAttention(2, 3, name="own")(x, x))
    twice.others = transformers
    with capture(twice) as captured:
        twice(QUERY)
    assert captured.names[0] == "own"
    assert {"encoder_layer1_self_att", "encoder_layer1_self_att_2"} <= set(captured.names)


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"expected a Keras model or layer. Received: list"), capture([1]):
        pass
    dense = keras.Sequential([layers.Dense(3)], name="plain")
    with pytest.raises(ValueError, match=r"no attention layer in 'plain'.*Received a model of: Dense"), capture(dense):
        pass
    model, _ = _model()
    with pytest.raises(ValueError, match=r"Received: 'ovn'. Did you mean 'own'.*own, builtin"), capture(model, ["ovn"]):
        pass
    with pytest.raises(ValueError, match="at least one name"), capture(model, []):
        pass
    with capture(model, "own") as captured:
        model([QUERY, VALUE])
    assert captured.names == ("own",)
    with pytest.raises(KeyError, match=r"'builtin' is not recorded. There are scores of: own"):
        captured["builtin"]


def test_calls_of_different_shapes():
    layer = kmha.MultiHeadAttention(3, 4, name="mine")
    with capture(layer) as captured:
        layer(QUERY, VALUE)
        layer(QUERY, VALUE[:, :6])
    with pytest.raises(ValueError, match=r"\(2, 3, 5, 7\), \(2, 3, 5, 6\)\. Take one.*captured\.calls\['mine'\]"):
        captured["mine"]
    assert repr(captured) == "Captured(mine: (2, 3, 5, 7) (2, 3, 5, 6))"


def test_single_queries_of_batches_of_different_sizes():
    layer = kmha.MultiHeadAttention(3, 4)
    with capture(layer) as captured:
        layer(QUERY[:, :1], VALUE)
        layer(QUERY[:1, :1], VALUE[:1])
    assert captured[layer.name].shape == (3, 3, 1, 7)


def test_keras_hub_layers():
    hub = pytest.importorskip("keras_hub")
    encoder, decoder = hub.layers.TransformerEncoder(8, 2), hub.layers.TransformerDecoder(8, 2)
    mask = SOURCE != 0
    x, y = RANDOM.normal(size=(2, 5, 6)).astype("float32"), RANDOM.normal(size=(2, 7, 6)).astype("float32")
    encoder(x)
    decoder(y, x)
    with capture(encoder) as captured:
        _, expected = encoder(x, padding_mask=mask, return_attention_scores=True)
    (scores,) = captured.values()
    _close(scores, expected)
    with capture(encoder) as captured:
        encoder(x, padding_mask=mask)
    (scores,) = captured.values()
    _close(scores, expected)
    with capture(decoder) as captured:
        decoder(y, x, encoder_padding_mask=mask)
    assert {name: scores.shape for name, scores in captured.items()} == {
        "self_attention": (2, 2, 7, 7),
        "cross_attention": (2, 2, 7, 5),
    }
    _equal(np.triu(captured["self_attention"], 1), np.zeros((2, 2, 7, 7)))
    _close(captured["cross_attention"].sum(-1), np.ones((2, 2, 7)))
    _equal(captured["cross_attention"][1, :, :, 2:], np.zeros((2, 7, 3)))


@pytest.mark.parametrize("name", ["GPT2", "Gemma", "Llama", "Mistral", "DebertaV3", "GPTNeoX"])
def test_keras_hub_models(name):
    hub = pytest.importorskip("keras_hub")
    sizes = {"vocabulary_size": 20, "num_layers": 1, "hidden_dim": 16, "intermediate_dim": 14}
    heads = {"num_query_heads": 4, "num_key_value_heads": 2}
    sizes |= {
        "GPT2": {"num_heads": 2, "max_sequence_length": 9},
        "Gemma": {**heads, "head_dim": 4},
        "DebertaV3": {"num_heads": 2, "max_sequence_length": 9},
        "GPTNeoX": {"num_heads": 2, "max_sequence_length": 9},
    }.get(name, heads)
    model = getattr(hub.models, f"{name}Backbone")(**sizes)
    inputs = {"token_ids": np.where(TARGET, TARGET, 3), "padding_mask": (TARGET != 0).astype("int32")}
    expected = model(inputs)
    for call in (model, lambda x: model.predict(x, verbose=0)):
        with capture(model) as captured:
            _close(call(inputs), expected)
        (scores,) = captured.values()
        assert scores.shape == (2, sizes.get("num_heads", 4), 7, 7)
        _close(scores[0].sum(-1), np.ones(scores[0].shape[:-1]))
        if name != "DebertaV3":
            _equal(np.triu(scores[0], 1), np.zeros_like(scores[0]))
        assert np.unique(scores[0].round(4)).size > 20


def test_generating_with_keras_hub():
    if BACKEND == "jax" and ops.convert_to_tensor(np.arange(3)).dtype == "int64":
        pytest.skip("KerasHub mixes int32 and int64 where JAX has both; set JAX_ENABLE_X64=0")
    hub = pytest.importorskip("keras_hub")
    sizes = {"vocabulary_size": 20, "num_layers": 1, "num_heads": 2, "hidden_dim": 6, "intermediate_dim": 7}
    model = hub.models.GPT2CausalLM(hub.models.GPT2Backbone(**sizes, max_sequence_length=9), preprocessor=None)
    model.compile(sampler="greedy", jit_compile=BACKEND == "jax")
    ids = np.array([[4, 5, 6, 0, 0, 0, 0]] * 3, "int32")
    prompt = {"token_ids": ids, "padding_mask": (ids != 0).astype("int32")}
    before = model.generate(prompt, stop_token_ids=None)["token_ids"]
    with capture(model) as captured:
        inside = model.generate(prompt, stop_token_ids=None)["token_ids"]
    _equal(inside, before)
    with capture(model.backbone) as whole:
        model.backbone({"token_ids": inside, "padding_mask": np.ones((3, 7), "int32")})
    (expected,), ((_, *steps),) = whole.values(), captured.calls.values()
    assert len(steps) == 4
    for position, step in enumerate(steps, 2):
        _close(step[:, :, 0], expected[:, :, position])


@pytest.mark.tensorflow
def test_scores_that_a_layer_computes_anyway_need_no_second_pass(monkeypatch):
    from kmha.core import attention

    layer, passes, steps = kmha.MultiHeadAttention(3, 4), [], attention._steps
    expected, scores = layer(QUERY, VALUE, value_mask=VALUE_MASK, return_attention_scores=True)
    monkeypatch.setattr(attention, "_steps", lambda *inputs: passes.append(1) or steps(*inputs))
    with capture(layer) as captured:
        output = layer(QUERY, VALUE, value_mask=VALUE_MASK)
    assert passes == [1]
    _equal(output, expected)
    _equal(captured[layer.name], scores)
