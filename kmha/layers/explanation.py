"""The path and the costs of a call of `MultiHeadAttention`, computed without making the call."""

import dataclasses
import math
from typing import Any

import keras

from kmha.core import axes, planning
from kmha.core.folding import Folding
from kmha.layers import checks
from kmha.layers.checks import Shape

# Bytes per element of inputs and outputs. A score takes at least four bytes.
_ITEMSIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class Step:
    """One of the four equations, with its sizes and FLOPs (a multiplication and an addition count as two FLOPs)."""

    name: str
    equation: str
    sizes: str
    flops: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The path and the costs of a call, which `print` shows as text.

    Attributes:
        path: Name of the way to compute attention (see `kmha.core.planning.choose`).
        reason: The reason for this path, in a few words.
        steps: The four equations with sizes and FLOPs.
        parameters: Number of trainable parameters.
    """

    path: str
    reason: str
    steps: tuple[Step, ...]
    parameters: int
    _request: planning.Request
    _widths: tuple[int, int]  # bytes per query, and bytes per key with its value, in a forward pass

    @property
    def training(self) -> bool:
        """Tell whether `peak_bytes` is the peak memory of a training step."""
        return self._request.training

    @property
    def forward_flops(self) -> int:
        """FLOPs of a forward pass, without pairs of positions that a causal mask or a window hides."""
        return sum(step.flops for step in self.steps)

    @property
    def step_flops(self) -> int:
        """FLOPs of forward and backward pass, without recomputed scores. Each product has two gradients."""
        return 3 * self.forward_flops

    @property
    def peak_bytes(self) -> int:
        """Approximate peak memory of the call, without inputs and weights."""
        return self.bytes_on(self.path)

    def bytes_on(self, path: str, length: int | None = None) -> int:
        """Return `peak_bytes` as it would be on `path`, with T (and S, if it equals T) changed to `length` if given."""
        request = self._request
        if length is not None:
            same = request.columns == request.rows
            request = dataclasses.replace(request, rows=length, columns=length if same else request.columns)
        rows, columns = request.rows or 0, request.columns or 0
        linear = (request.batch or 1) * (rows * self._widths[0] + columns * self._widths[1])
        return linear * (3 if self.training else 1) + planning.working_bytes(request, path)

    def largest_length(self, memory: int) -> dict[str, int]:
        """Return, for each path, the approximate maximum T (and S, if it equals T) that fits into `memory`.

        Args:
            memory: Number of bytes.

        Raises:
            ValueError: If `memory` is not a positive number.
        """
        if isinstance(memory, bool) or not isinstance(memory, int | float) or not memory > 0:
            raise ValueError(f"memory: expected a number of bytes above 0. Received: {memory!r}. 8 GiB are 8 * 2**30.")
        lengths = {}
        for path in planning.PATHS[self._request.backend]:
            low, high = 0, 1
            while self.bytes_on(path, high) <= memory:
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.bytes_on(path, middle) <= memory else (low, middle)
            lengths[path] = low
        return lengths

    def __str__(self) -> str:
        rows = [(step.name, step.equation, step.sizes, f"{step.flops:,}") for step in self.steps]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"path: {self.path} ({self.reason})"]
        for row in rows:
            *texts, number = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            lines.append("  ".join([*texts, number.strip().rjust(widths[-1])]))
        kind = "training step" if self.training else "forward pass"
        flops = self.step_flops if self.training else self.forward_flops
        lines.append(f"{flops:,} FLOPs in a {kind}, {self.parameters:,} parameters")
        others = ", ".join(f"{path} {_readable(self.bytes_on(path))}" for path in planning.PATHS[self._request.backend])
        lines.append(f"approximate peak memory of a {kind}: {others}")
        return "\n".join(lines)


def explain(layer: Any, query: Shape, value: Shape, key: Shape, call: dict[str, bool]) -> Explanation:
    """Compute `MultiHeadAttention.explain` for shapes, and for the arguments of that method in `call`.

    Raises:
        ValueError: If a shape is invalid, or if T or S is unknown.
    """
    folding = Folding.of(len(query), layer.attention_axes)
    checks.check_flash(layer.name, layer._flash, call["return_attention_scores"])
    checks.check_widths_known(layer.name, query, value, key)
    if layer._widths:
        checks.check_widths(layer.name, layer._widths, query, value, key)
    checks.check_batch_axes(layer.name, folding, query, value, key)
    rows, columns = (math.prod(shape[axis] or 0 for axis in folding.attention_axes) for shape in (query, key))
    if not rows or not columns:
        raise ValueError(
            f"{layer.name}: explain needs the number of positions. Received: query_shape={query}, value_shape={value}. "
            "Give numbers for T and S, such as (8, 512, 64). B may be None and then counts as one."
        )
    backend = keras.backend.backend()
    batches = [query[axis] for axis in folding.batch_axes]
    batch = None if None in batches else math.prod(batches)
    request = planning.Request(
        *(batch, rows, columns, layer.num_heads),
        backend=backend,
        itemsize=max(4, _ITEMSIZES[layer.compute_dtype]),
        causal=call["use_causal_mask"],
        window=layer._sliding_window,
        dropout=call["training"] and layer.dropout > 0,
        return_scores=call["return_attention_scores"],
        training=call["training"],
        fusable=planning.fusable(backend, layer.compute_dtype, layer.key_dim, layer._value_dim, layer._flash),
        flash=layer._flash,
        eager=call["eager"] and backend == "tensorflow",
    )
    plan = _plan(layer, request)
    request = dataclasses.replace(request, batch=batch or 1)
    output = math.prod(layer.compute_output_shape(query, value, key)[len(query) - 1 :])
    inputs = [query[-1], key[-1], value[-1], *([query[-1]] if layer._use_gate else [])]
    heads, sizes = layer.num_heads, [layer.key_dim, layer.key_dim, layer._value_dim, layer._value_dim]
    parameters = sum(heads * size * (width + layer.use_bias) for width, size in zip(inputs, sizes, strict=False))
    parameters += output * (heads * layer._value_dim + layer.use_bias)
    head = heads * (layer.key_dim + layer._value_dim)
    widths = _ITEMSIZES[layer.compute_dtype] * (head + output), _ITEMSIZES[layer.compute_dtype] * head
    steps = _steps(request, inputs, layer.key_dim, layer._value_dim, output)
    return Explanation(plan.path, plan.reason, steps, parameters, request, widths)


def _plan(layer: Any, request: planning.Request) -> planning.PathChoice:
    """Return the path of a call. If a subclass overrides inner methods, causality is part of the mask."""
    if layer._replaces_steps:
        return planning.PathChoice("steps", "softmax, dropout or equations are the subclass's own")
    return planning.choose(dataclasses.replace(request, causal=request.causal and not layer._replaced))


def _steps(request: planning.Request, inputs: list[int], key_dim: int, value_dim: int, output: int) -> tuple[Step, ...]:
    """Return the four equations with sizes and FLOPs. There is one projection for each width in `inputs`."""
    batch, rows, columns, heads = request.batch or 1, request.rows or 0, request.columns or 0, request.heads
    pairs = planning.visible_pairs(rows, columns, request.causal, request.window)
    lengths, sizes = [rows, columns, columns, rows], [key_dim, key_dim, value_dim, value_dim]
    names, letters = ["query", "key", "value", "gate"], ["T", "S", "S", "T"]
    steps = []
    for name, letter, length, width, size in zip(names, letters, lengths, inputs, sizes, strict=False):
        equation = axes.PROJECT.replace("T", letter)
        text = f"{letter}={length} I={width} H={heads} O={size}"
        steps.append(Step(name, equation, text, 2 * batch * length * width * heads * size))
    text = f"B={batch} T={rows} S={columns} H={heads}"
    steps.append(Step("scores", axes.SCORES, f"{text} O={key_dim}", 2 * batch * heads * pairs * key_dim))
    steps.append(Step("mix", axes.MIX, f"{text} O={value_dim}", 2 * batch * heads * pairs * value_dim))
    flops = 2 * batch * rows * heads * value_dim * output
    return (*steps, Step("merge", axes.MERGE, f"T={rows} H={heads} O={value_dim} E={output}", flops))


def _readable(size: int) -> str:
    """Return a number of bytes as text, in binary units.

    >>> _readable(3 * 2**30)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size = size / 1024  # type: ignore[assignment]
    return f"{size:.1f} GiB"
