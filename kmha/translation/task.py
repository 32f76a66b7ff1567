"""The Keras model that `fit` trains: a Transformer with its loss, metrics and learning rate schedule."""

from typing import Any

import keras
from keras import ops

from kmha.core.cross_entropy import Sums, token_cross_entropy
from kmha.translation.devices import over_replicas, replicas
from kmha.translation.settings import TrainingSettings


class Perplexity(keras.metrics.Mean):
    """The exponential of the mean negative log-likelihood over all tokens, instead of a mean of exponentials."""

    def result(self) -> Any:
        return ops.exp(super().result())


class Tokens(keras.metrics.Sum):
    """The number of tokens. On torch, Keras' own sum returns its variable itself, which later batches change."""

    def result(self) -> Any:
        return ops.copy(super().result())


class TranslationTask(keras.Model):
    """Wraps a Transformer so that `fit` can train it on ((source (B,S), target_in (B,T)), target_out (B,T)).

    The loss is the label-smoothed cross-entropy per target token, without padding (Vaswani et al. 2017, section 5.4).
    The output of this model is the features (B,T,D). The loss multiplies the features by the output kernel in chunks,
    so that an array of (tokens × vocabulary) never exists as a whole.

    With `consistency`, each training step passes its batch through the model twice, with other dropout. The loss also
    has the divergence between the predictions of the two passes (R-Drop, Liang et al. 2021, arXiv 2106.14448).

    The metrics over all tokens since the last reset are `loss`, `token_accuracy`, `perplexity` (without smoothing), and
    `tokens`, which is the number of tokens.

    Args:
        transformer: A `kmha.layers.Transformer` that is built.
        label_smoothing: Share of the target probability that is spread over the whole vocabulary.
        consistency: Weight of the divergence between two passes. 0 means a single pass.
        chunk: Number of tokens that the loss processes at a time. `None` lets `kmha.core.cross_entropy` choose it.

    >>> import numpy, kmha.layers
    >>> transformer = kmha.layers.Transformer(1, 4, 2, 6, 11, 13, 16, 16)
    >>> task = TranslationTask(transformer)
    >>> task.compile(optimizer="sgd", jit_compile=False)
    >>> ids = numpy.array([[5, 7, 2]], "int32")
    >>> sorted(task.evaluate((ids, ids), ids, verbose=0, return_dict=True))
    ['loss', 'perplexity', 'token_accuracy', 'tokens']
    """

    def __init__(
        self,
        transformer: Any,
        label_smoothing: float = 0.0,
        consistency: float = 0.0,
        chunk: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dtype", transformer.dtype_policy)  # `compile` scales the loss of mixed_float16
        super().__init__(**kwargs)
        self.transformer = transformer
        self._label_smoothing = label_smoothing
        self.consistency = consistency
        self._chunk = chunk
        self._loss = keras.metrics.Mean(name="loss")
        self._accuracy = keras.metrics.Mean(name="token_accuracy")
        self._perplexity = Perplexity(name="perplexity")
        self._tokens = Tokens(name="tokens")

    def build(self, input_shape: Any) -> None:
        """Do nothing, because the Transformer creates all variables."""
        self.built = True

    @property
    def metrics(self) -> list[Any]:
        """The metrics of this class. Keras' own mean of the loss would weigh batches by their number of sentences."""
        return [self._loss, self._accuracy, self._perplexity, self._tokens]

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the features (B,T,D) for the inputs (source (B,S), target_in (B,T)), or (2·B,T,D) of two passes."""
        if training and self.consistency:
            inputs = [ops.concatenate([one, one]) for one in inputs]
        return self.transformer.features(inputs, training=training)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Return the loss per token of this batch as a float32 scalar, and update the metrics.

        Each replica of a `tf.distribute` strategy returns its share of the loss, and updates the metrics for all.

        Args:
            x: Not used.
            y: Ids of target_out (B,T).
            y_pred: Features (B,T,D), or (2·B,T,D) of two passes.
            sample_weight: Must be `None`.
            training: Prepare the gradients of the loss. Validation uses the same smoothing.
        """
        if sample_weight is not None:
            raise ValueError("TranslationTask does not support sample_weight; it ignores padding by itself.")
        passes = 2 if training and self.consistency else 1
        sums = self.sums(y_pred, ops.concatenate([y] * passes), gradient=training)
        total = Sums(*over_replicas(sums))
        count, share = ops.maximum(total.count, 1.0), total.count / replicas()  # Keras adds up the metrics' variables
        self._loss.update_state(total.loss / count, sample_weight=share)
        self._accuracy.update_state(total.correct / count, sample_weight=share)
        self._perplexity.update_state(total.negative_log_likelihood / count, sample_weight=share)
        self._tokens.update_state(share / passes)
        return sums.loss / count

    def sums(self, features: Any, target: Any, gradient: bool = True) -> Sums:
        """Return the sums over all tokens of loss, negative log-likelihood and right tokens, and their number.

        Args:
            features: Features (B,T,D).
            target: Ids of target_out (B,T).
            gradient: Prepare the gradients of the loss, and add the divergence between two passes.
        """
        bias = self.transformer.output_bias
        return token_cross_entropy(
            ops.reshape(features, (-1, features.shape[-1])),
            ops.cast(self.transformer.output_kernel, features.dtype),
            ops.reshape(target, (-1,)),
            bias=None if bias is None else ops.cast(bias, features.dtype),
            transposed=self.transformer.output_kernel_is_transposed,
            smoothing=self._label_smoothing,
            consistency=self.consistency if gradient else 0.0,
            chunk=self._chunk,
            gradient=gradient,
        )

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Return the metrics, which `compute_loss` has updated."""
        return self.get_metrics_result()


@keras.saving.register_keras_serializable("kmha")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `peak` over `warmup_steps`, then falls as 1/√step (Vaswani et al. 2017, equation 3).

    With n = step + 1, the rate is peak · min(n / warmup_steps, √(warmup_steps / n)). So no step has a rate of zero. The
    paper's schedule has peak = (embedding_dim · warmup_steps)^-0.5.

    Args:
        peak: Highest rate, which is above 0 and reached when n = `warmup_steps`.
        warmup_steps: Number of steps to the peak, at least 1.

    Call arguments:
        step: Step of the optimizer, counted from 0, as an integer or float scalar.

    >>> schedule = InverseSquareRoot(peak=0.5, warmup_steps=4)
    >>> [round(float(schedule(step)), 4) for step in (0, 1, 3, 15)]
    [0.125, 0.25, 0.5, 0.25]
    """

    def __init__(self, peak: float, warmup_steps: int) -> None:
        super().__init__()
        if not peak > 0:
            raise ValueError(f"InverseSquareRoot: peak must be more than 0. Received: peak={peak!r}.")
        if not (isinstance(warmup_steps, int) and warmup_steps >= 1):
            rule = "warmup_steps must be an integer of at least 1"
            raise ValueError(f"InverseSquareRoot: {rule}. Received: warmup_steps={warmup_steps!r}.")
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        number = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(number / self.warmup_steps, ops.sqrt(self.warmup_steps / number))

    def get_config(self) -> dict[str, Any]:
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


class ReplicatedAdam(keras.optimizers.Adam):
    """Adam that clips the norm of the whole gradient. Keras clips the gradient of each replica, before it adds them up.

    Keras adds up what each replica returns. So each replica clips the mean of the gradients to its share of the norm.
    """

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        import tensorflow as tf

        return super().apply(tf.distribute.get_replica_context().all_reduce("MEAN", list(grads)), trainable_variables)


def compiled_task(transformer: Any, training: TrainingSettings) -> TranslationTask:
    """Return a compiled task whose optimizer is already built."""
    task = TranslationTask(transformer, training.label_smoothing)
    task.build(None)
    several = replicas()
    clipped = bool(training.clip_norm) and several > 1
    task.compile(
        optimizer=(ReplicatedAdam if clipped else keras.optimizers.Adam)(
            InverseSquareRoot(training.peak_learning_rate, training.warmup_steps),
            beta_1=training.beta_1,
            beta_2=training.beta_2,
            epsilon=training.epsilon,
            global_clipnorm=training.clip_norm / several or None,
        ),
        # On TensorFlow, XLA halved the speed of this model on the CPU. Without it, JAX would run each operation alone.
        jit_compile=keras.backend.backend() == "jax",
    )
    task.optimizer.build(task.trainable_variables)
    return task
