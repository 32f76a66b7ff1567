import functools

import numpy as np
import pytest

from kmha.verify.diagnosing import frameworks


def _with_numpy(query):
    return np.tanh(query)


def _helped(query):
    return _with_numpy(query)


def test_numpy_from_the_names_in_a_function():
    assert frameworks.likely_frameworks(_with_numpy)[0] == "numpy"
    assert frameworks.likely_frameworks(_helped)[0] == "numpy"


@pytest.mark.parametrize("name", ["tensorflow", "torch", "jax", "keras"])
def test_framework_from_the_names_in_a_function_or_its_helper(name):
    module = pytest.importorskip(name)
    scope = {name: module, "__name__": "learner"}
    code = f"def inner(query):\n    return {name}.tanh(query)\ndef outer(query):\n    return inner(query)\n"
    exec(code, scope)  # noqa: S102 - the line above
    assert frameworks.likely_frameworks(scope["inner"])[0] == name
    assert frameworks.likely_frameworks(scope["outer"])[0] == name


@pytest.mark.parametrize("name", ["numpy", "tensorflow", "torch", "jax", "keras"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_there_and_back(name, dtype):
    pytest.importorskip(name)
    array = np.random.default_rng(0).normal(size=(2, 3, 5))
    tensor = frameworks.to_tensor(array, name, dtype)
    back = frameworks.to_numpy(tensor)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array.astype(dtype))
    assert frameworks.to_numpy(frameworks.to_tensor(array > 0, name, dtype)).dtype == bool


def test_numpy_gets_a_copy():
    array = np.zeros((2, 3))
    frameworks.to_tensor(array, "numpy", "float64")[:] = 1
    assert not array.any()


@pytest.mark.parametrize(
    ("result", "scores"),
    [
        (np.ones(2), None),
        ((np.ones(2), np.zeros(3)), 3),
        ([np.ones(2), None, np.zeros(3)], 3),
        ({"output": np.ones(2), "scores": np.zeros(3)}, 3),
        ({"scores": np.zeros(3), "output": np.ones(2)}, 3),
        ((np.ones(2), None), None),
    ],
)
def test_output_and_scores(result, scores):
    output, found = frameworks.output_and_scores(result)
    np.testing.assert_array_equal(output, np.ones(2))
    assert (None if found is None else len(found)) == scores


def test_framework_imported_inside_a_function():
    def attention(query):
        import tensorflow as tf

        return tf.tanh(query)

    assert frameworks.likely_frameworks(attention)[0] == "tensorflow"


def test_a_framework_in_a_closure():
    def outer(ops):
        return lambda query: ops.tanh(query)

    assert frameworks.likely_frameworks(outer(pytest.importorskip("tensorflow")))[0] == "tensorflow"


def test_partial_function_and_callable_object():
    class Caller:
        def __call__(self, query):
            return np.tanh(query)

    assert frameworks.likely_frameworks(functools.partial(_with_numpy)) == ("numpy",)
    assert frameworks.likely_frameworks(Caller()) == ("numpy",)


def _ping(query):
    return _pong(query)


def _pong(query):
    return _ping(query)


def test_functions_that_call_each_other():
    assert frameworks.likely_frameworks(_ping)[0] == "numpy"


def test_several_frameworks_for_methods_of_arrays():
    scope = {"tensorflow": pytest.importorskip("tensorflow"), "__name__": "learner"}
    exec("def attention(query):\n    return query.sum()\n", scope)  # noqa: S102 - the line above
    assert frameworks.likely_frameworks(scope["attention"]) == ("tensorflow", "numpy")


@pytest.mark.parametrize("result", [None, "text", object(), [1, [2]], np.array(["a"]), {"a": 1}])
def test_not_an_array_of_numbers(result):
    with pytest.raises(TypeError, match=r"expected an array, or a tuple \(output, scores\). Received: "):
        frameworks.numeric_array(result)
