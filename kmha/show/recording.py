"""`capture`, which records the attention scores of the layers of any Keras model while it is called."""

import bisect
import collections
import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.show import calculation
from kmha.show.calculation import Calculation

# Functions that a model keeps after it has compiled them. One compiled earlier records nothing.
COMPILED = "train_function", "test_function", "predict_function", "generate_function"


class Captured(Mapping[str, np.ndarray]):
    """The scores that `capture` recorded, by name of the layer. It has the layers that were called.

    `captured[name]` joins all calls of a layer:

    - Calls with T = 1 and the same B are steps of decoding, joined along T. If S grows, zeros follow the earlier steps.
    - Calls with the same T and S are batches, joined along B.
    - A search of `kmha.translation` is one call. B counts the hypotheses that it returned, sentence by sentence, best
      first. Row t is from the step that chose token t. Zeros follow the last step of a shorter hypothesis.
      `Translator.translate` searches for sentences of similar length together, beginning with the longest ones.

    For other calls, for batches with T = 1, and for a layer that the model calls twice, see `calls`.

    Attributes:
        names: The names of all recorded layers, also of those not called.
        calls: The scores (B, H, T, S) of every call of each layer, in order.
        steps: The calculation of the calls without a cache, for layers chosen with `steps`: see `Calculation`. Calls of
            the same shapes are joined along B, as batches of `predict` are; otherwise, the last call counts. The
            weights are those at the end of the block.

    >>> captured = Captured(["decoder", "encoder"])
    >>> captured.calls["decoder"] = [np.ones((2, 3, 1, 1)), np.full((2, 3, 1, 2), 0.5)]
    >>> list(captured), captured["decoder"].shape
    (['decoder'], (2, 3, 2, 2))
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.calls: dict[str, list[np.ndarray]] = {name: [] for name in self.names}
        self.steps: dict[str, Calculation] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        calls = self.calls.get(name)
        if not calls:
            reason = "was not called" if name in self.calls else "is not recorded"
            raise KeyError(f"capture: the layer {name!r} {reason}. There are scores of: {', '.join(self) or 'none'}.")
        shapes = [call.shape for call in calls]
        if len(calls) > 1 and all(shape[-2] == 1 and shape[:-1] == shapes[0][:-1] for shape in shapes):
            longest = max(shape[-1] for shape in shapes)
            return np.concatenate([_padded(call, 0, longest) for call in calls], axis=-2)
        if any(shape[1:] != shapes[0][1:] for shape in shapes):
            raise ValueError(
                f"capture: the calls of {name!r} cannot be joined. Expected the same T and S in every call, or T = 1 "
                f"and the same B. Received the shapes {', '.join(map(str, shapes))}. Take one of them, "
                f"captured.calls[{name!r}][0], or call the model once inside the block."
            )
        return calls[0] if len(calls) == 1 else np.concatenate(calls)

    def __iter__(self) -> Iterator[str]:
        return (name for name, calls in self.calls.items() if calls)

    def __len__(self) -> int:
        return sum(map(bool, self.calls.values()))

    def __contains__(self, name: object) -> bool:
        return bool(self.calls.get(name))  # type: ignore[call-overload]

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {' '.join(str(call.shape) for call in calls)}" for name, calls in self.calls.items())
        return f"Captured({text})"


@contextlib.contextmanager
def capture(
    model: Any, layers: Iterable[str] | None = None, *, steps: Iterable[str] | bool = False
) -> Iterator[Captured]:
    """Record the scores of attention layers during ordinary calls, `predict`, `evaluate`, `fit` or decoding.

    It reads `kmha.MultiHeadAttention`, the attention layers of Keras and their subclasses, and other layers with a
    method `_compute_attention(query, key, value, …)`, as KerasHub has. `keras.layers.Attention` and
    `AdditiveAttention` count as one head. Scores are those before dropout. bfloat16 becomes float32.

    A search of `kmha.translation` with several beams records the hypotheses that it returns. `generate` of KerasHub
    records what its sampler computes: at each step, all beams in their order at that step, and not the sentence that
    won. To get its scores, call the model on the generated ids inside the block.

    The model's outputs and random numbers stay the same, and nothing of the recorder remains in the model. Compiled
    code is compiled again for the block. Its outputs may then differ in rounding. On TensorFlow, it is compiled
    without XLA, which cannot record. A layer that does not compute scores computes attention twice. Only one thread at
    a time may record a model. Export a model outside of the block.

    Args:
        model: Model or layer to record. Give the whole model whose `predict` you call, and choose with `layers`.
        layers: Names of the layers to record. `None` means all. The names are those of the layers on the way from the
            model to the attention. In the encoder and decoder of `kmha.layers.Transformer`, the names are those of the
            scores that these return.
        steps: Names of the layers whose inputs, masks and weights to record too, or `True` for all layers. `page` then
            shows how the scores and the output are computed. The layers must be `kmha.MultiHeadAttention` or
            `keras.layers.MultiHeadAttention`.

    Yields:
        A `Captured`, a mapping of names to arrays (B, H, T, S), which `kmha.show.layers` draws.

    Raises:
        TypeError: `model` is not a Keras layer.
        ValueError: The model has no attention layer, a name is unknown, a layer's scores cannot be read, nothing was
            called inside the block, or JAX distributes the model.

    >>> import keras, kmha
    >>> model = keras.Sequential([keras.layers.Embedding(13, 6), kmha.layers.EncoderLayer(6, 3, 8, name="block")])
    >>> with capture(model) as captured:
    ...     output = model(keras.ops.ones((2, 5), dtype="int32"))
    >>> {name: scores.shape for name, scores in captured.items()}
    {'block/mha': (2, 3, 5, 5)}
    """
    import keras

    if not isinstance(model, keras.Layer):
        raise TypeError(f"capture: expected a Keras model or layer. Received: {type(model).__name__}.")
    if keras.backend.backend() == "jax" and keras.distribution.distribution() is not None:
        raise ValueError(
            "capture: JAX records on one device only. Received a distribution over several. Call "
            "keras.distribution.set_distribution(None) before, and make the model anew."
        )
    chosen = _chosen(model, layers)
    stepped = chosen if steps is True else _chosen(model, steps) if steps else {}
    for name, layer in stepped.items():
        calculation.check(name, layer)
    chosen |= stepped
    captured, recorder = Captured(chosen), _Recorder()
    inputs: dict[str, list[list[np.ndarray]]] = {}
    with contextlib.ExitStack() as stack:
        for part in model._flatten_layers():
            stack.enter_context(_compiled_again(part))
        for name, layer in stepped.items():
            stack.enter_context(_recording_inputs(name, layer, inputs, recorder))
        for name, layer in chosen.items():
            stack.enter_context(_recording(layer, captured.calls[name], recorder))
        stack.callback(recorder.close)
        yield captured
    captured.steps |= {name: calculation.of(chosen[name], *_joined(calls)) for name, calls in inputs.items()}
    if not captured:
        raise ValueError(
            f"capture: nothing was recorded. Expected a call of {', '.join(chosen)} inside the block. Call `model` "
            "there, or its predict. If you call the predict of a larger model, capture that model, and choose with "
            "layers=[…]. A function that tf.function or jax.jit compiled before the block, or any function that "
            "TensorFlow compiles with XLA (jit_compile=True), records nothing: call the model outside of it."
        )


class _Recorder:
    """Takes scores from the backend until it is closed, also from compiled code."""

    def __init__(self) -> None:
        import keras

        self.open = True
        self.order: dict[int, list[int]] = collections.defaultdict(list)  # numbers of the calls in a list, by its id
        self.counter: Any = None  # numbers the calls on TensorFlow, which orders changes of a variable, but not others
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.device("CPU:0"):
                self.counter = tf.Variable(0, trainable=False, dtype="int64")

    def close(self) -> None:
        _wait()
        self.open = False

    def wants(self) -> bool:
        """Tell whether a call is to be recorded. Keras also calls layers to find out shapes."""
        import keras
        from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope
        from keras.src.backend.common.symbolic_scope import in_symbolic_scope  # Keras has no public names for these

        if not self.open or in_symbolic_scope():
            return False
        if in_stateless_scope() and not get_stateless_scope().state_mapping:  # a call that only makes the weights
            return False
        from kmha.core import eager

        return keras.backend.backend() != "tensorflow" or eager.is_without_xla()

    def take(self, calls: list[np.ndarray], scores: Any, last: Any = None) -> None:
        """Append the scores (B, H, T, S) to `calls`, when the backend has computed them.

        `last` is the position of the last key. If it is at least S, zeros stand for the keys before.
        """
        import keras

        if isinstance(scores, keras.KerasTensor):
            return

        def append(scores: np.ndarray, number: Any, last: Any = None) -> None:
            if self.open:
                size = scores.shape[-1] if last is None else int(last) + 1
                order = self.order[id(calls)]
                at = bisect.bisect(order, int(number))
                order.insert(at, int(number))
                calls.insert(at, _padded(np.array(scores), size - scores.shape[-1], size))

        values = [scores, 0 if self.counter is None else self.counter.assign_add(1)]
        values += [] if last is None else [last]
        self.hand(append, values)

    def hand(self, take: Callable[..., None], values: list[Any]) -> None:
        """Call `take` with arrays, when the backend has computed the `values`."""
        import keras
        from keras import ops

        values = [
            ops.cast(value, "float32") if "bfloat16" in str(getattr(value, "dtype", "")) else value for value in values
        ]  # NumPy has no bfloat16
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            if not tf.executing_eagerly():
                tf.numpy_function(take, values, [])
                return
        elif keras.backend.backend() == "jax":
            import jax

            if any(isinstance(value, jax.core.Tracer) for value in values):
                jax.debug.callback(take, *values, ordered=True)
                return
        take(*map(ops.convert_to_numpy, values))

    def choose(self, calls: list[np.ndarray], rows: np.ndarray, keys: int) -> None:
        """Replace the last calls, which are the steps of a search, by one call with the sequences that it chose.

        Args:
            calls: The calls (N, H, T, S) of a layer.
            rows: Index along N that each chosen sequence had at each step (C, steps), and -1 after its last step.
            keys: Number of keys (S). Keys beyond them are padding, and in an encoder also queries.
        """
        if not self.open:
            return
        _wait()
        steps = rows.shape[1]
        parts = []
        for call, row in zip(calls[-steps:], rows.T, strict=True):
            if (row >= 0).any():
                chosen = call[row, :, :keys, :keys] * (row >= 0)[:, None, None, None]
                parts.append(_padded(chosen, 0, keys))
        calls[-steps:] = [np.concatenate(parts, axis=-2)]
        order = self.order[id(calls)]
        order[-steps:] = order[-1:]


@contextlib.contextmanager
def _recording_inputs(
    name: str, layer: Any, inputs: dict[str, list[list[np.ndarray]]], recorder: _Recorder
) -> Iterator[None]:
    """Let the layer hand its inputs and its mask to the recorder."""

    def keep(*arrays: np.ndarray) -> None:
        if recorder.open:
            inputs.setdefault(name, []).append([*map(np.array, arrays)])

    def take(*tensors: Any) -> None:
        if recorder.wants():
            recorder.hand(keep, [*tensors])

    call, compute = calculation.recorded(layer, layer._compute_attention, take)
    with _attribute(layer, "call", call), _attribute(layer, "_compute_attention", compute):
        yield


def _joined(calls: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the inputs and the mask of all calls along B, or those of the last call if their shapes differ."""
    calls = [[x if x.ndim > 2 else x[None] for x in call] for call in calls]
    last = calls[-1]
    if any([x.shape[1:] for x in call] != [x.shape[1:] for x in last] for call in calls):
        return last
    whole = [[np.broadcast_to(x, (len(call[0]), *x.shape[1:])) for x in call] for call in calls]
    return [np.concatenate(arrays) for arrays in zip(*whole, strict=True)]


@contextlib.contextmanager
def _recording(layer: Any, calls: list[np.ndarray], recorder: _Recorder) -> Iterator[None]:
    """Let the layer hand its scores to the recorder."""
    name: Any = _method(layer)
    before = getattr(layer, name)
    plain = getattr(before, "plain", before)  # the layer's own method, where another capture surrounds this one
    signature = inspect.signature(plain)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        given = _copied(signature.bind(*args, **kwargs)) if recorder.wants() else None
        outputs = before(*args, **kwargs)
        if given is not None:
            scores = _returned(outputs)
            if scores is None or given.arguments.get("training"):
                with _without_gradient():
                    scores = _scores(layer, plain, given)
            if len(scores.shape) < 3:
                raise _unreadable(layer, f"scores with {len(scores.shape)} axes")
            recorder.take(calls, scores[..., None, :, :] if len(scores.shape) == 3 else scores)
        return outputs

    recorded.plain = plain  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_attribute(layer, name, recorded))
        if hasattr(layer, "_observe"):
            outer = layer._observe

            def observe(scores: Any, last: Any = None) -> None:
                if outer is not None:
                    outer(scores, last)
                if recorder.wants():
                    recorder.take(calls, scores, last)

            outer_search = layer._observe_search

            def observe_search(rows: np.ndarray, keys: int) -> None:
                if outer_search is not None:
                    outer_search(rows, keys)
                recorder.choose(calls, rows, keys)

            stack.enter_context(_attribute(layer, "_observe", observe))
            stack.enter_context(_attribute(layer, "_observe_search", observe_search))
        yield


def _scores(layer: Any, method: Any, given: inspect.BoundArguments) -> Any:
    """Compute the scores (B, H, T, S) with the arguments of a call, without dropout."""
    names = given.signature.parameters
    if "training" in names:
        given.arguments["training"] = False
    if "return_attention_scores" in names:
        given.arguments["return_attention_scores"] = True
    with contextlib.ExitStack() as stack:
        # Fused kernels return no scores. GroupQueryAttention reads the flag from an attribute.
        for name, value in (("_flash_attention", False), ("_return_attention_scores", True)):
            if name in vars(layer):
                stack.enter_context(_attribute(layer, name, value))
        outputs = method(*given.args, **given.kwargs)
        scores = _returned(outputs)
        return _from_values(layer, method, given) if scores is None else scores


def _returned(outputs: Any) -> Any:
    """Return the scores among the outputs of a layer's method, or `None`."""
    return outputs[1] if isinstance(outputs, tuple) and len(outputs) > 1 else None


def _from_values(layer: Any, method: Any, given: inspect.BoundArguments) -> Any:
    """Compute the scores as the mixed values of an identity matrix, O of its columns at a time."""
    from keras import ops

    name = [*given.signature.parameters, "", "", ""][2]
    value: Any = given.arguments.get(name)  # (B, S, H, O)
    if len(getattr(value, "shape", ())) != 4:
        raise _unreadable(layer, f"the arguments {given.signature}")
    length, width = ops.shape(value)[1], value.shape[-1]

    def columns(start: Any) -> Any:
        chosen = ops.equal(ops.arange(length)[:, None], start + ops.arange(width)[None])  # (S, O)
        call = _copied(given)
        call.arguments[name] = ops.broadcast_to(ops.cast(chosen, value.dtype)[:, None], ops.shape(value))
        mixed = method(*call.args, **call.kwargs)
        return mixed[0] if isinstance(mixed, tuple) else mixed  # (B, T, H, O)

    parts = ops.map(columns, ops.arange(0, length, width))
    if len(parts.shape) != 5:
        raise _unreadable(layer, f"mixed values with {len(parts.shape) - 1} axes")
    parts = ops.transpose(parts, (1, 3, 2, 0, 4))  # (B, H, T, S / O, O)
    batch, heads, rows, *_ = ops.shape(parts)
    return ops.reshape(parts, (batch, heads, rows, -1))[..., :length]


def _unreadable(layer: Any, received: str) -> ValueError:
    return ValueError(
        f"capture: the scores of {layer.name!r} ({type(layer).__name__}) cannot be read. Expected of its method "
        "`_compute_attention` that it takes query, key and value (B, S, H, O), and returns mixed values (B, T, H, O), "
        f"or mixed values and scores (B, H, T, S). Received: {received}. Record other layers: layers=[…]."
    )


@contextlib.contextmanager
def _compiled_again(part: Any) -> Iterator[None]:
    """Let a model forget what it has compiled. At the end, restore that, unless `compile` was called in between."""
    import keras

    own = vars(part)
    before = own.get("_compile_config")
    stack = contextlib.ExitStack()
    for name in COMPILED:
        if name in own:
            stack.enter_context(_attribute(part, name, None))
    if keras.backend.backend() == "tensorflow" and "_jit_compile" in own:
        stack.enter_context(_attribute(part, "_jit_compile", False))
    try:
        yield
    finally:
        anew = dict.fromkeys(COMPILED) | {"_jit_compile": own.get("_jit_compile")}
        stack.close()
        if own.get("_compile_config") is not before:
            own |= {name: value for name, value in anew.items() if name in own}


@contextlib.contextmanager
def _attribute(layer: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of the instance, without Keras' tracking, and restore it at the end."""
    own = vars(layer)
    before = own.get(name, own)  # `own` stands for no value
    own[name] = value
    try:
        yield
    finally:
        if name in own and own[name] is not value:  # Keras has set another one, which TensorFlow may track
            delattr(layer, name)
        own.pop(name, None)
        if before is not own:
            own[name] = before


def _copied(given: inspect.BoundArguments) -> inspect.BoundArguments:
    """Return the arguments of a call, on torch with copies of the tensors, which some layers change in place."""
    copies = {name: value.clone() if hasattr(value, "clone") else value for name, value in given.arguments.items()}
    return inspect.BoundArguments(given.signature, copies)


def _wait() -> None:
    """Wait for the callbacks of compiled code, for which JAX does not wait."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        jax.effects_barrier()


def _without_gradient() -> Any:
    """Return a context in which torch keeps nothing for a backward pass."""
    import keras

    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def _padded(scores: np.ndarray, before: int, size: int) -> np.ndarray:
    """Return the scores with zeros for `before` keys in front, and behind for keys up to `size`."""
    width = before, size - before - scores.shape[-1]
    return np.pad(scores, [(0, 0)] * (scores.ndim - 1) + [width])


def _method(layer: Any) -> str | None:
    """Return the name of the method with which the layer computes attention, or `None` if it has none."""
    import keras

    if isinstance(layer, keras.layers.Attention):
        return "_apply_scores"
    return "_compute_attention" if hasattr(layer, "_compute_attention") else None


def _chosen(model: Any, names: Iterable[str] | None) -> dict[str, Any]:
    """Return the attention layers to record, by name.

    Raises:
        ValueError: There is none, or a name is unknown.
    """
    found = _attention_layers(model)
    if not found:
        kinds = sorted({type(layer).__name__ for layer in model._flatten_layers()})
        raise ValueError(
            f"capture: there is no attention layer in {model.name!r}. Expected kmha.MultiHeadAttention, an attention "
            "layer of Keras, or another with a method `_compute_attention`. Received a model of: "
            f"{', '.join(kinds)}. A model that was never called may not have made its layers yet: call it once first."
        )
    names = [names] if isinstance(names, str) else list(found if names is None else names)
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(str(name), found, 1, 0)
            raise ValueError(
                f"capture: expected names of attention layers of {model.name!r}. Received: {name!r}. Did you mean "
                f"{near[0]!r}? The names are: {', '.join(found)}."
            )
    if not names:
        raise ValueError(f"capture: expected at least one name in `layers`. The names are: {', '.join(found)}.")
    return {name: found[name] for name in names}


def _attention_layers(model: Any) -> dict[str, Any]:
    """Return all attention layers of a model by name, in the order in which the model has them.

    >>> import kmha
    >>> list(_attention_layers(kmha.layers.Transformer(1, 6, 3, 7, 11, 12, 20, 21)))
    ['encoder_layer1_self_att', 'decoder_layer1_block1_self_att', 'decoder_layer1_block2_decenc_att']
    """
    from kmha.layers.transformer_blocks import BlockStack

    found: dict[str, Any] = {}
    names: dict[int, str] = {}  # of the scores of stacks
    for stack in model._flatten_layers():
        for number, block in enumerate(stack._blocks if isinstance(stack, BlockStack) else (), 1):
            inside = [layer for layer in block._flatten_layers() if _method(layer)]
            names |= {id(layer): name for name, layer in zip(stack._names(number), inside, strict=True)}
    seen: set[int] = set()

    def walk(layer: Any, path: str) -> Iterator[tuple[str, Any]]:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        if _method(layer):
            yield names.get(id(layer)) or path or layer.name, layer
            return
        for inner in layer._layers:
            yield from walk(inner, f"{path}/{inner.name}" if path else inner.name)

    for name, layer in walk(model, ""):
        number = 1
        unique = name
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found[unique] = layer
    return found
