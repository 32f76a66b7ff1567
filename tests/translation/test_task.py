import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import Transformer
from kmha.translation.task import InverseSquareRoot, TranslationTask

pytestmark = pytest.mark.tensorflow

VOCABULARY = 13
SMOOTHING = 0.2


def _transformer(**options):
    # layers, width, heads, feed-forward, vocabularies, positions
    model = Transformer(1, 6, 2, 10, VOCABULARY, VOCABULARY, 17, 19, final_activation=None, **options)
    model((np.ones((1, 2), "int32"), np.ones((1, 3), "int32")))
    return model


def _batches():
    """Two, of different shapes and with padding."""
    random = np.random.default_rng(5)
    for batch, source, target in ((3, 5, 4), (2, 8, 7)):
        ids = [random.integers(4, VOCABULARY, (batch, length)).astype("int32") for length in (source, target, target)]
        ids[0][0, 3:] = ids[1][0, 2:] = ids[2][0, 2:] = 0
        yield (ids[0], ids[1]), ids[2]


def _expected(model, batches):
    """In float64, token by token."""
    smoothed = nll = correct = count = 0.0
    for (source, target_in), target_out in batches:
        logits = ops.convert_to_numpy(model((source, target_in), return_attention_scores=False)).astype("float64")
        for row, ids in zip(logits, target_out, strict=True):
            for scores, label in zip(row, ids, strict=True):
                if label:
                    logs = scores - np.log(np.exp(scores).sum())
                    nll -= logs[label]
                    smoothed -= (1 - SMOOTHING) * logs[label] + SMOOTHING * logs.mean()
                    correct += np.argmax(logs) == label
                    count += 1
    return {
        "loss": smoothed / count,
        "perplexity": np.exp(nll / count),
        "token_accuracy": correct / count,
        "tokens": count,
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tie", [None, "all"])
def test_metrics_are_means_over_tokens_not_over_batches(tie):
    import tensorflow as tf

    model = _transformer(tie_embeddings=tie)
    task = TranslationTask(model, SMOOTHING)
    task.compile(optimizer="sgd", jit_compile=False)
    ids = tf.TensorSpec([None, None], tf.int32)
    data = tf.data.Dataset.from_generator(_batches, output_signature=((ids, ids), ids))
    got = task.evaluate(data.apply(tf.data.experimental.assert_cardinality(2)), verbose=0, return_dict=True)
    expected = _expected(model, _batches())
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)


def test_fit_descends_the_gradient_of_the_mean_loss_per_token():
    import tensorflow as tf

    model = _transformer(tie_embeddings="all", dropout_rate=0.0)
    inputs, target = next(_batches())
    before = [ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(inputs, return_attention_scores=False)
        labels = (1 - SMOOTHING) * ops.one_hot(target, VOCABULARY) + SMOOTHING / VOCABULARY
        losses = -ops.sum(labels * ops.log_softmax(logits), axis=-1)
        weights = ops.cast(target != 0, "float32")
        loss = ops.sum(losses * weights) / ops.sum(weights)
    gradients = [ops.convert_to_numpy(one) for one in tape.gradient(loss, model.trainable_variables)]
    task = TranslationTask(model, SMOOTHING)
    rate = 0.5
    task.compile(optimizer=keras.optimizers.SGD(rate), jit_compile=False)
    task.fit(inputs, target, batch_size=3, verbose=0)
    for old, gradient, variable in zip(before, gradients, model.trainable_variables, strict=True):
        got = ops.convert_to_numpy(variable)
        np.testing.assert_allclose(got, old - rate * gradient, atol=2e-6, err_msg=variable.path)


def _weights_after_a_step(consistency, dropout_rate):
    keras.utils.set_random_seed(2)
    model = _transformer(tie_embeddings="all", dropout_rate=dropout_rate)
    task = TranslationTask(model, SMOOTHING, consistency)
    task.compile(optimizer=keras.optimizers.SGD(0.5), jit_compile=False)
    inputs, target = next(_batches())
    logs = task.fit(inputs, target, batch_size=3, verbose=0).history
    return [ops.convert_to_numpy(one) for one in model.trainable_variables], {
        name: one[0] for name, one in logs.items()
    }


def test_two_passes_without_dropout_are_as_one():
    one, logs = _weights_after_a_step(0.0, 0.0)
    two, other = _weights_after_a_step(4.0, 0.0)
    for mine, yours in zip(one, two, strict=True):
        np.testing.assert_allclose(mine, yours, atol=2e-6)
    for name, value in logs.items():
        np.testing.assert_allclose(other[name], value, rtol=1e-5, err_msg=name)


def test_consistency_counts_how_far_two_passes_are_apart():
    """Their other dropout is all that differs between them. Validation has a single pass, without dropout."""
    [less, more], logs = zip(*(_weights_after_a_step(weight, 0.4) for weight in (1e-9, 50.0)), strict=True)
    assert logs[1]["loss"] > logs[0]["loss"] + 1e-3
    assert all(logs[1][name] == logs[0][name] for name in ("perplexity", "token_accuracy", "tokens"))
    assert any(np.abs(one - other).max() > 1e-4 for one, other in zip(less, more, strict=True))
    model, (inputs, target) = _transformer(), next(_batches())
    losses = []
    for weight in (0.0, 50.0):
        task = TranslationTask(model, SMOOTHING, weight)
        task.compile(optimizer="sgd", jit_compile=False)
        losses.append(task.evaluate(inputs, target, batch_size=3, verbose=0))
    assert losses[0] == losses[1]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_learns_and_float16_scales_its_loss(dtype):
    task = TranslationTask(_transformer(dtype=dtype), SMOOTHING)
    task.compile(optimizer=keras.optimizers.Adam(0.01), jit_compile=False)
    scaled = isinstance(task.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (dtype == "mixed_float16")
    inputs, target = next(_batches())
    losses = [task.fit(inputs, target, batch_size=3, verbose=0).history["loss"][0] for _ in range(12)]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]
    assert {variable.dtype for variable in task.trainable_variables} == {"float32"}


def test_sample_weights_are_refused():
    task = TranslationTask(_transformer())
    task.compile(optimizer="sgd", jit_compile=False)
    inputs, target = next(_batches())
    with pytest.raises(ValueError, match="does not support sample_weight"):
        task.fit(inputs, target, sample_weight=np.ones(3), verbose=0)


def test_the_rate_at_every_step():
    peak, warmup = 0.3, 7
    schedule = InverseSquareRoot(peak, warmup)
    got = [float(schedule(keras.ops.convert_to_tensor(step, "int64"))) for step in range(40)]
    expected = [peak * (n / warmup if n <= warmup else np.sqrt(warmup / n)) for n in range(1, 41)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert int(np.argmax(got)) == warmup - 1


def test_with_the_papers_peak_it_is_the_papers_schedule():
    width, warmup = 512, 4000
    schedule = InverseSquareRoot((width * warmup) ** -0.5, warmup)
    for step in (1, 300, 4000, 90_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)  # equation 3
        np.testing.assert_allclose(float(schedule(step - 1)), paper, rtol=1e-6)


def test_an_optimizer_with_it_is_saved_and_loaded():
    optimizer = keras.optimizers.Adam(InverseSquareRoot(peak=0.5, warmup_steps=3))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(again._learning_rate, InverseSquareRoot)
    assert again._learning_rate.get_config() == {"peak": 0.5, "warmup_steps": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 3), "peak must be more than 0. Received: peak=0.0"),
        ((float("nan"), 3), "peak must be more than 0. Received: peak=nan"),
        ((0.5, 0), "warmup_steps must be an integer of at least 1. Received: warmup_steps=0"),
        ((0.5, 2.5), "Received: warmup_steps=2.5"),
    ],
)
def test_bad_arguments_of_the_schedule(arguments, message):
    with pytest.raises(ValueError, match=message):
        InverseSquareRoot(*arguments)
