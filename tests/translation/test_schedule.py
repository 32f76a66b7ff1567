import keras
import numpy as np
import pytest

from kmha.translation.schedule import InverseSquareRoot

pytestmark = pytest.mark.tensorflow


def test_the_rate_at_every_step():
    peak, warmup = 0.3, 7
    schedule = InverseSquareRoot(peak, warmup)
    got = [float(schedule(keras.ops.convert_to_tensor(step, "int64"))) for step in range(40)]
    expected = [peak * (n / warmup if n <= warmup else np.sqrt(warmup / n)) for n in range(1, 41)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert int(np.argmax(got)) == warmup - 1


def test_with_the_papers_peak_it_is_the_papers_schedule():
    width, warmup = 512, 4000
    schedule = InverseSquareRoot((width * warmup) ** -0.5, warmup)
    for step in (1, 300, 4000, 90_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)  # equation 3
        np.testing.assert_allclose(float(schedule(step - 1)), paper, rtol=1e-6)


def test_an_optimizer_with_it_is_saved_and_loaded():
    optimizer = keras.optimizers.Adam(InverseSquareRoot(peak=0.5, warmup_steps=3))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(again._learning_rate, InverseSquareRoot)
    assert again._learning_rate.get_config() == {"peak": 0.5, "warmup_steps": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 3), "peak must be more than 0. Received: peak=0.0"),
        ((float("nan"), 3), "peak must be more than 0. Received: peak=nan"),
        ((0.5, 0), "warmup_steps must be an integer of 1 or more. Received: warmup_steps=0"),
        ((0.5, 2.5), "Received: warmup_steps=2.5"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        InverseSquareRoot(*arguments)
