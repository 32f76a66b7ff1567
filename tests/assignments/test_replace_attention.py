import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging.marking import problem
from kmha.course.judging.pipeline import judge
from kmha.sandbox.sandbox import CallResult, Sandbox

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


@pytest.mark.parametrize("id", HIDDEN)
def test_the_built_in_under_another_name_earns_nothing_for_layers_and_logits(id):
    (item,) = content.find("a9.replace_attention", content.installed())
    with Sandbox(item.spec.uses) as sandbox:
        grade = judge(item, COPY.format(HIDDEN[id]), sandbox, seed=1, explained=False)
    assert [outcome.points for outcome in grade.outcomes] == [1, 0, 0, 2]
    assert "OwnAttention with MultiHeadAttention" in grade.outcomes[1].problem


def test_forged_numbers_that_agree_with_each_other_earn_nothing():
    (item,) = content.find("a9.replace_attention", content.installed())
    values = next(check for check in item.spec.checks if check.layer == "values")
    expected = {"logits": np.ones((2, 7, 13)), "trained": np.ones((2, 7, 13)), "attention": ["a: OwnAttention"]}
    forged = {**expected, "logits": np.zeros((2, 7, 13)), "trained": np.zeros((2, 7, 13))}
    inputs = {"source": np.zeros((2, 7), int)}
    assert problem(values, inputs, CallResult(expected), expected) is None
    assert "differ" in problem(values, inputs, CallResult(forged), expected)
