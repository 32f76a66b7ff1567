"""Attention is recorded during training, which stays the same."""

import keras
import numpy as np
import pytest

import kmha
from kmha.show import AttentionProbe, capture, page

X = np.random.default_rng(3).integers(0, 11, (24, 7))
PROBE = X[:1, :5]


def _model():
    keras.utils.set_random_seed(5)
    ids = keras.Input((None,), dtype="int32")
    block = kmha.layers.EncoderLayer(6, 3, 8, dropout_rate=0.3, name="block")
    outputs = keras.layers.Dense(11)(block(keras.layers.Embedding(11, 6)(ids)))
    model = keras.Model(ids, outputs)
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=keras.backend.backend() == "jax",
    )
    return model


class _Weights(keras.callbacks.Callback):
    """Keeps the weights before training and after each step."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def on_train_begin(self, logs=None):
        self.kept = self.kept or [self.model.get_weights()]

    def on_train_batch_end(self, batch, logs=None):
        self.kept.append(self.model.get_weights())


def _fit(callback):
    model = _model()
    for _ in range(2):  # steps count on
        model.fit(X, X, batch_size=8, shuffle=False, verbose=0, callbacks=[callback])
    return model


@pytest.mark.slow
def test_the_scores_are_those_of_each_step_and_training_stays_the_same():
    probe, weights = AttentionProbe(PROBE, every=2), _Weights()
    model, plain = _fit(probe), _fit(weights)
    assert list(probe.recorded) == [0, 2, 3, 4, 6]  # `fit` begins again at step 3
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    for step, found in probe.recorded.items():
        plain.set_weights(weights.kept[step])
        with capture(plain) as captured:
            plain(PROBE, training=False)
        assert list(found) == ["block/mha"]
        np.testing.assert_array_equal(found["block/mha"], captured["block/mha"], err_msg=str(step))


@pytest.mark.slow
def test_epochs_and_layers():
    probe = AttentionProbe(PROBE, layers=["block/mha"])
    _model().fit(X, X, batch_size=12, epochs=2, verbose=0, callbacks=[probe])
    assert list(probe.recorded) == [0, 2, 4]
    assert repr(page(probe.recorded, rows=list("abcde"))).startswith("Page(1 sentence at 3 steps, ")
    unknown = AttentionProbe(PROBE, layers=["other"])
    with pytest.raises(ValueError, match="'other'"):
        _model().fit(X, X, verbose=0, callbacks=[unknown])


@pytest.mark.parametrize("every", [0, -3, 2.5, True, "2"])
def test_steps_between_checks(every):
    with pytest.raises(ValueError, match=r"expected a positive number of steps in `every`\. Received: "):
        AttentionProbe(PROBE, every)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("executed", "every", "steps"), [(5, 5, [0, 5, 10, 15, 20]), (4, 3, [0, 4, 8, 10, 14, 18]), (4, None, [0, 10, 20])]
)
def test_several_steps_in_one_execution(executed, every, steps):
    if keras.backend.backend() == "torch":
        pytest.skip("Keras has no steps_per_execution there")
    model = _model()
    model.compile("adam", model.loss, jit_compile=keras.backend.backend() == "jax", steps_per_execution=executed)
    probe, data = AttentionProbe(PROBE, every, "block/mha"), np.tile(X, (5, 1))
    model.fit(data, data, batch_size=12, epochs=2, verbose=0, callbacks=[probe])
    assert [*probe.recorded][: len(steps)] == steps
    assert int(model.optimizer.iterations) == 20
