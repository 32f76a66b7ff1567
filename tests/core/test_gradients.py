import numpy as np
from keras import ops

from kmha.core.gradients import gradients
from kmha.verify import tolerance


def test_of_several_arrays_of_which_one_is_not_used():
    numbers = np.random.default_rng(1)
    x, y, z = (numbers.normal(size=shape) for shape in ((2, 3), (3,), (7,)))
    found = gradients(lambda tensors: ops.sum(ops.multiply(ops.square(tensors[0]), tensors[1])), [x, y, z])
    expected = [2 * x * y, (x**2).sum(0), np.zeros(7)]
    for one, other in zip(found, expected, strict=True):
        assert tolerance.is_close(one, other, "float64")
