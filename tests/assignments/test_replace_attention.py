import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import Runner, needed_solutions
from kmha.sandbox.sandbox import Call

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


UNREPLACED = """
import keras
from keras import ops

def replace_attention(model):
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy

def _compute_attention(self, query, key, value, attention_mask=None, *more, **others):
    logits = ops.einsum("BTHO,BSHO->BHTS", query, key) / self._key_dim**0.5
    scores = self._masked_softmax(logits, attention_mask)
    return ops.einsum("BHTS,BSHO->BTHO", scores, value), scores

keras.layers.MultiHeadAttention._compute_attention = _compute_attention
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("id", ANSWERS)
def test_the_built_in_under_another_name_earns_nothing(id, sandbox_of):
    (item,) = content.find("a9.replace_attention", content.installed())
    grade = judge(item, ANSWERS[id], sandbox_of(item.spec.uses), seed=1, explained=False)
    assert grade.points == 0
    assert "NameError" in grade.outcomes[2].problem


# The layer computes by itself, but its projections and weights are those of the built-in class.
INHERITS = """
import keras
from keras import ops

class OwnAttention(keras.layers.MultiHeadAttention):
    def _compute_attention(self, query, key, value, attention_mask=None, *more, **others):
        logits = ops.einsum("BTHO,BSHO->BHTS", query / self.key_dim**0.5, key)
        if attention_mask is not None:
            logits = ops.where(ops.expand_dims(attention_mask, 1), logits, -1e30)
        return ops.einsum("BHTS,BSHO->BTHO", ops.softmax(logits, axis=-1), value), None

def replace_attention(model):
    def clone(layer):
        own = OwnAttention if isinstance(layer, keras.layers.MultiHeadAttention) else layer.__class__
        return own.from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy
"""
NO_MODEL = """
class Copy:
    def __init__(self, copy):
        self.layers, self.weights = copy.layers, copy.weights
        self.predict_on_batch = copy.predict_on_batch

made = replace_attention

def replace_attention(model):
    return Copy(made(model))
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("id", ["inherits", "renames", "no model", "unreplaced"])
def test_copies_that_only_look_right(id, sandbox_of):
    (item,) = content.find("a9.replace_attention", content.installed())
    code = {"no model": item.master.solution + NO_MODEL, "unreplaced": UNREPLACED}.get(id, INHERITS)
    if id == "renames":
        code = code.replace(
            "    return copy\n", "    keras.layers.MultiHeadAttention = type('Other', (), {})\n    return copy\n"
        )
    grade = judge(item, code, sandbox_of(item.spec.uses), seed=1, files=needed_solutions(item), explained=False)
    problem = "with MultiHeadAttention" if id != "no model" else "you return a Copy, expected a new Keras model."
    assert problem in grade.outcomes[1].problem
    assert grade.points <= 3


def test_the_trained_model_gives_the_numbers_that_are_expected(sandbox_of):
    """No answer's process computes with the built-in attention, so this test does."""
    (item,) = content.find("a9.replace_attention", content.installed())
    sandbox = sandbox_of(item.spec.uses)
    runner = Runner(item, sandbox, 1)
    index = next(index for index, call in enumerate(runner.plan.calls) if call.inputs.get("last") == "logits")
    call, expected = runner.plan.calls[index], runner.expected()[index].value
    source = call.function.replace("copy is not model", "True")
    code = "def replace_attention(model):\n    return model\n"
    ran = sandbox.run("replace_attention", code, [Call(call.inputs, source)], seconds=30)
    np.testing.assert_allclose(ran.results[0].value["logits"], expected["logits"], rtol=0, atol=1e-4)
