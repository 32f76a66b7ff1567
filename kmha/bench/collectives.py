"""Count what devices exchange in the compiled JAX programs of an encoder block, split over its heads."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import keras

import kmha
from kmha.bench.cases import HEADS, WIDTH
from kmha.distribution import head_parallel

DEVICES = 8
BATCH, LENGTH = 8, 64

KINDS = "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"
_OPERATION = re.compile(rf"= (\(.*?\)|\S+) ({'|'.join(KINDS)})(?:-start)?\(")
_ARRAY = re.compile(r"([a-z]+)(\d*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Collective:
    """An operation in which all devices exchange arrays.

    Attributes:
        kind: One of `KINDS`.
        size: Bytes of its results on a device.
    """

    kind: str
    size: int

    def sent(self, devices: int) -> float:
        """Return the bytes that each of `devices` sends if they form a ring, as in Patarasuk & Yuan 2009.

        >>> Collective("all-reduce", 1000).sent(4)
        1500.0
        """
        share = (devices - 1) / devices
        factors = {"all-reduce": 2 * share, "reduce-scatter": devices - 1, "collective-permute": 1}
        return self.size * factors.get(self.kind, share)


def collectives(program: str) -> list[Collective]:
    """Return the collectives of a program, in order.

    Args:
        program: Text of the compiled program, as `jax.jit(…).lower(…).compile().as_text()` returns it.

    >>> collectives("%x = (f32[8,3]{1,0}, bf16[2]{0}) all-reduce(%a, %b), channel_id=1")
    [Collective(kind='all-reduce', size=100)]
    """
    return [Collective(kind, _size(result)) for result, kind in _OPERATION.findall(program)]


def counts(found: list[Collective]) -> str:
    """Return the number of collectives of each kind, as text.

    >>> counts([Collective("all-gather", 8), Collective("all-reduce", 8), Collective("all-gather", 8)])
    '1 all-reduce, 2 all-gather'
    """
    number = Counter(each.kind for each in found)
    return ", ".join(f"{number[kind]} {kind}" for kind in KINDS if number[kind]) or "none"


def _size(result: str) -> int:
    """Return the bytes of a result such as "f32[8,3]{1,0}", or of a tuple of results."""
    return sum(
        math.ceil(int(bits or 8) / 8) * math.prod(map(int, filter(None, shape.split(","))))
        for _, bits, shape in _ARRAY.findall(result)
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """The collectives of an encoder block.

    Attributes:
        attention: Name of its attention layer.
        layout: Its layout of the kernels of query, key and value, as text.
        forward: Collectives of a forward pass.
        step: Collectives of a forward and a backward pass, with the gradients of the weights and the input.
    """

    attention: str
    layout: str
    forward: list[Collective]
    step: list[Collective]

    @property
    def sent(self) -> float:
        """Bytes that each device sends in a step."""
        return sum(each.sent(DEVICES) for each in self.step)


def measure() -> list[Row]:
    """Compile an encoder block for 8 devices, with the built-in attention and with kmha's, and count.

    JAX must have 8 devices: set XLA_FLAGS=--xla_force_host_platform_device_count=8 before JAX is imported.
    """
    builtin, ours = keras.layers.MultiHeadAttention, kmha.MultiHeadAttention
    cases = [("built-in", builtin, for_builtin), ("kmha", ours, for_builtin), ("kmha", ours, head_parallel)]
    rows = []
    for name, attention, layouts in cases:
        layout = "(None, model, None)" if layouts is for_builtin else "head_parallel"
        rows.append(Row(name, layout, *(_compiled(attention, layouts, step) for step in (False, True))))
    return rows


def for_builtin(mesh: Any) -> Any:
    """Return the layouts of `head_parallel` with (None, "model", None) for query, key and value.

    These split the heads of the built-in layer, and the input features of kmha's layer.
    """
    layout_map = head_parallel(mesh)
    for path in list(layout_map):
        if re.fullmatch(path, "query/kernel"):
            del layout_map[path]
    layout_map["(.*/)?(query|key|value)/kernel"] = None, "model", None
    return layout_map


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table. Ratios divide by the first row."""
    lines = [
        "| attention | query, key and value | forward | forward and backward | sent, MB | ratio |",
        "| :-- | :-- | :-- | :-- | --: | --: |",
    ]
    for row in rows:
        exchanged = f"{counts(row.forward)} | {counts(row.step)}"
        size = f"{row.sent / 1e6:.2f} | {row.sent / rows[0].sent:.2f}"
        lines.append(f"| {row.attention} | {row.layout} | {exchanged} | {size} |")
    return "\n".join(lines)


def _compiled(attention: Callable[..., Any], layouts: Callable[[Any], Any], step: bool) -> list[Collective]:
    """Return the collectives of a block with pre-norm, in a forward pass or in a step."""
    import jax  # other backends do without it

    mesh = keras.distribution.DeviceMesh((1, DEVICES), ("batch", "model"))
    with keras.distribution.ModelParallel(layout_map=layouts(mesh), batch_dim_name="batch").scope():
        block = _block(attention)
        weights, rest = [x.value for x in block.trainable_variables], [x.value for x in block.non_trainable_variables]
        layout = keras.distribution.TensorLayout(("batch", None, None), mesh)
        x = keras.distribution.distribute_tensor(keras.ops.ones((BATCH, LENGTH, WIDTH), "float32"), layout)

        def forward(x: Any, weights: Any) -> Any:
            return block.stateless_call(weights, rest, x)[0]

        def loss(x: Any, weights: Any) -> Any:
            return keras.ops.mean(keras.ops.square(forward(x, weights)))

        function = jax.value_and_grad(loss, (0, 1)) if step else forward
        return collectives(jax.jit(function).lower(x, weights).compile().as_text())


def _block(attention: Callable[..., Any]) -> keras.Model:
    x = keras.Input((LENGTH, WIDTH))
    normalized = keras.layers.LayerNormalization()(x)
    mixed = keras.layers.add([x, attention(HEADS, WIDTH // HEADS)(normalized, normalized)])
    hidden = kmha.layers.FeedForward(4 * WIDTH, WIDTH)(keras.layers.LayerNormalization()(mixed))
    return keras.Model(x, keras.layers.add([mixed, hidden]))
