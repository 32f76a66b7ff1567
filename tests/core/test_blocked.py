"""All paths on TensorFlow give the same values and gradients."""

import gc

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.sampled(4)]

import keras  # noqa: E402

from kmha.core import blocked, planning  # noqa: E402
from kmha.core.attention import Dropout, attend  # noqa: E402
from kmha.verify.reference import _mix, _scores  # noqa: E402

B, H, O, V = 2, 3, 5, 7  # V is the value's O
MASKS = {
    "none": None,
    "padding": lambda t, s: (B, 1, 1, s),
    "of heads": lambda t, s: (1, H, t, s),
    "rows": lambda t, s: (B, 1, t, 1),
    "matrix": lambda t, s: (t, s),
}
BIASES = {
    "none": None,
    "of heads": lambda t, s: (1, H, t, s),
    "of keys": lambda t, s: (B, 1, 1, s),
    "of queries": lambda t, s: (1, 1, t, 1),
}


@pytest.fixture(autouse=True)
def _few_blocks_unrolled(monkeypatch):
    monkeypatch.setattr(blocked, "MOST_UNROLLED", 4)
    monkeypatch.setattr(blocked, "MOST_LOOPS", 2)


def _problem(t, s, mask="none", bias="none", dtype="float64", empty=False):
    rng = np.random.default_rng(t * 100 + s)
    shapes = [(B, t, H, O), (B, s, H, O), (B, s, H, V)]
    tensors = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    allowed = None if MASKS[mask] is None else rng.random(MASKS[mask](t, s)) < (0.05 if empty else 0.6)
    if BIASES[bias] is not None:
        tensors.append(rng.normal(size=BIASES[bias](t, s)).astype(dtype))
    return tensors, allowed


def _run(path, mode, tensors, mask, dynamic=False, rate=0.0, further=False, **structure):
    """Return result and gradients of all tensors; with `further`, the gradients of the sum of their squares."""
    seeds = keras.random.SeedGenerator(3)
    upstream = np.random.default_rng(1).normal(size=(*tensors[0].shape[:3], V)).astype(tensors[0].dtype)

    def gradients(*tensors):
        dropout = Dropout(rate, seeds) if rate else None
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            query, key, value, *bias = tensors
            with planning.environment_path(path):
                mixed, _ = attend(query, key, value, mask, *bias, dropout=dropout, **structure)
            total = tf.reduce_sum(mixed * upstream * (mixed if further else 1.0))
        return mixed, *tape.gradient(total, tensors, unconnected_gradients="zero")

    def twice(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            first = gradients(*tensors)[1:]
            total = tf.add_n([tf.reduce_sum(x * x) for x in first])
        return tape.gradient(total, tensors, unconnected_gradients="zero")

    function = twice if further else gradients
    if mode != "eager":
        # Number and size of the heads are always known; B, T and S may be unknown.
        known = [(0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1), (0, 1, 0, 0)]
        specs = [
            tf.TensorSpec([n if n == 1 or keep else None for n, keep in zip(x.shape, which, strict=True)], x.dtype)
            for x, which in zip(tensors, known, strict=False)
        ]
        signature = specs if dynamic else None
        function = tf.function(function, jit_compile=mode == "xla", input_signature=signature, autograph=False)
    return [x.numpy() for x in function(*map(tf.constant, tensors))]


def _agree(results, expected, tolerance=1e-12):
    for one, other in zip(results, expected, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max(initial=0.0) <= tolerance * max(1.0, np.abs(other).max(initial=0.0))


# Eight blocks are too many to unroll, two are not. The lengths are no multiple of the height.
PATHS = [("direct", 30, 26), ("blocked:4", 30, 26), ("blocked:16", 30, 26), ("blocked:4", 9, 26)]
MODES = [("eager", False), ("graph", False), ("graph", True), ("xla", False), ("xla", True)]


# XLA takes a second or two to compile each.
COMPILED = [("blocked:4", 30, 26, "xla", False), ("blocked:4", 9, 26, "xla", False), ("blocked:4", 30, 26, "xla", True)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "t", "s", "mode", "dynamic"), [(*path, *mode) for path in PATHS for mode in MODES[:3]] + COMPILED
)
@pytest.mark.parametrize(
    ("structure", "mask", "bias"),
    [
        ({}, "none", "none"),
        ({"causal": True}, "padding", "of heads"),
        ({"window": 5}, "of heads", "of keys"),
        ({"causal": True, "window": 3}, "rows", "of queries"),
        ({"causal": True}, "matrix", "none"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else x,
)
def test_the_paths_agree(path, t, s, mode, dynamic, structure, mask, bias):
    tensors, allowed = _problem(t, s, mask, bias)
    expected = _run("steps", "eager", tensors, allowed, **structure)
    _agree(_run(path, mode, tensors, allowed, dynamic, **structure), expected)


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
def test_the_loops_of_the_reference_agree(path):
    (query, key, value), allowed = _problem(13, 11, "of heads")
    scores = _scores(query, key, np.broadcast_to(allowed, (B, H, 13, 11)))
    _agree(_run(path, "graph", [query, key, value], allowed)[:1], [_mix(scores, value)])


@pytest.mark.parametrize("path", ["direct", "blocked:4", "blocked:16"])
@pytest.mark.parametrize(("mode", "dynamic"), MODES[:3])
@pytest.mark.parametrize("causal", [True, False])
def test_the_same_scores_are_dropped_on_every_path(path, mode, dynamic, causal):
    tensors, allowed = _problem(30, 26, "padding")
    expected = _run("steps", "eager", tensors, allowed, rate=0.3, causal=causal)
    _agree(_run(path, mode, tensors, allowed, dynamic, rate=0.3, causal=causal), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("mode", "path"), [("graph", "blocked:4"), ("xla", "blocked:4"), ("xla", "blocked:16")])
def test_the_backward_pass_drops_what_the_forward_pass_dropped(mode, path):
    """The output is linear in the value. So value · gradient is the output again, if both passes drop the same."""
    tensors, _ = _problem(30, 26)
    mixed, *gradients = _run(path, mode, tensors, None, rate=0.3)
    upstream = np.random.default_rng(1).normal(size=(B, 30, H, V))
    assert np.isclose((mixed * upstream).sum(), (tensors[2] * gradients[2]).sum())
    plain = _run(path, mode, tensors, None)[0]
    assert np.abs(mixed - plain).max() > 0.01


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
@pytest.mark.parametrize(("mode", "dynamic"), MODES)
def test_rows_with_nothing_to_attend_to_are_zero_and_so_are_their_gradients(path, mode, dynamic):
    tensors, allowed = _problem(30, 26, "matrix", empty=True)
    allowed[:] &= np.arange(30)[:, None] % 3 > 0
    allowed[8:16] = False  # whole blocks
    mixed, d_query, *others = _run(path, mode, tensors, allowed, dynamic)
    empty = ~allowed.any(axis=1)
    assert not mixed[:, empty].any()
    assert not d_query[:, empty].any()
    assert mixed[:, ~empty].all()
    assert all(np.isfinite(x).all() for x in others)
    _agree([mixed, d_query, *others], _run("steps", "eager", tensors, allowed))


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
@pytest.mark.parametrize(("mode", "dynamic"), [("eager", False), ("graph", False), ("graph", True), ("xla", True)])
@pytest.mark.parametrize(("t", "s"), [(1, 26), (30, 1), (1, 1), (0, 26), (30, 0)])
def test_lengths_of_one_and_of_none(path, mode, dynamic, t, s):
    tensors, _ = _problem(t, s)
    for structure in ({}, {"causal": True, "window": 3}):
        got = _run(path, mode, tensors, None, dynamic, **structure)
        if t and s:
            _agree(got, _run("steps", "eager", tensors, None, **structure))
        else:
            assert [x.shape for x in got] == [(B, t, H, V), *(x.shape for x in tensors)]
            assert not any(x.any() for x in got)


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_a_window_that_looks_past_the_keys(path, mode):
    """With T above S, the last rows have nothing to attend to, and the last blocks no keys."""
    tensors, _ = _problem(30, 9)
    expected = _run("steps", "eager", tensors, None, window=2)
    _agree(_run(path, mode, tensors, None, window=2), expected)
    assert not expected[0][:, 11:].any()


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 4e-2)])
def test_half_types_are_as_exact_as_the_steps(path, dtype, tolerance):
    tensors, allowed = _problem(30, 26, "padding")
    tensors = [tf.cast(x, dtype).numpy() for x in tensors]
    expected = _run("steps", "eager", [x.astype("float64") for x in tensors], allowed)
    got = _run(path, "graph", tensors, allowed)
    assert all(x.dtype == dtype for x in got)
    _agree([x.astype("float64") for x in got], expected, tolerance)


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
def test_float16_logits_near_the_overflow(path):
    """The largest product is 57,344, and 65,504 the largest number."""
    query = np.full((1, 6, 1, 4), 128.0, "float16")
    key = np.linspace(0.0, 112.0, 9).astype("float16").reshape(1, 9, 1, 1).repeat(4, axis=3)
    value = np.arange(9.0 * V).reshape(1, 9, 1, V).astype("float16")
    mixed, *gradients = _run(path, "graph", [query, key, value], None, scale=1.0)
    assert np.array_equal(mixed, np.broadcast_to(value[:, -1:], mixed.shape))
    assert all(np.isfinite(x).all() for x in gradients)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["direct", "blocked:4", "blocked:16"])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_gradient_of_a_gradient(path, mode):
    tensors, allowed = _problem(30, 26, "padding", "of heads")
    expected = _run("steps", "eager", tensors, allowed, further=True, causal=True)
    _agree(_run(path, mode, tensors, allowed, further=True, causal=True), expected, 1e-11)


def test_an_eager_tape_does_not_keep_the_blocks():
    """Without `stop_gradient`, the tape would keep the scores of every block."""

    def recorded(path):
        query = tf.random.stateless_normal((1, 64, 1, 4), (1, 2))
        with tf.GradientTape() as tape, planning.environment_path(path):
            tape.watch(query)
            mixed, _ = attend(query, query, query)
        gc.collect()
        return mixed, sum(x.shape == (1, 8, 64) for x in gc.get_objects() if issubclass(type(x), tf.Tensor))

    mixed, pieces = recorded("blocked:8")
    assert mixed.shape == (1, 64, 1, 4)
    assert pieces == 0


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(("t", "s", "window"), [(13, 8, 5), (3, 0, 3), (9, 8, 1)])
def test_a_last_block_that_sees_no_key(path, mode, t, s, window):
    tensors, _ = _problem(t, s)
    mixed = _run(path, mode, tensors, None, window=window)[0]
    expected = _run("steps", "eager", tensors, None, window=window)[0] if s else np.zeros_like(mixed)
    _agree([mixed], [expected])


@pytest.mark.parametrize("path", ["direct", "blocked:2"])
def test_a_bias_of_minus_infinity_lets_nothing_hidden_through(path):
    """Left padding: the first query sees only the first key, and the bias hides it."""
    query, value = np.ones((1, 3, 1, 2)), np.array([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1)
    bias = np.array([-np.inf, 0.0, 0.0]).reshape(1, 1, 1, 3)
    with planning.environment_path(path):
        mixed, _ = attend(tf.constant(query), tf.constant(query), tf.constant(value), None, bias, causal=True)
    assert np.allclose(mixed[0, :, 0, 0], [0.0, 2.0, 2.5])


@pytest.mark.parametrize("path", ["direct", "blocked:4"])
def test_the_gradient_of_a_bias_whose_batch_axis_turns_out_to_be_one(path):
    tensors, _ = _problem(9, 9, bias="of heads")
    expected = _run("steps", "eager", tensors, None)

    @tf.function(
        input_signature=[tf.TensorSpec(x.shape, x.dtype) for x in tensors[:3]]
        + [tf.TensorSpec([None, H, 9, 9], "float64")]
    )
    def gradient(query, key, value, bias):
        with tf.GradientTape() as tape, planning.environment_path(path):
            tape.watch(bias)
            mixed, _ = attend(query, key, value, None, bias)
            total = tf.reduce_sum(mixed * np.random.default_rng(1).normal(size=(B, 9, H, V)))
        return tape.gradient(total, bias)

    _agree([gradient(*tensors).numpy()], [expected[-1]])


def test_xla_with_an_unknown_batch_and_no_query():
    query = np.zeros((2, 0, H, O))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 0, H, O], "float64")])
    def call(query):
        with planning.environment_path("blocked:4"):
            return attend(query, query, query)[0]

    assert call(query).shape == (2, 0, H, O)


def test_forward_mode_works_in_one_piece_and_says_so_in_blocks():
    (query, key, value), _ = _problem(9, 9)
    query = tf.constant(query)
    with tf.autodiff.ForwardAccumulator(query, tf.ones_like(query)) as accumulator, planning.environment_path("direct"):
        mixed, _ = attend(query, key, value)
    assert accumulator.jvp(mixed).shape == (B, 9, H, V)
    with pytest.raises(NotImplementedError, match="flash_attention=False"):  # noqa: SIM117
        with tf.autodiff.ForwardAccumulator(query, tf.ones_like(query)), planning.environment_path("blocked:4"):
            attend(query, key, value)
