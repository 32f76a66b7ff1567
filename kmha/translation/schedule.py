"""The learning rate: a linear warm-up, then an inverse square root."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("kmha")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `peak` over `warmup_steps`, then falls as 1/√step (Vaswani et al. 2017, equation 3).

    The first step counts as 1, so that no step is taken at a rate of zero: with n = step + 1,
    peak · min(n / warmup_steps, √(warmup_steps / n)). The paper's schedule is the one with
    peak = (embedding_dim · warmup_steps)^-0.5.

    Args:
        peak: the highest rate, reached at the `warmup_steps`-th step; more than 0.
        warmup_steps: 1 or more.

    Call arguments:
        step: of the optimizer, from 0; integer or float, a scalar.

    Returns:
        float32, a scalar.

    Raises:
        ValueError: an argument is out of range.

    >>> schedule = InverseSquareRoot(peak=0.5, warmup_steps=4)
    >>> [round(float(schedule(step)), 4) for step in (0, 1, 3, 15)]
    [0.125, 0.25, 0.5, 0.25]
    """

    def __init__(self, peak: float, warmup_steps: int) -> None:
        super().__init__()
        if not peak > 0:
            raise ValueError(f"InverseSquareRoot: peak must be more than 0. Received: peak={peak!r}.")
        if not (isinstance(warmup_steps, int) and warmup_steps >= 1):
            raise ValueError(
                f"InverseSquareRoot: warmup_steps must be an integer of 1 or more. "
                f"Received: warmup_steps={warmup_steps!r}."
            )
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        number = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(number / self.warmup_steps, ops.sqrt(self.warmup_steps / number))

    def get_config(self) -> dict[str, Any]:
        """The arguments, from which `from_config` makes the same schedule."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}
