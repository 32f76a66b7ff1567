"""One forward pass or training step of a layer, on the backend and the device that Keras computes with."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from kmha.bench.cases import AttentionRow

Run = Callable[[], list[Any]]


def prepare(row: AttentionRow, call: Any, variables: Sequence[Any], x: np.ndarray, upstream: np.ndarray) -> Run:
    """Return a function that runs one pass and waits for its results.

    Args:
        row: Row to measure, of the backend that Keras computes with.
        call: Function from the input (B, T, I) to the output (B, T, E).
        variables: Variables to differentiate by.
        x: Input (B, T, I).
        upstream: Gradient with respect to the output (B, T, E).

    Returns:
        Function that returns the output, and in a step also the gradients of the input and of the variables.
    """
    build = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": on_torch}[keras.backend.backend()]
    return build(row, call, variables, keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(upstream))


def waiting(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return `function`, but so that it returns only after the device has computed its results."""
    if keras.backend.backend() == "jax":
        import jax

        return lambda: jax.block_until_ready(function())
    if accelerator() and keras.backend.backend() == "torch":
        import torch

        def run() -> Any:
            results = function()
            torch.accelerator.synchronize()
            return results

        return run
    return function


def accelerator() -> str:
    """Return the name of the device that Keras computes with, or "" if it is the processor."""
    if keras.backend.backend() == "jax":
        import jax

        device = jax.devices()[0]
        return "" if device.platform == "cpu" else str(device.device_kind)
    if keras.backend.backend() == "torch":
        import torch

        if not torch.accelerator.is_available():
            return ""
        return (
            torch.cuda.get_device_name() if torch.cuda.is_available() else str(torch.accelerator.current_accelerator())
        )
    return ""


def precision(dtype: str) -> str:
    """Return the dtype by whose rounding contenders may differ: JAX's float32 products on a GPU have 10 bits."""
    return "float16" if dtype == "float32" and keras.backend.backend() == "jax" and accelerator() else dtype


def peak_on_device(function: Callable[[], Any]) -> int | None:
    """Return the most bytes that `function` takes on the device, or `None` if that is the processor.

    Raises:
        NotImplementedError: Only torch tells it, on CUDA. JAX tells the most since its start, which includes compiling.
    """
    if not accelerator():
        return None
    if keras.backend.backend() == "jax":
        raise NotImplementedError("JAX does not tell how much memory one pass takes on a GPU")
    import torch

    if not torch.cuda.is_available():
        raise NotImplementedError(f"torch does not tell how much memory one pass takes on {accelerator()}")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    function()
    return int(torch.cuda.max_memory_allocated() - start)


def product(size: int, dtype: str) -> Callable[[], Any]:
    """Return a function that multiplies two matrices (size, size) of a dtype.

    >>> product(7, "float32")().shape
    TensorShape([7, 7])
    """
    generator = np.random.default_rng(0)
    left, right = (keras.ops.cast(generator.standard_normal((size, size), dtype="float32"), dtype) for _ in range(2))
    multiply: Callable[..., Any] = keras.ops.matmul
    if keras.backend.backend() == "jax":
        import jax

        multiply = jax.jit(multiply)
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        multiply = tf.function(tf.matmul, autograph=False).get_concrete_function(left, right)
    return waiting(lambda: multiply(left, right))


def _values(variables: Sequence[Any]) -> list[Any]:
    return [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]


def _on_tensorflow(row: AttentionRow, call: Any, variables: Sequence[Any], x: Any, upstream: Any) -> Run:
    import tensorflow as tf

    values = _values(variables)

    def forward(x: Any, upstream: Any) -> list[Any]:
        return [call(x)]

    def step(x: Any, upstream: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = call(x)
            loss = tf.reduce_sum(tf.cast(output, upstream.dtype) * upstream)
        return [output, *tape.gradient(loss, [x, *values])]

    function = step if row.step else forward
    if row.mode != "eager":
        # Each row needs its own trace. A concrete function keeps TensorFlow from warning about many traces.
        traced = tf.function(function, autograph=False, jit_compile=row.mode == "xla")
        function = traced.get_concrete_function(x, upstream)
    return lambda: function(x, upstream)


def _on_jax(row: AttentionRow, call: Any, variables: Sequence[Any], x: Any, upstream: Any) -> Run:
    import jax

    def forward(x: Any, values: list[Any], upstream: Any) -> list[Any]:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return [call(x)]

    def loss(x: Any, values: list[Any], upstream: Any) -> tuple[Any, list[Any]]:
        outputs = forward(x, values, upstream)
        return (outputs[0].astype(upstream.dtype) * upstream).sum(), outputs

    def step(x: Any, values: list[Any], upstream: Any) -> list[Any]:
        (d_x, d_values), outputs = jax.grad(loss, argnums=(0, 1), has_aux=True)(x, values, upstream)
        return [*outputs, d_x, *d_values]

    function, values = step if row.step else forward, _values(variables)
    if row.mode == "xla":
        function = jax.jit(function)
    return waiting(lambda: function(x, values, upstream))


def on_torch(row: AttentionRow, call: Any, variables: Sequence[Any], x: Any, upstream: Any) -> Run:
    """Return what `prepare` returns, for tensors of torch, whatever backend Keras computes with."""
    import torch

    values = _values(variables)
    x.requires_grad_(row.step)

    def forward() -> list[Any]:
        with torch.inference_mode():
            return [call(x)]

    def step() -> list[Any]:
        output = call(x)
        return [output.detach(), *torch.autograd.grad((output * upstream).sum(), [x, *values])]

    return waiting(step if row.step else forward)
