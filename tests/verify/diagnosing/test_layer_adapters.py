import gc

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.layer_adapters import KerasAdapter, adapter_of

RIGHT = ("Linears", "Causal", "Parameters", "Cloned")
WRONG = {
    "key's kernel": "kernels-key-for-value",
    "multiplied": "scale-multiplied",
    "scaled after softmax": "scale-after-softmax",
    "mask inverted": "mask-inverted",
    "fills -1e-9": "mask-zeroes-logits",
    "softmax over queries": "softmax-over-queries",
    "dropout by hand": "dropout-at-inference",
    "merged without transpose": "merge-not-transposed",
    "multiplied + merged without transpose": "merge-not-transposed scale-multiplied",
    "mask inverted + key's kernel": "kernels-key-for-value mask-inverted",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_module_is_not_accused(candidate, name):
    found = diagnose(candidate("torch_modules", name))
    assert found.right, found.ids
    assert found.errors == {}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_of_a_module_is_named(candidate, wrong):
    found = diagnose(candidate("torch_modules", "Linears"), arguments={"wrong": wrong}, mask="attends")
    assert sorted(found.ids) == WRONG[wrong].split()


@pytest.mark.parametrize(("diagonal", "ids"), [(0, ("causal-strict",)), (2, ("causal-one-ahead",))])
def test_causal_module_without_a_flag(candidate, diagonal, ids):
    assert diagnose(candidate("torch_modules", "Causal"), arguments={"diagonal": diagonal}).ids == ids


def test_module_is_not_changed(candidate):
    torch = pytest.importorskip("torch")
    module = candidate("torch_modules", "Linears")(15, 3, 0.2)
    module.train()
    before = {name: array.clone() for name, array in module.state_dict().items()}
    assert diagnose(module).right
    assert module.training
    after = module.state_dict()
    assert all(after[name].dtype == torch.float32 for name in before)
    assert all(torch.equal(after[name], before[name]) for name in before)


@pytest.mark.parametrize("options", [{}, {"kdim": 7, "vdim": 7}, {"batch_first": True, "bias": False}])
def test_layer_of_torch_gives_nan_in_fully_masked_rows(options):
    """Nothing says what such a row should be, so it is right, whichever axis comes first."""
    torch = pytest.importorskip("torch")
    found = diagnose(torch.nn.MultiheadAttention(15, 3, **options), mask="hides")
    assert found.right
    assert found.evidence[0].startswith("Rows with nothing to attend to are NaN, as in torch.")
    assert found.errors == {}


def test_class_that_is_no_layer():
    with pytest.raises(ValueError, match=r"Fraction is neither a keras.Layer nor a torch.nn.Module"):
        adapter_of(__import__("fractions").Fraction)


@pytest.mark.filterwarnings("ignore")  # of the packages, about each other
@pytest.mark.parametrize("package", ["tf_keras", "keras_core"])
def test_layers_of_older_versions_of_keras(package):
    layers = pytest.importorskip(package).layers

    class Unscaled(layers.MultiHeadAttention):
        def _compute_attention(self, query, *rest, **more):
            return super()._compute_attention(query * self._key_dim**0.5, *rest, **more)

    assert diagnose(layers.MultiHeadAttention).right
    assert diagnose(Unscaled).ids == ("scale-missing",)
    layer = layers.MultiHeadAttention(3, 5)
    layer(np.ones((2, 7, 15), "float32"), np.ones((2, 7, 15), "float32"))
    assert diagnose(layer).right


class _Deep(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self._first = keras.layers.Dense(2)
        self.rest = {"second": [keras.layers.Dense(3)], "third": keras.Sequential([keras.layers.Dense(5)])}

    def call(self, x):
        return self.rest["third"](self.rest["second"][0](self._first(x)))


def test_variables_have_attribute_paths():
    layer = _Deep()
    layer(np.ones((1, 7)))
    kernels = {
        variable.path: variable.shape for variable in KerasAdapter().variables(layer) if len(variable.shape) == 2
    }
    assert kernels == {
        "first.kernel": (7, 2),
        "rest.second.0.kernel": (2, 3),
        "rest.third.layers.1.kernel": (3, 5),  # the input comes first
    }


def test_a_variable_is_set_and_read():
    layer = keras.layers.Dense(2)
    layer.build((1, 3))
    kernel = next(variable for variable in KerasAdapter().variables(layer) if len(variable.shape) == 2)
    kernel.assign(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(layer.get_weights()[0], kernel.read())
    np.testing.assert_array_equal(kernel.read(), np.arange(6).reshape(3, 2))


def test_a_method_that_overrides_one_of_torch_is_called():
    """In inference, torch computes the whole block in compiled code, which the methods of a subclass do not change."""
    torch = pytest.importorskip("torch")

    class Block(torch.nn.TransformerEncoderLayer):
        def _ff_block(self, x):
            return self.linear2(self.linear1(x))

    found = diagnose(Block(12, 4, 20, batch_first=True).eval(), mask="hides")
    assert found.ids == ("feed-forward-activation-missing",)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:.build... was called")  # of a layer with a sublayer that its call does not use
def test_sublayers_that_a_call_does_not_use_are_forgotten_with_their_layer(candidate):
    """Python gives the id of a lost object to a new one, so ids must not tell what is unused."""
    adapter, kind = KerasAdapter(), candidate("keras_layers", "HeadLists")
    arguments = dict.fromkeys(("q", "k", "v"), keras.ops.ones((2, 3, 4)))

    def variables(wrong):
        layer = kind(num_heads=2, d_model=4, d_k=3, wrong=wrong)
        adapter.build(layer, arguments, "float32")
        return adapter.variables(layer)

    for _ in range(20):
        assert [each.path for each in variables("one value kernel") if not each.used] == [
            "values.1.kernel",
            "values.1.bias",
        ]
        gc.collect()
        assert all(each.used for each in variables(""))


def test_complex_buffers_stay_complex(candidate):
    """torch drops their imaginary part in `.to(torch.float64)`, so that right rotary code was said to differ."""
    pytest.importorskip("torch")
    thing = candidate("torch_rotary", "TurnsComplex")
    assert diagnose(thing).right
    found = diagnose(thing, arguments={"scale": False})
    assert found.ids == ("scale-missing",)
    assert "torch.set_default_dtype(torch.float64)" in found.code()
    assert ".to(torch.float64)" not in found.code()
