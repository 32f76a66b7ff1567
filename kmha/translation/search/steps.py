"""The steps of a model for the searches, which compute with TensorFlow whichever backend the model computes with."""

from collections.abc import Callable
from typing import Any

from kmha.translation.lazy import leave_gpus, np, tf


def steps_of(model: Any) -> "Steps":
    """Return the steps of a model."""
    import keras

    backend = keras.backend.backend()
    if backend != "tensorflow":
        leave_gpus()
    return {"tensorflow": Steps, "jax": CompiledSteps, "torch": EagerSteps}[backend](model)


class Steps:
    """The steps of a model on TensorFlow, which can be part of a TensorFlow function.

    Args:
        model: A `kmha.layers.Transformer`.
    """

    def __init__(self, model: Any) -> None:
        from kmha.core.tensors import at_least_float32

        self._model = model
        self.dtype = at_least_float32(model.compute_dtype)  # of the logits

    def start(self, source: Any, beams: int, length: Any) -> Any:
        """Return the cache for source ids (B, S), `beams` hypotheses per sentence and at most `length` steps."""
        return self._model.start_cache(source, beams=beams)

    def step(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        """Return the logits (N, V) after the tokens `ids` (N,), and the next cache."""
        return self._model.step(ids, cache)

    def take(self, cache: Any, rows: Any) -> Any:
        """Return the cache with the hypotheses at the indices `rows` (N,)."""
        from kmha.layers.cache import take

        return take(cache, rows)


class EagerSteps(Steps):
    """The steps of a model on torch. Ids and logits pass between the libraries as NumPy arrays."""

    def start(self, source: Any, beams: int, length: Any) -> Any:
        return self._run(super().start, np.asarray(source), beams, length)

    def step(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        from keras import ops

        logits, cache = self._run(super().step, np.asarray(ids), cache)
        return tf.constant(ops.convert_to_numpy(logits)), cache

    def take(self, cache: Any, rows: Any) -> Any:
        return self._run(super().take, cache, np.asarray(rows))

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        import torch

        with torch.no_grad():
            return function(*arguments)


class CompiledSteps(Steps):
    """The steps of a model on JAX, which compiles a step for each shape of its inputs.

    The numbers of sentences, source ids and steps are rounded up, which leaves few shapes. The steps run on one device,
    with the weights that the model has when a search starts.
    """

    def __init__(self, model: Any) -> None:
        import jax

        super().__init__(model)
        self._start = jax.jit(self._with(model.start_cache), static_argnums=(2, 3))
        self._step = jax.jit(self._with(model.step), donate_argnums=2)
        self._take = jax.jit(super().take)
        self._weights: list[Any] = []

    def start(self, source: Any, beams: int, length: Any) -> Any:
        import jax

        from kmha.translation.batches import padded, rounded_up

        self._model.build()  # the weights, which the functions take as arguments
        settings = self._model.get_config()
        width = min(rounded_up(source.shape[1]), settings["max_positional_encoding_input"])
        most = min(rounded_up(int(length)), settings["max_positional_encoding_target"])
        device = jax.local_devices()[0]
        self._weights = [jax.device_put(np.asarray(one.value), device) for one in self._model.variables]
        return self._start(self._weights, padded(source, rounded_up(len(source)), width), beams, most)

    def step(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        count, rows = len(ids), cache["keys"][0].shape[0]
        logits, cache = self._step(self._weights, np.pad(ids, (0, rows - count)), cache)
        return tf.constant(np.asarray(logits)[:count]), cache

    def take(self, cache: Any, rows: Any) -> Any:
        rest = np.arange(len(rows), cache["keys"][0].shape[0])
        return self._take(cache, np.concatenate([rows, rest]))

    def _with(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the weights and the method's arguments, because JAX would compile weights in."""
        import keras

        def function(weights: Any, *arguments: Any) -> Any:
            with keras.StatelessScope(state_mapping=list(zip(self._model.variables, weights, strict=True))):
                return method(*arguments)

        return function
