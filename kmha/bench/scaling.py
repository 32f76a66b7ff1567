"""Count what a training step costs on each of many devices, without running it."""

import dataclasses
from collections.abc import Sequence

ADAM = 4 * 4  # bytes per weight: the weight, its gradient and Adam's two moments, in float32
HALF = 2  # bytes per activation, in bfloat16
GRADIENT = 4  # bytes per gradient
ALL_REDUCES = 4  # in a block


@dataclasses.dataclass(frozen=True)
class Training:
    """A stack of encoder blocks, and the batch of a training step.

    Attributes:
        layers: Number of blocks.
        width: Features of the blocks (I and E).
        heads: Number of heads (H), of the size width / heads.
        hidden: Hidden features of the feed-forward networks.
        batch: Sequences in a batch, on all devices together.
        length: Tokens in a sequence (T and S).
    """

    layers: int = 32
    width: int = 4096
    heads: int = 32
    hidden: int = 16384
    batch: int = 1024
    length: int = 2048

    @property
    def split_weights(self) -> int:
        """Weights that `kmha.distribution.head_parallel` splits: kernels, and biases of heads and hidden features."""
        attention = 4 * self.width * self.width + 3 * self.width
        return self.layers * (attention + 2 * self.width * self.hidden + self.hidden)

    @property
    def whole_weights(self) -> int:
        """Weights that are whole on every device: biases of the outputs, and two layer normalizations."""
        return self.layers * 6 * self.width

    @property
    def flops(self) -> int:
        """Floating point operations of a step. The backward pass takes twice those of the forward pass."""
        tokens = self.batch * self.length
        products = 2 * tokens * (4 * self.width * self.width + 2 * self.width * self.hidden)
        attention = 4 * tokens * self.length * self.width
        return 3 * self.layers * (products + attention)


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a training step on each device, in bytes and floating point operations.

    Attributes:
        weights: Memory of weights, gradients and Adam's moments.
        activations: Memory of what the forward pass keeps for the backward pass.
        model_sent: Bytes sent along the mesh axis "model".
        batch_sent: Bytes sent along the mesh axis "batch", once a step, for the gradients.
        flops: Floating point operations.
    """

    weights: float
    activations: float
    model_sent: float
    batch_sent: float
    flops: float


def cost(training: Training, batch_devices: int, model_devices: int) -> Cost:
    """Return what a step costs on each device of a mesh ("batch", "model") with the layouts of `head_parallel`.

    In a block, four all-reduces add up a tensor (B, T, E): one in the forward and one in the backward pass of each of
    both sublayers. A ring sends 2 (n - 1) / n bytes for each byte of a tensor (Patarasuk & Yuan 2009).

    Args:
        training: Sizes of the model and of the batch.
        batch_devices: Devices along "batch".
        model_devices: Devices along "model".

    Raises:
        ValueError: If heads, hidden features or batch cannot be split evenly.

    >>> one, eight = (cost(Training(), 1, devices) for devices in (1, 8))
    >>> one.model_sent, eight.model_sent > 0, round(one.weights / eight.weights, 2)
    (0.0, True, 7.99)
    """
    for name, devices in (("heads", model_devices), ("hidden", model_devices), ("batch", batch_devices)):
        if getattr(training, name) % devices:
            raise ValueError(
                f"{name}={getattr(training, name)} is not a multiple of the {devices} devices of its axis."
            )
    rows = training.batch // batch_devices
    tensor = rows * training.length * training.width * HALF  # (B, T, E)
    held = training.split_weights / model_devices + training.whole_weights
    return Cost(
        weights=ADAM * held,
        activations=_activations(training, rows, model_devices),
        model_sent=training.layers * ALL_REDUCES * tensor * _ring(model_devices),
        batch_sent=GRADIENT * held * _ring(batch_devices),
        flops=training.flops / batch_devices / model_devices,
    )


def _activations(training: Training, rows: int, model_devices: int) -> float:
    """Return the bytes kept for the backward pass: inputs and outputs of all products and normalizations, and scores.

    Whole on every device are the inputs of both sublayers and of both normalizations. Split are query, key, value, the
    mixed values, the hidden features before and after the activation, and the scores.
    """
    whole = 4 * training.width
    split = 4 * training.width + 2 * training.hidden + training.heads * training.length
    return training.layers * rows * training.length * (whole + split / model_devices) * HALF


def _ring(devices: int) -> float:
    return 2 * (devices - 1) / devices


MESHES = (8, 8), (128, 8), (1024, 1), (256, 4), (64, 16), (32, 32)


def table(training: Training, meshes: Sequence[tuple[int, int]] = MESHES) -> str:
    """Return the costs on several meshes as a Markdown table."""
    lines = [
        "| batch × model | weights, GB | activations, GB | sent along model, GB | along batch, GB | FLOPs per byte |",
        "| --: | --: | --: | --: | --: | --: |",
    ]
    for mesh in meshes:
        each = cost(training, *mesh)
        sizes = (each.weights, each.activations, each.model_sent, each.batch_sent)
        sent = each.model_sent + each.batch_sent
        cells = [f"{size / 1e9:,.1f}" for size in sizes] + [f"{each.flops / sent:,.0f}"]
        lines.append(f"| {' × '.join(map(str, mesh))} | {' | '.join(cells)} |")
    return "\n".join(lines)
