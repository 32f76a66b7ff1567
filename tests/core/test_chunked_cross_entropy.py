import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.sampled(4)]

from kmha.bench.memory import peak  # noqa: E402
from kmha.core.cross_entropy import token_cross_entropy  # noqa: E402
from kmha.verify.tolerance import is_close  # noqa: E402

N, D, V = 11, 5, 7
PAD, UPSTREAM = 3, 2.5
MODES = {"eager": lambda run: run, "graph": tf.function, "xla": lambda run: tf.function(run, jit_compile=True)}


def _random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _targets(count=N):
    """Return targets of which every third is padding, and no other."""
    others = [v for v in range(V) if v != PAD]
    return np.array([others[n % 5] if n % 3 else PAD for n in range(count)])


def _expected(features, kernel, targets, bias, smoothing):
    """Return the loss and the gradients of features, kernel (D, V) and bias, token by token in float64."""
    loss, d_features, d_kernel, d_bias = 0.0, *map(np.zeros_like, (features, kernel, bias))
    for n, target in enumerate(targets):
        if target == PAD:
            continue
        p = np.exp(features[n] @ kernel + bias)
        p /= p.sum()
        labels = np.full(len(bias), smoothing / len(bias))
        labels[target] += 1 - smoothing
        loss -= labels @ np.log(p)
        d_features[n] = kernel @ (p - labels)
        d_kernel += np.outer(features[n], p - labels)
        d_bias += p - labels
    return loss, d_features, d_kernel, d_bias


def _step(**options):
    """Return a function that computes the loss, and the gradients of `UPSTREAM` times it."""

    def run(features, kernel, targets, bias):
        with tf.GradientTape() as tape:
            tape.watch([features, kernel, bias])
            loss = token_cross_entropy(features, kernel, targets, bias=bias, pad_id=PAD, **options).loss
            scaled = tf.cast(UPSTREAM, loss.dtype) * loss
        return [loss, *tape.gradient(scaled, [features, kernel, bias])]

    return run


def _check(mode, dtype="float64", count=N, smoothing=0.3, transposed=False, **options):
    given = [tf.cast(x, dtype) for x in (_random(count, D), _random(D, V), _random(V))]
    features, kernel, bias = given
    run = MODES[mode](_step(transposed=transposed, smoothing=smoothing, **options))
    kernel = tf.transpose(kernel) if transposed else kernel
    loss, d_features, d_kernel, d_bias = run(features, kernel, tf.constant(_targets(count)), bias)
    assert [d.dtype for d in (d_features, d_kernel, d_bias)] == [tf.as_dtype(dtype)] * 3
    features, kernel, bias = (np.asarray(x, "float64") for x in given)
    expected = _expected(features, kernel, _targets(count), bias, smoothing)
    d_kernel = tf.transpose(d_kernel) if transposed else d_kernel
    assert is_close(loss, expected[0], dtype)
    for actual, one in zip((d_features, d_kernel, d_bias), expected[1:], strict=True):
        assert is_close(actual, UPSTREAM * one, dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_gradients_are_those_of_a_loop_over_tokens(mode, transposed, smoothing):
    _check(mode, transposed=transposed, smoothing=smoothing, chunk=2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk", [1, 6, 7, 8, 10, 11, 12, None])
def test_any_chunk_gives_the_same(mode, chunk):
    """Seven of eleven tokens count, so that a chunk divides either number, or neither, or is larger."""
    assert (_targets() != PAD).sum() == 7
    _check(mode, chunk=chunk)


def _by_definition(features, kernel, targets, bias, weight, smoothing):
    """Return the loss of two passes, with all logits in memory."""
    p = tf.nn.softmax(features @ kernel + bias)
    labels = (1 - smoothing) * tf.one_hot(targets, V, dtype=p.dtype) + smoothing / V
    counted = tf.cast(targets != PAD, p.dtype)
    one, other = tf.split(p, 2)
    apart = tf.reduce_sum((one - other) * tf.math.log(one / other), axis=1)
    entropy = -tf.reduce_sum(counted[:, None] * labels * tf.math.log(p))
    return entropy + weight / 2 * tf.reduce_sum(tf.split(counted, 2)[0] * apart)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("chunk", [1, 2, 5, None])
def test_consistency_has_the_gradients_of_its_definition(mode, transposed, chunk):
    features, kernel, bias = map(tf.constant, (_random(2 * N, D), _random(D, V), _random(V)))
    targets = tf.constant(np.tile(_targets(), 2))
    with tf.GradientTape() as tape:
        tape.watch([features, kernel, bias])
        expected = _by_definition(features, kernel, targets, bias, 3.0, 0.2)
    gradients = tape.gradient(expected, [features, kernel, bias])
    run = MODES[mode](_step(transposed=transposed, smoothing=0.2, chunk=chunk, consistency=3.0))
    loss, *actual = run(features, tf.transpose(kernel) if transposed else kernel, targets, bias)
    actual[1] = tf.transpose(actual[1]) if transposed else actual[1]
    assert is_close(loss, expected, "float64")
    for one, other in zip(actual, gradients, strict=True):
        assert is_close(one, UPSTREAM * other, "float64")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_types(mode, dtype):
    _check(mode, dtype, chunk=4)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_but_padding_has_gradients_of_zero(mode):
    inputs = [tf.constant(x) for x in (_random(N, D), _random(D, V), np.full(N, PAD), _random(V))]
    loss, *gradients = MODES[mode](_step(transposed=False, smoothing=0.1))(*inputs)
    assert float(loss) == 0
    for gradient, x in zip(gradients, (inputs[0], inputs[1], inputs[3]), strict=True):
        assert np.array_equal(gradient, np.zeros_like(x))


def test_lengths_that_are_not_known_when_traced():
    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in (((None, D), tf.float64), ((D, V), tf.float64))]
    signature += [tf.TensorSpec((None,), tf.int64), tf.TensorSpec((V,), tf.float64)]
    run = tf.function(_step(transposed=False, smoothing=0.3, chunk=3), input_signature=signature)
    for count in (0, 2, 8, 13):
        features, kernel, bias = _random(count, D), _random(D, V), _random(V)
        results = run(features, kernel, _targets(count).astype("int64"), bias)
        expected = _expected(features, kernel, _targets(count), bias, 0.3)
        for actual, one, scale in zip(results, expected, (1, *[UPSTREAM] * 3), strict=True):
            assert is_close(actual, scale * one, "float64")
    assert run.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_variable_has_its_gradient(mode):
    kernel, features = tf.Variable(_random(V, D)), tf.constant(_random(N, D))

    def run():
        with tf.GradientTape() as tape:
            loss = token_cross_entropy(features, kernel, _targets(), transposed=True, pad_id=PAD, chunk=4).loss
        return tape.gradient(loss, kernel)

    expected = _expected(_random(N, D), kernel.numpy().T, _targets(), np.zeros(V), 0.0)[2]
    assert is_close(tf.transpose(MODES[mode](run)()), expected, "float64")


def test_only_the_loss_has_a_gradient():
    features = tf.constant(_random(N, D))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(features)
        sums = token_cross_entropy(features, _random(D, V), _targets(), transposed=False, pad_id=PAD)
        without = token_cross_entropy(features, _random(D, V), _targets(), transposed=False, gradient=False)
    assert tape.gradient(sums.loss, features) is not None
    assert [tape.gradient(one, features) for one in (*sums[1:], *without)] == [None] * 7


def test_a_second_derivative_is_refused():
    features = tf.constant(_random(N, D))
    with tf.GradientTape() as outer:
        outer.watch(features)
        with tf.GradientTape() as inner:
            inner.watch(features)
            loss = token_cross_entropy(features, _random(D, V), _targets(), transposed=False).loss
        gradient = inner.gradient(loss, features)
    with pytest.raises(NotImplementedError, match="CategoricalCrossentropy"):
        outer.gradient(gradient, features)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_memory_does_not_grow_with_tokens_times_vocabulary(mode):
    count, vocabulary = 16384, 5000
    features, kernel = (tf.random.normal(shape) for shape in ((count, D), (vocabulary, D)))
    targets = tf.range(count) % vocabulary
    run = MODES[mode](_step(transposed=True, smoothing=0.1, chunk=256))
    bias = tf.zeros((vocabulary,))
    if mode == "graph":
        run = run.get_concrete_function(features, kernel, targets, bias)
    # A chunk takes 1/64 of all logits; how many are in memory at once depends on the allocator and the threads.
    assert peak(lambda: run(features, kernel, targets, bias)) < count * vocabulary * 4 / 4
