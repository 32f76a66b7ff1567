"""`AttentionProbe`, a Keras callback that records the attention of one input again and again during training."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from kmha.show.recording import capture


class AttentionProbe(keras.callbacks.Callback):
    """Records the scores of a model for the same inputs before training and at each check of `fit`.

    `page(probe.recorded)` has a slider over the training steps, which shows how heads form. Training stays the same:
    each check is one call of the model in inference mode, which draws no random numbers.

    Args:
        inputs: Inputs of the model for one call, such as a batch of one sentence.
        every: Number of training steps between two checks. `None` means the end of each epoch. With
            `steps_per_execution`, a check follows the execution in which it is due.
        layers: Names of the layers to record, or one name, as in `capture`. `None` means all.

    Attributes:
        recorded: The scores (B, H, T, S) by training step, and then by name of the layer. Step 0 is before training.
            If `fit` is called again, the steps count on.

    Raises:
        ValueError: `every` is not a positive integer. `fit` raises the errors of `capture`, also if JAX distributes the
            model. `kmha train --devices N --probe` can do that.

    >>> import kmha
    >>> model = keras.Sequential([keras.layers.Embedding(9, 6), kmha.layers.EncoderLayer(6, 3, 8, name="block")])
    >>> model.compile("sgd", "mse")
    >>> probe = AttentionProbe(np.array([[2, 4, 3]]), every=2)
    >>> history = model.fit(np.ones((12, 5)), np.ones((12, 5, 6)), batch_size=3, verbose=0, callbacks=[probe])
    >>> {step: scores["block/mha"].shape for step, scores in probe.recorded.items()}
    {0: (1, 3, 3, 3), 2: (1, 3, 3, 3), 4: (1, 3, 3, 3)}
    """

    def __init__(self, inputs: Any, every: int | None = None, layers: Iterable[str] | str | None = None) -> None:
        super().__init__()
        if every is not None and (isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1):
            raise ValueError(f"AttentionProbe: expected a positive number of steps in `every`. Received: {every!r}.")
        self.recorded: dict[int, dict[str, np.ndarray]] = {}
        self._inputs, self._every, self._step, self._start = inputs, every, 0, 0
        self._layers = [layers] if isinstance(layers, str) else None if layers is None else list(layers)

    def on_train_begin(self, logs: Any = None) -> None:
        self._record()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = self._step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # With `steps_per_execution`, a call stands for several steps, and the last one of an epoch counts too many.
        before, self._step = self._step, self._start + min(batch + 1, self.params.get("steps") or batch + 1)
        if self._every is not None and self._step // self._every > before // self._every:
            self._record()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._every is None:
            self._record()

    def _record(self) -> None:
        model = self.model
        with capture(model, self._layers) as captured:
            model(self._inputs, training=False)
        self.recorded[self._step] = dict(captured)
