"""`LayerNormalization`: Keras' own, with a quicker gradient on TensorFlow."""

from typing import Any

import keras

from kmha.core.normalization import normalize


@keras.saving.register_keras_serializable("kmha")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization`; over the last axis, with both weights and on TensorFlow it is ours.

    Arguments, weights and numbers are the same.

    >>> import numpy as np
    >>> print(np.array(LayerNormalization(epsilon=1e-6)(np.array([[1.0, 3.0]]))).round(3))
    [[-1.  1.]]
    """

    def call(self, inputs: Any) -> Any:
        last = self.axis in (-1, len(inputs.shape) - 1, [-1], [len(inputs.shape) - 1])
        plain = last and self.center and self.scale and not self.rms_scaling
        if not plain or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        return normalize(inputs, self.gamma, self.beta, self.epsilon)
