import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import Runner
from kmha.sandbox.sandbox import Call, Sandbox

HIDDEN = {
    "inherits": "class OwnAttention(keras.layers.MultiHeadAttention):\n    pass\n",
    "contains": """
class OwnAttention(keras.layers.Layer):
    def __init__(self, heads, size, **more):
        super().__init__(**more)
        self.inner = keras.layers.MultiHeadAttention(heads, size)

    def build(self, query_shape, value_shape=None, key_shape=None):
        self.inner.build(query_shape, value_shape or query_shape)

    def call(self, query, value, key=None, attention_mask=None, use_causal_mask=False):
        return self.inner(query, value, attention_mask=attention_mask, use_causal_mask=use_causal_mask)
""",
}
COPY = """
import keras

{}
def replace_attention(model):
    def clone(layer):
        if isinstance(layer, keras.layers.MultiHeadAttention):
            return OwnAttention(layer.num_heads, layer.key_dim, name=layer.name)
        return layer.__class__.from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy
"""


LIES = """
import keras

class OwnAttention(keras.layers.Layer):
    def __init__(self, heads, size, **more):
        super().__init__(**more)

    def build(self, query_shape, value_shape=None, key_shape=None):
        pass

    def call(self, query, value, key=None, attention_mask=None, use_causal_mask=False):
        return inner[self.name](query, value, attention_mask=attention_mask, use_causal_mask=use_causal_mask)

inner = {}

def replace_attention(model):
    def clone(layer):
        if isinstance(layer, keras.layers.MultiHeadAttention):
            inner[layer.name] = layer
            return OwnAttention(layer.num_heads, layer.key_dim, name=layer.name)
        return layer.__class__.from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=clone)
    for old, new in zip(model.layers, copy.layers):
        if new.name not in inner:
            new.set_weights(old.get_weights())
    return copy
"""
ANSWERS = {**{id: COPY.format(code) for id, code in HIDDEN.items()}, "lies about its layers": LIES}


@pytest.mark.parametrize("id", ANSWERS)
def test_the_built_in_under_another_name_earns_nothing(id):
    (item,) = content.find("a9.replace_attention", content.installed())
    with Sandbox(item.spec.uses) as sandbox:
        grade = judge(item, ANSWERS[id], sandbox, seed=1, explained=False)
    assert grade.points == 0
    assert "NameError" in grade.outcomes[2].problem


def test_the_trained_model_gives_the_numbers_that_are_expected():
    """No answer's process computes with the built-in attention, so this test does."""
    (item,) = content.find("a9.replace_attention", content.installed())
    with Sandbox(item.spec.uses) as sandbox:
        runner = Runner(item, sandbox, 1)
        index = next(index for index, call in enumerate(runner.plan.calls) if call.inputs)
        call, expected = runner.plan.calls[index], runner.expected()[index].value
        source = call.function.replace("copy is model", "False")
        code = "def replace_attention(model):\n    return model\n"
        ran = sandbox.run("replace_attention", code, [Call(call.inputs, source)], seconds=30)
    np.testing.assert_allclose(ran.results[0].value["logits"], expected["logits"], rtol=0, atol=1e-4)
