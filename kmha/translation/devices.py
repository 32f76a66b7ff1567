"""Data parallelism: the devices that share the rows of each batch, on one machine or on several.

Each device has all weights, and computes the gradient of its rows. All devices add the sum of these gradients to their
weights. The loss is per token of the whole batch, so the numbers are those of one device, up to rounding.

TensorFlow divides the work with `tf.distribute`, and JAX with `keras.distribution`. Keras does not do this on torch
(github.com/keras-team/keras/issues/23418).
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kmha.translation.lazy import leave_gpus, tf

if TYPE_CHECKING:
    from kmha.translation.batches import Batch

PREFETCH = 8  # number of batches to prepare during a step
SEED_STEP = 0x9E3779B9  # difference between the seeds of two devices, as in SplitMix


class DevicesError(ValueError):
    """Raised if the backend cannot use the devices, or does not have them."""


def workers_of(backend: str) -> tuple[int, int]:
    """Return the index of this process and the number of processes that train together, from the environment.

    TensorFlow reads TF_CONFIG. Keras on JAX reads KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID.

    Raises:
        DevicesError: The variables are incomplete.
    """
    try:
        if backend == "tensorflow":
            config = json.loads(os.environ.get("TF_CONFIG") or "{}")
            if not config.get("cluster"):
                return 0, 1
            names = [(kind, n) for kind in ("chief", "worker") for n in range(len(config["cluster"].get(kind, [])))]
            return names.index((config["task"]["type"], int(config["task"]["index"]))), len(names)
        name = "KERAS_DISTRIBUTION_{}".format
        if backend == "jax" and name("NUM_PROCESSES") in os.environ:
            return int(os.environ[name("PROCESS_ID")]), int(os.environ[name("NUM_PROCESSES")])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = "TF_CONFIG" if backend == "tensorflow" else "KERAS_DISTRIBUTION_*"
        raise DevicesError(f"{what} does not describe the workers: {type(error).__name__} {error}.") from None
    return 0, 1


def check(backend: str, number: int) -> None:
    """Raise a `DevicesError` if Keras cannot train on as many devices with this backend."""
    if backend == "torch" and number > 1:
        raise DevicesError(
            "Keras cannot train on several devices with torch (keras-team/keras issue 23418). "
            f"Received: {number} devices. Set KERAS_BACKEND=jax or KERAS_BACKEND=tensorflow, or leave --devices out."
        )


def start(number: int = 1) -> "Devices":
    """Return `number` devices of each worker, after connecting the workers. Call it before Keras computes anything.

    Raises:
        DevicesError: The backend cannot use as many devices, or does not have them.
    """
    import keras

    backend = keras.backend.backend()
    worker, workers = workers_of(backend)
    if backend != "tensorflow":
        leave_gpus()
    if number == workers == 1:
        return Devices()
    check(backend, number)
    return (_Mirrored if backend == "tensorflow" else _Sharded)(number, worker, workers)


class Devices:
    """One device, and what several devices share.

    Args:
        number: Number of devices of each worker.
        worker: Index of this worker. Worker 0 writes the files.
        workers: Number of workers.
    """

    def __init__(self, number: int = 1, worker: int = 0, workers: int = 1) -> None:
        import keras

        self.number, self.worker, self.workers = number, worker, workers
        self._few_shapes = keras.backend.backend() == "jax"  # which compiles a step for each shape

    def scope(self) -> Any:
        """Return a context in which to create the variables."""
        return contextlib.nullcontext()

    def prepare(self, task: Any) -> None:
        """Prepare a task whose variables have their values."""

    def wait(self) -> None:
        """Wait until all workers are here."""

    def dataset(self, batches: Callable[[], Iterator["Batch"]], longest: int) -> Any:
        """Return data for `fit`.

        Args:
            batches: Function that returns an iterator over batches of the whole run.
            longest: Maximum length that padding may lead to.
        """
        return self._data(lambda: (self._part(one, self.worker, self.workers, longest) for one in batches()))

    def _part(self, batch: "Batch", index: int, parts: int, longest: int) -> "Batch":
        """Return one of several parts of a batch with the same number of rows, after padding the batch."""
        from kmha.translation.batches import Batch, padded, rounded_up

        arrays = *batch.inputs, batch.target
        rows = len(batch.target)
        widths = [array.shape[1] for array in arrays]
        if self._few_shapes:
            rows, widths = rounded_up(rows), [min(rounded_up(max(widths)), longest)] * 3
        every = self.number * self.workers
        rows = -(-rows // every) * every
        chosen = slice(index * rows // parts, (index + 1) * rows // parts)
        source, target_in, target_out = (
            padded(array, rows, width)[chosen] for array, width in zip(arrays, widths, strict=True)
        )
        return Batch((source, target_in), target_out)

    def _data(self, batches: Callable[[], Iterator["Batch"]]) -> Any:
        ids = tf.TensorSpec([None, None], tf.int32)
        return tf.data.Dataset.from_generator(batches, output_signature=((ids, ids), ids)).prefetch(PREFETCH)


class _Sharded(Devices):
    """Devices of JAX, each of which has some rows of every array with a batch axis."""

    def __init__(self, number: int, worker: int, workers: int) -> None:
        import jax
        import keras

        super().__init__(number, worker, workers)
        with contextlib.suppress(RuntimeError):  # JAX has started before
            jax.config.update("jax_num_cpu_devices", number)
        if workers > 1:
            keras.distribution.initialize()
        found = [jax.local_devices(process_index=index)[:number] for index in range(workers)]
        _check(number, len(found[worker]), found[worker][0].platform)
        names = [f"{device.platform}:{device.id}" for devices in found for device in devices]
        distribution = keras.distribution.DataParallel(devices=names, auto_shard_dataset=False)
        keras.distribution.set_distribution(distribution)

    def wait(self) -> None:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("kmha")


class _Mirrored(Devices):
    """Devices of TensorFlow, each of which is a replica of a `tf.distribute` strategy."""

    def __init__(self, number: int, worker: int, workers: int) -> None:
        super().__init__(number, worker, workers)
        kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
        physical = tf.config.list_physical_devices(kind)
        if kind == "CPU" and number > 1:
            with contextlib.suppress(RuntimeError):  # TensorFlow has started before
                each = [tf.config.LogicalDeviceConfiguration()] * number
                tf.config.set_logical_device_configuration(physical[0], each)
        if workers > 1:
            if kind == "GPU":
                tf.config.set_visible_devices(physical[:number], kind)
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        else:
            _check(number, len(tf.config.list_logical_devices(kind)), kind)
            self._strategy = tf.distribute.MirroredStrategy([f"{kind}:{index}" for index in range(number)])

    def scope(self) -> Any:
        return self._strategy.scope()

    def prepare(self, task: Any) -> None:
        """Let each replica draw its own random numbers. Keras' seeds would be equal on all of them."""
        if self.workers > 1:
            # As of 3.15.1, `fit` fails for several workers (github.com/keras-team/keras/issues/20585). It converts the
            # first batch of the replicas to a tensor, to build what is built. And it reduces scalar logs over an axis.
            results = task.get_metrics_result
            task._maybe_symbolic_build = lambda *arguments, **options: None
            task.compute_metrics = lambda *arguments, **options: {k: x[None] for k, x in results().items()}
        seeds = [one.value for one in task.non_trainable_variables if one.path.endswith("seed_generator_state")]

        def shift() -> None:
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            for seed in seeds:
                step = tf.cast(tf.constant(SEED_STEP, tf.int64) * tf.cast(index, tf.int64), seed.dtype)
                seed.assign_add(tf.stack([step, tf.zeros_like(step)]))

        tf.function(lambda: self._strategy.run(shift))()

    def wait(self) -> None:
        ones = self._strategy.run(lambda: tf.constant(1.0))
        self._strategy.reduce("SUM", ones, axis=None)

    def dataset(self, batches: Callable[[], Iterator["Batch"]], longest: int) -> Any:
        parts, first = self.number * self.workers, self.number * self.worker

        def local() -> Iterator["Batch"]:
            for batch in batches():
                for index in range(first, first + self.number):
                    yield self._part(batch, index, parts, longest)

        return self._strategy.distribute_datasets_from_function(lambda context: self._data(local))


def over_replicas(values: Any) -> Any:
    """Return the sums of scalars over the replicas of TensorFlow, without gradient. JAX adds whole batches anyway."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return values
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    return tf.unstack(context.all_reduce("SUM", tf.stop_gradient(tf.stack(values))))


def replicas() -> int:
    """Return the number of replicas of the current `tf.distribute` strategy, and 1 on other backends."""
    import keras

    return int(tf.distribute.get_strategy().num_replicas_in_sync) if keras.backend.backend() == "tensorflow" else 1


def _check(number: int, found: int, kind: str) -> None:
    if found < number:
        raise DevicesError(f"--devices {number}: there are {found} devices of the kind {kind.upper()}.")
