"""Functions that the search methods share: the loop over positions, and operations on logits."""

from collections.abc import Callable
from typing import Any

from kmha.translation.lazy import np, tf
from kmha.translation.search.method import Hypothesis
from kmha.translation.search.steps import Steps
from kmha.translation.tokenizer import END, PAD, START

GROWING = "keys", "values"  # cache entries that every step extends
BLOCK = 16  # number of elements in a block of `largest`

Choose = Callable[[Any, Any], tuple[Any, Any]]


def follow(steps: Steps, cache: Any, limits: Any, choose: Choose) -> tuple[Any, Any]:
    """Step from the start token until every row, which is one hypothesis, has ended or reached its limit.

    Args:
        steps: Steps of the model.
        cache: Cache with N rows, before the first step.
        limits: Maximum number of tokens of each row, int32 (N,).
        choose: Function that takes logits (N, V) and the step, and returns tokens (N,), int32, and log probabilities
            (N,).

    Returns:
        The tokens (T, N), padded after the end, and the sums of their log probabilities (N,).
    """
    rows = tf.shape(limits)[0]
    ids, done = tf.fill([rows], START), tf.zeros([rows], tf.bool)

    def body(step: Any, ids: Any, done: Any, total: Any, written: Any, cache: Any) -> tuple[Any, ...]:
        logits, cache = steps.step(ids, cache)
        ids, gained = choose(logits, step)
        ids, total = tf.where(done, PAD, ids), total + tf.where(done, tf.zeros_like(gained), gained)
        written = written.write(step, ids)
        step += 1
        return step, ids, done | (ids == END) | (step >= limits), total, written, cache

    written = tf.TensorArray(tf.int32, tf.reduce_max(limits), element_shape=[None])
    start = tf.constant(0), ids, done, tf.zeros([rows], steps.dtype), written, cache
    step, _, _, total, written, _ = repeat(lambda step, ids, done, *_: ~tf.reduce_all(done), body, start)
    return written.gather(tf.range(step)), total


def followed(limits: Any, tokens: Any, total: Any, *, width: int = 1) -> list[Hypothesis]:
    """Return the hypotheses of N rows, `width` for each sentence, from the results of `follow`."""
    hypotheses = []
    for row, (limit, ids, gained) in enumerate(zip(limits, tokens.T, total.tolist(), strict=True)):
        ends = np.flatnonzero(ids == END)
        finished = bool(len(ends))
        length = int(ends[0] if finished else limit)
        beams = (row % width,) * (length + finished)
        hypotheses.append(Hypothesis(tuple(ids[:length].tolist()), gained, gained, finished, beams))
    return hypotheses


def allowed(logits: Any) -> Any:
    """Return the logits (N, V), with minus infinity for padding and start, the ids below the end token's id."""
    never = np.where(np.arange(logits.shape[-1]) < END, -np.inf, 0.0)
    return logits + tf.constant(never, logits.dtype)


def log_probability(logits: Any, largest: Any) -> Any:
    """Return the log probabilities (N,) of the most probable tokens `largest` (N,) for logits (N, V).

    They are at least log 1 / V, so this loses nothing to rounding. `log_softmax` takes longer.
    """
    return tf.math.log(tf.gather(tf.nn.softmax(logits), largest, batch_dims=1))


def largest(x: Any, count: int) -> tuple[Any, Any]:
    """Return the `count` largest elements of each row of `x` (N, W), in descending order, and their indices.

    The largest elements are in the `count` blocks with the largest maxima. Finding these blocks first takes less than
    half the time of `tf.math.top_k` at W = 8,000 and count = 10.
    """
    width = x.shape[-1]
    blocks = -(-width // BLOCK)
    if blocks < 4 * count:
        return tf.math.top_k(x, min(count, width))
    if blocks * BLOCK > width:
        x = tf.pad(x, [[0, 0], [0, blocks * BLOCK - width]], constant_values=-np.inf)
    x = tf.reshape(x, [-1, blocks, BLOCK])
    _, chosen = tf.math.top_k(tf.reduce_max(x, axis=-1), count)  # (N, count)
    candidates = tf.reshape(tf.gather(x, chosen, batch_dims=1), [-1, count * BLOCK])
    values, indices = tf.math.top_k(candidates, count)
    return values, tf.gather(chosen, indices // BLOCK, batch_dims=1) * BLOCK + indices % BLOCK


def repeat(condition: Callable[..., Any], body: Callable[..., Any], state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call `body` with its own results while `condition` holds for them. The last part of the state is a cache."""
    if tf.inside_function():
        shapes = *(tf.nest.map_structure(lambda x: None, x) for x in state[:-1]), cache_shapes(state[-1])
        return tf.while_loop(condition, body, state, shapes)
    while condition(*state):  # the cache may have arrays of another library
        state = body(*state)
    return state


def cache_shapes(cache: dict[str, Any]) -> dict[str, Any]:
    """Return the shape invariants of a cache for `tf.while_loop`. `None` stands for a tensor of constant shape."""
    free = {name: [tf.TensorShape([None, x.shape[1], None, x.shape[3]]) for x in cache[name]] for name in GROWING}
    return {**{name: tf.nest.map_structure(lambda x: None, value) for name, value in cache.items()}, **free}
