import sys
import types

import pytest

from kmha.sandbox import absent, limits
from kmha.sandbox.sandbox import Call

FORBIDDEN = ("EinsumDense", "Dense", "Attention", "dot_product_attention")
WAYS = {
    "a text of two parts": "getattr(keras.layers, 'Einsum' + 'Dense')('ab,bc->ac', 3)",
    "another module": "keras.src.layers.core.einsum_dense.EinsumDense('ab,bc->ac', 3)",
    "a module that is loaded": "sys.modules['keras.src.layers.core.einsum_dense'].EinsumDense('ab,bc->ac', 3)",
    "tf.keras": "tf.keras.layers.Dense(3)",
    "gc": "[each for each in gc.get_objects() if getattr(each, '__name__', '') == 'EinsumDense'][0]('ab,bc->ac', 3)",
    "subclasses": "[each for each in keras.Layer.__subclasses__() if each.__name__ == 'Dense'][0](3)",
    "without a constructor": "object.__new__(keras.layers.EinsumDense).build((2, 3))",
    "a class that uses it": "keras.layers.MultiHeadAttention(2, 3)(tf.ones((2, 3, 4)), tf.ones((2, 3, 4)))",
    "from a config": "keras.layers.deserialize({'class_name': 'Dense', 'config': {'units': 3}})",
    "its file": "importlib.reload(keras.src.layers.core.einsum_dense)",
    "its file again": "exec(open(keras.src.layers.core.einsum_dense.__file__).read())",
    "an old copy": "importlib.import_module('tensorflow.python.keras.layers.core').Dense(3)",
    "the base of an old copy": "sys.modules['tensorflow.python.keras.layers.dense_attention'].BaseDenseAttention()",
    "a function": "keras.ops.dot_product_attention(*[tf.ones((2, 3, 4, 5))] * 3)",
    "its backend's": "keras.src.backend.nn.dot_product_attention(*[tf.ones((2, 3, 4, 5))] * 3)",
    "another backend's": "importlib.import_module('keras.src.backend.numpy.nn').dot_product_attention",
    "its helper": "keras.src.backend.nn._dot_product_attention_xla(*[tf.ones((2, 3, 4, 5))] * 3, None, None, False, 1)",
    "its operation": "keras.src.ops.nn.DotProductAttention()(*[tf.ones((2, 3, 4, 5))] * 3)",
}
CODE = """import gc, importlib, sys
import keras
import tensorflow as tf

class Own(keras.layers.Layer):
    def call(self, inputs):
        return 2 * inputs

class Dense(Own):
    pass

def f(way):
    if way:
        return bool(eval(way))
    return Dense()(tf.ones(3))
"""


@pytest.mark.tensorflow
@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
def test_what_is_absent_is_reached_in_no_way(sandbox_of):
    sandbox = sandbox_of(("numpy", "keras", "tensorflow"))
    calls = [Call({"way": way}) for way in ("", *WAYS.values())]
    ran = sandbox.run("f", CODE, calls, seconds=60, absent=FORBIDDEN)
    assert ran.error is None
    own, *found = ran.results
    assert own.value.tolist() == [2, 2, 2]
    assert [way for way, result in zip(WAYS, found, strict=True) if result.error is None] == []
    assert found[0].error["says"] == "you use `EinsumDense`. In this exercise you write it yourself."
    assert sandbox.run("f", CODE, [Call({"way": WAYS["another module"]})], seconds=60).results[0].value is True


KINDS = """
class OfThisTest:
    def __init__(self): self.kept = 1
    @staticmethod
    def of_static(): return 1
    @classmethod
    def of_class(cls): return super().__name__
    @property
    def of_property(self): return 1
class Other: pass
def of_this_test(): return 1
def _of_this_test_helper(): return 1
"""


def test_functions_of_all_kinds(monkeypatch):
    module = types.ModuleType("a_module")
    exec(KINDS, vars(module))  # noqa: S102 - our own text
    monkeypatch.setitem(sys.modules, "a_module", module)
    module.alias = module.OfThisTest
    made = object.__new__(module.OfThisTest)
    assert absent.remove(["OfThisTest", "of_this_test"]) == []
    for use in (
        module.alias,
        module.OfThisTest.of_static,
        module.OfThisTest.of_class,
        lambda: made.of_property,
        module.of_this_test,
        module._of_this_test_helper,
    ):
        with pytest.raises(NameError, match="In this exercise you write it yourself"):
            use()
    assert isinstance(module.Other(), module.Other)
    assert absent.remove([]) == []
