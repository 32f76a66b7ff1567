"""What all search methods share: hypotheses, limits, checks, and one compiled function for every shape."""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from kmha.layers import arguments
from kmha.translation.tokenizer import END, PAD

GROWING = "keys", "values"  # the entries of a cache that every step makes longer
BLOCK = 16  # elements

Length = int | Callable[[int], int]


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search for one sentence.

    Attributes:
        ids: of the target, without start and end.
        log_probability: the sum over the tokens, the end included. Padding and start are never emitted, and the others'
            probabilities sum to one.
        score: what hypotheses of one sentence are ordered by; more is better.
        finished: whether it ends with the end token; otherwise its sentence's limit cut it off.
    """

    ids: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool


def usual_length(length: int) -> int:
    """The limit for a sentence of `length` source ids: half as many more, and ten.

    >>> usual_length(7)
    20
    """
    return int(1.5 * length) + 10


class Search:
    """Looks for the targets that a model gives a high probability; the base of the methods.

    The loop over the target positions is one `tf.function`, traced once: batch size, source length and the limits are
    tensors. A method overrides `_search` (its TensorFlow part), `_hypotheses` (what becomes of its results), and
    `_inputs` with `signature` where it needs more than ids and limits.

    Args:
        model: a `kmha.layers.Transformer`.
        max_length: the most tokens of a hypothesis, the end included: an integer, or a function of the number of source
            ids, padding not counted; never more than the model has target positions for. As every sentence has its own
            limit, a batch gives what its sentences give one by one.

    Raises:
        ValueError: an argument does not fit; the message says how to mend it.
    """

    signature: tuple[tf.TensorSpec, ...] = (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32))

    def __init__(self, model: Any, *, max_length: Length = usual_length) -> None:
        self._check_model(model)
        if not callable(max_length):
            max_length = self._size("max_length", max_length, "It is the most tokens of a hypothesis; 100 is usual.")
        self.model = model
        self.max_length = max_length
        self._most = model.get_config()["max_positional_encoding_target"]
        self.compiled = tf.function(self._search, input_signature=self.signature, autograph=False)

    def __call__(self, source_ids: Any) -> list[list[Hypothesis]]:
        """Hypotheses for every sentence, best first.

        Args:
            source_ids: integers (B, S), each sentence with its end token, padded with 0 at its end.

        Raises:
            ValueError: `source_ids` or a limit does not fit; the message says how to mend it.
        """
        source = self._checked(source_ids)
        limits = self._limits(source)
        if not len(source):
            return []
        results = self.compiled(*self._inputs(source, limits))
        return self._hypotheses(limits, *(result.numpy() for result in results))

    def _inputs(self, source: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `_search` gets."""
        return source, limits

    def _search(self, source: Any, limits: Any) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} must override `_search`")

    def _hypotheses(self, limits: np.ndarray, *results: np.ndarray) -> list[list[Hypothesis]]:
        raise NotImplementedError(f"{type(self).__name__} must override `_hypotheses`")

    def _limits(self, source: np.ndarray) -> np.ndarray:
        """int32 (B,): the most tokens of each sentence's hypotheses."""
        if not callable(self.max_length):
            limits = [self.max_length] * len(source)
        else:
            fix = "Let the function return a positive integer for any number of source ids, such as int(1.5 * n) + 10."
            lengths = np.count_nonzero(source != PAD, axis=1)
            limits = [self._size("max_length", self.max_length(int(length)), fix) for length in lengths]
        return np.minimum(limits, self._most).astype("int32")

    def _checked(self, source_ids: Any) -> np.ndarray:
        """`source_ids` as int32 (B, S)."""
        fix = "Pad the sentences with 0 to one length: integers (B, S)."
        try:
            source = np.asarray(source_ids)
        except ValueError as error:  # NumPy's, of lists of several lengths
            raise ValueError(f"{type(self).__name__} received `source_ids` that are no array: {error}. {fix}") from None
        if source.ndim != 2 or not (np.issubdtype(source.dtype, np.integer) or not source.size):
            self._refuse("source_ids", "integers (B, S)", f"{source.dtype} {source.shape}", fix)
        empty = np.flatnonzero(~np.any(source != PAD, axis=1))
        if len(empty):
            fix = "Leave such sentences out; a sentence has at least its end token, 2."
            self._refuse("source_ids", "sentences with ids", f"padding alone in rows {empty[:5].tolist()}", fix)
        settings = self.model.get_config()
        vocabulary, positions = settings["input_vocab_size"], settings["max_positional_encoding_input"]
        if source.size and not (source.min() >= 0 and source.max() < vocabulary):
            expected = f"ids from 0 to {vocabulary - 1}"
            fix = "Encode the text with the tokenizer that the model was trained with."
            self._refuse("source_ids", expected, f"ids from {source.min()} to {source.max()}", fix)
        if source.shape[1] > positions:
            expected = f"at most {positions} positions (S)"
            fix = "Split the sentence, or make the model with a larger `max_positional_encoding_input`."
            self._refuse("source_ids", expected, f"{source.shape[1]} positions", fix)
        return source.astype("int32")

    def _check_model(self, model: Any) -> None:
        if not all(hasattr(model, name) for name in ("start_cache", "step")):
            fix = "Pass the model itself, as kmha.layers.Transformer(...) returns it."
            self._refuse("model", "a kmha.layers.Transformer", type(model).__name__, fix)
        settings = model.get_config()
        if settings["pad_id"] != PAD:
            fix = "Make the model with pad_id=0."
            self._refuse("model", "a model whose padding is 0", f"a model with pad_id={settings['pad_id']}", fix)
        if settings["target_vocab_size"] <= END + 1:
            fix = "0 is padding, 1 start, 2 end, so that `target_vocab_size` is at least 4."
            received = f"a model with target_vocab_size={settings['target_vocab_size']}"
            self._refuse("model", "a model with a token besides padding, start and end", received, fix)

    def _refuse(self, argument: str, expected: str, received: str, fix: str) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} received an invalid value for argument `{argument}`, expected {expected}. "
            f"Received: {received}. {fix}"
        )

    def _size(self, argument: str, value: Any, fix: str) -> int:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
            raise arguments.invalid(type(self).__name__, argument, "a positive integer", value, fix)
        return int(value)

    def _number(self, argument: str, value: Any, expected: str, fits: Callable[[float], bool], fix: str) -> float:
        number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
        if not math.isfinite(number) or not fits(number):
            raise arguments.invalid(type(self).__name__, argument, expected, value, fix)
        return number


def emitted(logits: Any) -> Any:
    """The logits (N, V), minus infinity for what comes before the end token in the vocabulary: padding and start."""
    never = np.where(np.arange(logits.shape[-1]) < END, -np.inf, 0.0)
    return logits + tf.constant(never, logits.dtype)


def log_probability(logits: Any, largest: Any) -> Any:
    """That of the most probable token, (N,), of logits (N, V), where `largest` (N,) says which it is.

    It is not below log 1 / V, so that this loses nothing to rounding; `log_softmax` takes longer.
    """
    return tf.math.log(tf.gather(tf.nn.softmax(logits), largest, batch_dims=1))


def largest(x: Any, count: int) -> tuple[Any, Any]:
    """The `count` largest elements of every row of (N, W), from the largest on, and their places: (N, count) both.

    They lie in the `count` blocks whose own largest elements are largest. To look for those first takes less than half
    of `tf.math.top_k`'s time at W = 8,000 and count = 10.
    """
    width = x.shape[-1]
    blocks = -(-width // BLOCK)
    if blocks < 4 * count:
        return tf.math.top_k(x, min(count, width))
    if blocks * BLOCK > width:
        x = tf.pad(x, [[0, 0], [0, blocks * BLOCK - width]], constant_values=-np.inf)
    x = tf.reshape(x, [-1, blocks, BLOCK])
    _, chosen = tf.math.top_k(tf.reduce_max(x, axis=-1), count)  # (N, count)
    few = tf.reshape(tf.gather(x, chosen, batch_dims=1), [-1, count * BLOCK])
    values, places = tf.math.top_k(few, count)
    return values, tf.gather(chosen, places // BLOCK, batch_dims=1) * BLOCK + places % BLOCK


def growing(cache: dict[str, Any]) -> dict[str, Any]:
    """The shape invariants of a cache in a `tf.while_loop`: what grows, and `None` for what keeps its shape."""
    free = {name: [tf.TensorShape([None, x.shape[1], None, x.shape[3]]) for x in cache[name]] for name in GROWING}
    return {**{name: tf.nest.map_structure(lambda x: None, value) for name, value in cache.items()}, **free}
