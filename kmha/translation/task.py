"""`TranslationTask`: what `model.fit` trains, a Transformer with its loss and its metrics."""

from typing import Any

import keras
from keras import ops

from kmha.core.cross_entropy import token_cross_entropy


class Perplexity(keras.metrics.Mean):
    """The exponential of the mean negative log likelihood over all tokens seen; not a mean of exponentials."""

    def result(self) -> Any:
        """A float32 scalar."""
        return ops.exp(super().result())


class TranslationTask(keras.Model):
    """Wraps a Transformer so that `fit` learns from ((source (B,S), target_in (B,T)), target_out (B,T)).

    The loss is the label-smoothed cross-entropy per target token, padding left out (Vaswani et al. 2017, section
    5.4). The model's output here is the features (B,T,D): the loss multiplies them by the output kernel itself, in
    chunks, so that (tokens × vocabulary) is never held at once.

    Metrics, over all tokens since they were last reset: `loss`, `token_accuracy`, `perplexity` (without smoothing),
    and `tokens`, their number.

    Args:
        transformer: built, of `kmha.layers.Transformer`.
        label_smoothing: the share of the probability that is spread over the whole vocabulary.
        chunk: how many tokens the loss works on at a time; `None` leaves it to `kmha.core.cross_entropy`.

    >>> import numpy, kmha.layers
    >>> transformer = kmha.layers.Transformer(1, 4, 2, 6, 11, 13, 16, 16)
    >>> task = TranslationTask(transformer)
    >>> task.compile(optimizer="sgd", jit_compile=False)
    >>> ids = numpy.array([[5, 7, 2]], "int32")
    >>> sorted(task.evaluate((ids, ids), ids, verbose=0, return_dict=True))
    ['loss', 'perplexity', 'token_accuracy', 'tokens']
    """

    def __init__(self, transformer: Any, label_smoothing: float = 0.0, chunk: int | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("dtype", transformer.dtype_policy)  # `compile` scales the loss of mixed_float16
        super().__init__(**kwargs)
        self.transformer = transformer
        self._label_smoothing = label_smoothing
        self._chunk = chunk
        self._loss = keras.metrics.Mean(name="loss")
        self._accuracy = keras.metrics.Mean(name="token_accuracy")
        self._perplexity = Perplexity(name="perplexity")
        self._tokens = keras.metrics.Sum(name="tokens")

    def build(self, input_shape: Any) -> None:
        """Nothing to make but what the Transformer makes when it is first called."""
        self.built = True

    @property
    def metrics(self) -> list[Any]:
        """Ours alone: Keras' own mean of the loss would weigh batches by their sentences."""
        return [self._loss, self._accuracy, self._perplexity, self._tokens]

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The features (B,T,D) of (source (B,S), target_in (B,T))."""
        return self.transformer.features(inputs, training=training)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """The loss per token of this batch, a float32 scalar; updates the metrics.

        Args:
            x: not used.
            y: target_out, ids (B,T).
            y_pred: features (B,T,D).
            sample_weight: must be `None`.
            training: whether the loss will be differentiated; validation is measured with the same smoothing.

        Raises:
            ValueError: `sample_weight` was given.
        """
        if sample_weight is not None:
            raise ValueError("TranslationTask: sample_weight is not supported; padding is left out without it.")
        bias = self.transformer.output_bias
        sums = token_cross_entropy(
            ops.reshape(y_pred, (-1, y_pred.shape[-1])),
            ops.cast(self.transformer.output_kernel, y_pred.dtype),
            ops.reshape(y, (-1,)),
            bias=None if bias is None else ops.cast(bias, y_pred.dtype),
            transposed=self.transformer.output_kernel_is_transposed,
            smoothing=self._label_smoothing,
            chunk=self._chunk,
            gradient=training,
        )
        count = ops.maximum(sums.count, 1.0)
        loss = sums.loss / count
        self._loss.update_state(loss, sample_weight=sums.count)
        self._accuracy.update_state(sums.correct / count, sample_weight=sums.count)
        self._perplexity.update_state(sums.negative_log_likelihood / count, sample_weight=sums.count)
        self._tokens.update_state(sums.count)
        return loss

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """The metrics, which `compute_loss` has updated."""
        return self.get_metrics_result()
