"""The whole models to measure, which are made of the layers of Keras, kmha, KerasHub and torch.

All models start from the same weights and get the same ids. With the same seed, the layers of Keras and kmha also draw
the same numbers for dropout. So their training losses must agree, before and after a step of the optimizer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from kmha.bench import builtin_model
from kmha.bench.cases import BUILTIN, OURS, ModelRow
from kmha.bench.contenders import Arrays, Contender
from kmha.layers import Transformer

SEED = 0
START, FIRST = 1, 3  # ids below `FIRST` are padding, start and end tokens, as in `kmha.translation`


class Translation(NamedTuple):
    """The parts of `kmha.translation` that models need. The command line passes them, as bench cannot import them."""

    task: Callable[[Any, float], Any]  # a `Transformer` and the label smoothing to the `keras.Model` to train
    greedy: Callable[[Any, int], Callable[[Any], Any]]  # a `Transformer` and a length to a decoder: (B, S) to (B × 1)


class ModelInputs(NamedTuple):
    """The ids that all contenders of a row get, of shapes (B, S), (B, T) and (B, T), without padding."""

    source: np.ndarray
    target: np.ndarray
    following: np.ndarray
    translation: Translation


def draw_inputs(row: ModelRow, translation: Translation, seed: int = SEED) -> ModelInputs:
    """Return random inputs. The same row and seed always give the same inputs."""
    generator = np.random.default_rng(seed)

    def ids(length: int) -> np.ndarray:
        return generator.integers(FIRST, row.vocabulary, (row.batch, length), dtype="int32")

    return ModelInputs(ids(row.source), ids(row.length), ids(row.length), translation)


def reason_against(name: str, row: ModelRow, memory: int | None) -> str | None:
    """Return the reason why a contender cannot run a row, or `None` if it can."""
    return "torch.nn has no decoder with a cache" if name == "torch" and not row.step else None


def build(name: str, row: ModelRow, given: ModelInputs) -> Contender:
    """Return a contender, built for a row and its inputs."""
    keras.utils.set_random_seed(SEED)
    if name == OURS:
        return _ours(row, given)
    model, *parts = builtin_model.builtin(row)
    if not row.step:
        _silence(model.embedding.bias)
    if name == "torch":
        return _torch(row, given, model, parts)
    if name == "keras_hub":
        from kmha.bench import keras_hub_model

        model = keras_hub_model.HubModel(row, model.embedding, *parts)
        decode = keras_hub_model.caching(model, row, START)
    else:
        decode = builtin_model.recomputing(model, row, START)
    if row.step:
        return _trained(name, builtin_model.compiled(model.whole, row), given)
    source = tf.constant(given.source)
    return _decoded(name, lambda: decode(source).numpy())


def _ours(row: ModelRow, given: ModelInputs) -> Contender:
    sizes = row.layers, row.width, row.heads, row.feed_forward, row.vocabulary, row.vocabulary, row.source, row.length
    model = Transformer(*sizes, row.rate, tie_embeddings="all", final_activation=None)
    model.build()
    if row.step:
        task = given.translation.task(model, row.smoothing)
        task.compile("adam", jit_compile=False)
        return _trained(OURS, task, given)
    _silence(model.output_bias)
    search = given.translation.greedy(model, row.length)
    return _decoded(OURS, lambda: np.array([best.ids for [best] in search(given.source)]))


def _trained(name: str, model: Any, given: ModelInputs) -> Contender:
    x, y = [tf.constant(ids) for ids in (given.source, given.target)], tf.constant(given.following)
    model.optimizer.build(model.trainable_variables)  # otherwise the first step creates them, and is traced twice

    def loss() -> float:
        model.reset_metrics()  # otherwise the loss is a mean over all calls
        value = model.test_on_batch(x, y, return_dict=True)["loss"]
        model.reset_metrics()
        return float(value)

    before = loss()

    def results(first: list[Any]) -> Arrays:
        found = {"loss": before}
        if name in (BUILTIN, OURS):  # other contenders drop in more places and draw other numbers
            found |= {"loss in training": float(first[0]), "loss after a step": loss()}
        return {key: np.array(value) for key, value in found.items()}

    return Contender(name, lambda: [model.train_on_batch(x, y, return_dict=True)["loss"]], results)


def _torch(row: ModelRow, given: ModelInputs, model: Any, parts: list[Any]) -> Contender:
    from kmha.bench import torch_weights
    from kmha.bench.torch_process import TorchProcess

    state = torch_weights.state_of(model.embedding, *parts)
    theirs = TorchProcess(row, builtin_model.EPSILON, state, given[:3])
    before = {"loss": np.array(theirs.evaluate())}
    return Contender("torch", lambda: [theirs.step()], lambda first: before)


def _silence(bias: Any) -> None:
    """Make padding, start and end tokens improbable, so that all contenders decode the same number of tokens."""
    bias.assign(np.where(np.arange(bias.shape[0]) < FIRST, -1e9, 0.0))


def _decoded(name: str, decode: Callable[[], np.ndarray]) -> Contender:
    return Contender(name, lambda: [decode()], lambda found: {"tokens": found[0]})
