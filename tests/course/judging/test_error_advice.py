import keras
import numpy as np
import pytest

from kmha.course.judging import error_advice
from kmha.course.judging.error_advice import advice, general


def _raised(function):
    try:
        function()
    except Exception as error:
        return {"kind": type(error).__name__, "says": str(error), "line": 3, "operands": "a (2, 3)"}
    raise AssertionError("no error")


A, B = np.zeros((2, 3)), np.zeros((4, 5))
CASES = {
    "error-matmul": lambda: A @ B,
    "error-matmul-batch": lambda: np.zeros((8, 4, 6)) @ np.zeros((11, 6, 9)),
    "error-broadcast": lambda: A + B,
    "error-index": lambda: A[np.zeros((2, 4), bool)],
    "error-concatenation": lambda: np.stack([A, B]),
    "error-broadcast-to": lambda: np.broadcast_to(A, (4, 3)),
    "error-reshape": lambda: A.reshape(4, 5),
    "error-split": lambda: np.split(A, 2, axis=1),
    "error-not-callable": lambda: A.tolist()(B),
    "error-weight-count": lambda: _dense(use_bias=False).set_weights([A, B]),
    "error-weight-shape": lambda: _dense().set_weights([A, np.zeros(2)]),
    "error-input-width": lambda: _dense()(B),
    "error-weight-of-unknown-size": lambda: keras.Layer().add_weight(shape=(None, 3)),
    "error-only-tensors-by-place": lambda: _dense()(A, True),
    "error-transpose": lambda: A.transpose(0, 2, 1),
    "error-axis": lambda: A.sum(axis=2),
    "error-many-indices": lambda: A[0, 0, 0],
    "error-boolean-minus": lambda: -(A > 0),
    "error-truth": lambda: 1 if A else 2,
    "error-none": lambda: A + None,
    "error-name": lambda: undefined,  # noqa: F821
    "error-torch-name": lambda: A.permute(0, 1),
    "error-float-index": lambda: np.zeros(3 / 2),
    "error-module": lambda: np.einsums,
    "error-unpack": lambda: [0 for a, b, c in [A.shape]],
    "error-arguments": lambda: (lambda one: one)(1, 2),
}


def _dense(**more):
    layer = keras.layers.Dense(4, **more)
    layer.build((None, 3))
    return layer


def _assigned():
    A.copy()[:] = B


@pytest.mark.parametrize(
    ("function", "id", "shown"),
    [
        (lambda: True - (A > 0), "error-boolean-minus", "`~`"),
        (lambda: A[5], "error-index", "There is no index 5: axis 0 has 2 places"),
        (lambda: A[np.zeros((2, 4), bool)], "error-index", "axis 1 has 3, and the index 4"),
        (_assigned, "error-broadcast", "(4,5) does not fit into the place of the shape (2,3)"),
    ],
)
def test_what_numpy_says_in_several_ways(function, id, shown):
    found, text = advice(_raised(function))[:2]
    assert found == id
    assert shown in text


@pytest.mark.parametrize("id", CASES)
def test_errors_of_numpy_and_python(id):
    assert advice(_raised(CASES[id]))[0] == id


@pytest.mark.parametrize(
    ("equation", "arrays", "id"),
    [
        ("ij,jk->ik", (A, B), "error-einsum-sizes"),
        ("ijk->i", (A,), "error-einsum-letters"),
        ("i->i", (A,), "error-einsum-letters"),
        ("ij->k", (A,), "error-einsum-letters"),
        ("ij,jk->ik", (A,), "error-einsum-letters"),
    ],
)
def test_einsum(equation, arrays, id):
    assert advice(_raised(lambda: np.einsum(equation, *arrays)))[0] == id


@pytest.mark.parametrize(
    ("function", "id"),
    [
        (lambda: keras.ops.convert_to_tensor(A) + keras.ops.convert_to_tensor(B), "error-broadcast"),
        (lambda: keras.ops.einsum("bsi,hio->bhso", np.ones((1, 2, 3)), np.ones((4, 5, 6))), "error-einsum-sizes"),
        (lambda: keras.ops.convert_to_tensor(A).permute(0, 1), "error-torch-name"),
        (
            lambda: keras.ops.convert_to_tensor(A).__add__(keras.ops.zeros((2, 3), "float32")),
            "error-precision",
        ),
        (lambda: keras.ops.convert_to_tensor(A) / keras.ops.sqrt(4.0), "error-precision"),
        (lambda: keras.ops.where(np.ones((2, 3), bool), np.zeros((2, 4, 3)), -1e9), "error-broadcast"),
    ],
)
def test_errors_of_tensorflow(function, id):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the sandbox uses TensorFlow")
    assert advice(_raised(function))[0] == id


@pytest.mark.parametrize(
    ("kind", "says", "text", "id"),
    [
        (
            "AttributeError",
            "Exception encountered when calling L.call().\n\n'L' object has no attribute 'bias'\n\nArguments: 1",
            "if self.bias is not None:",
            "error-self-attribute",
        ),
        ("TypeError", "`bias` is None, not a weight.", "", "error-not-a-weight"),
        ("AttributeError", "'L' object has no attribute '_parent_path'", "", "error-no-super"),
        ("FloatingPointError", "invalid value encountered in subtract", "e = np.exp(a - a)", "error-invalid"),
        (
            "TypeError",
            "Error when deserializing class 'L' using config={}.\n\nException encountered: L.__init__() missing 1 "
            "required positional argument: 'key_dim'",
            "",
            "error-config",
        ),
        (
            "InvalidArgumentError",
            "Input to reshape is a tensor with 352 values, but the requested shape requires a multiple of 3",
            'outputs = ops.einsum("BTI,HIO->BTHO", inputs, self.kernel)',
            "error-einsum-sizes",
        ),
        (
            "InvalidArgumentError",
            "Input to reshape is a tensor with 110 values, but the requested shape requires a multiple of 154",
            "mask = ops.reshape(mask, (-1, 1, rows, columns))",
            "error-reshape",
        ),
        (
            "ValueError",
            "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable is "
            "only created once or created outside tf.function.",
            "scores = keras.layers.Dropout(self.dropout)(scores, training=training)",
            "error-made-in-call",
        ),
        (
            "ValueError",
            "Dimensions must be equal, but are 3 and 6 for '{{node encoder_1/add}} = AddV2[T=DT_FLOAT](encoder_1/mul, "
            "encoder_1/Cast)' with input shapes: [6,3,14], [1,6,14].",
            "x = x + self.pos_encoding",
            "error-broadcast",
        ),
        (
            "ValueError",
            "For a `build()` method with more than one argument, all arguments should have a `_shape` suffix and match "
            "an argument from `call()`. E.g. `build(self, foo_shape, bar_shape)`",
            "",
            "error-build-names",
        ),
        (
            "OperatorNotAllowedInGraphError",
            "Iterating over a symbolic `tf.Tensor` is not allowed. You can attempt the following resolutions",
            "attention, scores = self.mha(x, x)",
            "error-one-tensor-unpacked",
        ),
        ("ValueError", "`kernel` has the shape (12, 2, 13), expected (12, 11, 13).", "", "error-weight-shape"),
        (
            "ValueError",
            "Layer attend weight shape (5, 12, 4) is not compatible with provided weight shape (12, 5, 4).",
            "new.set_weights(old.get_weights())",
            "error-weight-axes",
        ),
        (
            "ValueError",
            "Layer attend weight shape (5, 12, 4) is not compatible with provided weight shape (12, 4, 5).",
            "",
            "error-weight-shape",
        ),
        (
            "TypeError",
            "MultiHeadAttention.call() got multiple values for argument 'query_mask'",
            "self.mha1(x, x, x, look_ahead_mask, training=training)",
            "error-mask-by-position",
        ),
    ],
)
def test_errors_of_layers(kind, says, text, id):
    assert advice({"kind": kind, "says": says, "text": text, "line": 3})[0] == id


def test_the_shapes_are_said():
    says = advice(_raised(CASES["error-broadcast"]))[1]
    assert "(2,3) and (4,5)" in says
    assert "a (2, 3)" in says


def test_what_an_answer_says_itself_is_short():
    """The values came from the worker, and were as long as it wanted."""
    long = {"kind": "ValueError", "says": "axes don't match array", "operands": "x" * 4_000}
    assert len(advice(long)[1]) < 500
    assert len(advice({"kind": "NameError", "says": f"name '{'x' * 900}' is not defined"})[1]) < 300


@pytest.mark.parametrize("id", sorted({rule[0] for rule in error_advice._RULES}))
def test_the_sentence_without_an_answer(id):
    assert "{" not in general(id)
    assert "}" not in general(id)


def test_an_unusual_error_has_no_advice():
    assert advice({"kind": "KeyError", "says": "'{0}{with}'"}) is None


def test_braces_stay_as_they_are():
    error = {"kind": "TypeError", "says": "NoneType", "operands": "x = '{1}{line}'"}
    assert "x = '{1}{line}'" in advice(error)[1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["ValueError:", "broadcastable", "InvalidArgumentError: Input to reshape ", "einsum("])
def test_an_error_that_an_answer_makes_up_takes_no_time(part):
    """Patterns of three repeats take the cube of the length: 32 seconds for 8,000 characters."""
    long = part * (4000 // len(part))
    advice({"kind": "ValueError:" * 363, "says": long, "line": 1, "text": long})
    advice({"kind": "InvalidArgumentError", "says": long, "line": 1, "text": long})
