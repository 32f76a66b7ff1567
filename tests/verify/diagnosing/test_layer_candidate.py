import types

import keras
import numpy as np
import pytest

import kmha
from kmha.layers import addons
from kmha.verify import diagnose
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.layer_candidate import fixed_sizes, held_sizes, letters
from kmha.verify.diagnosing.trials import Sizes, draw_weights
from kmha.verify.diagnosing.weights import Variable, arrangements_of_layer, canonical_weights

pytestmark = [pytest.mark.tensorflow, pytest.mark.sampled(4)]

DRAWN = Sizes(batch=4, rows=11, columns=7, heads=3, features=13, key_features=13, size=5, width=17)

RIGHT = ("Course", "Nameless", "OneHead", "HeadLists", "Packed", "Lists", "Half", "Bare", "Fixed")
WRONG = {
    "split by reshape": "heads-reshaped",
    "query is key": "inputs-all-key",
    "key and value swapped": "mix-key-value-swapped",
    "key's kernel for value": "kernels-key-for-value",
    "merged without transpose": "merge-not-transposed",
    "not scaled": "scale-missing",
    "mask inverted": "mask-inverted",
    "mask adds 1e-9": "mask-zeroes-logits",
    "softmax over queries": "softmax-over-queries",
    "dropout left on": "dropout-at-inference",
    "dropout unused": "dropout-never",
    "not scaled + split by reshape": "heads-reshaped scale-missing",
    "mask inverted + merged without transpose": "mask-inverted merge-not-transposed",
}


@pytest.mark.parametrize("layer", [keras.layers.MultiHeadAttention, kmha.MultiHeadAttention], ids=["builtin", "ours"])
def test_the_builtin_and_ours(layer):
    found = diagnose(layer)
    assert found.right, found.ids
    assert found.errors == {}
    assert found.in_float16 is None
    names = {one.trial.name for one in found.results}
    assert names >= {"causal, T > S", "mask and padding", "dropout, training", "large numbers, mask"}


@pytest.mark.parametrize("layer", [keras.layers.MultiHeadAttention, kmha.MultiHeadAttention], ids=["builtin", "ours"])
@pytest.mark.parametrize(
    "options", [{"dropout": 0.3, "use_bias": False}, {"output_shape": 17, "dtype": "float64"}], ids=["plain", "biased"]
)
def test_built_layer(layer, options, rng):
    built = layer(3, 5, **options)
    built(rng.normal(size=(2, 7, 13)), rng.normal(size=(2, 4, 11)))
    built.set_weights([rng.normal(size=weight.shape) * 0.4 for weight in built.get_weights()])
    before = built.get_weights()
    found = diagnose(built)
    assert found.right, found.ids
    assert found.errors == {}
    assert (found.sizes.heads, found.sizes.size, found.sizes.features, found.sizes.key_features) == (3, 5, 13, 11)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(before, built.get_weights(), strict=True))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_layer_is_not_accused(candidate, name):
    found = diagnose(candidate("keras_layers", name))
    assert found.right, found.ids
    assert found.errors == {}
    assert len(found.results) >= 2


@pytest.mark.sampled(16)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_named(candidate, wrong):
    found = diagnose(candidate("keras_layers", "Course"), arguments={"wrong": wrong}, mask="attends")
    assert sorted(found.ids) == WRONG[wrong].split()


@pytest.mark.slow
def test_layer_that_is_only_wrong_without_scores(candidate):
    """Trials ask for scores, which show more mistakes, but some are repeated without."""
    found = diagnose(candidate("keras_layers", "Strange"), arguments={"how": "quick and wrong"})
    assert not found.right
    assert set(found.wrong) == {"self-attention, without scores", "mask, without scores"}
    assert "return_attention_scores=False" in found.code()


@pytest.mark.slow
def test_width_equal_to_the_features(candidate):
    found = diagnose(candidate("keras_layers", "Course"), arguments={"wrong": "scaled by the width"})
    assert {match.ids for match in found.matches} == {("scale-all-heads",), ("scale-features",)}


def test_the_layer_of_addons_takes_a_list():
    found = diagnose(addons.MultiHeadAttention, arguments={"return_attn_coef": True})
    assert found.right, found.ids
    assert found.convention.entry == "[query, key, value]"
    assert found.results[0].answer.scores is not None


@pytest.mark.parametrize(("mask", "ids"), [("attends", "mask-inverted"), ("hides", "")])
def test_meaning_of_true_in_a_mask(candidate, mask, ids):
    found = diagnose(candidate("keras_layers", "Course"), arguments={"wrong": "mask inverted"}, mask=mask)
    assert " ".join(found.ids) == ids


def test_the_other_meaning_of_true_is_asked_for(candidate):
    course = candidate("keras_layers", "Course")
    assert diagnose(course, arguments={"wrong": "mask inverted"}).ids == ("mask-inverted",)  # its docstring says so
    found = diagnose(type("Course", (course,), {}), arguments={"wrong": "mask inverted"})
    assert found.right
    assert any(
        "Right, if True hides in `mask`" in line and "--mask hides" in line for line in found.to_dict()["remarks"]
    )


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
@pytest.mark.parametrize(("scaled", "ids"), [(True, ()), (False, ("scale-missing",))])
def test_weights_without_names_are_solved_for(candidate, order, scaled, ids):
    found = diagnose(candidate("keras_layers", "Nameless"), arguments={"order": order, "scaled": scaled})
    assert found.ids == ids
    assert found.verdict == ("known" if ids else "right")


def test_weights_without_names_of_a_built_layer(candidate, rng):
    layer = candidate("keras_layers", "Nameless")(15, 3, order=(2, 0, 3, 1))
    layer(rng.normal(size=(2, 4, 15)), rng.normal(size=(2, 7, 15)))
    assert diagnose(layer).right


@pytest.mark.parametrize(
    ("name", "arguments", "ids"),
    [
        ("HeadLists", {"wrong": "averaged"}, "merge-averaged"),
        ("Packed", {"shift": -1}, "causal-strict"),
        ("Packed", {"shift": 1}, "causal-one-ahead"),
    ],
)
def test_mistakes_of_other_forms(candidate, name, arguments, ids):
    assert " ".join(diagnose(candidate("keras_layers", name), arguments=arguments).ids) == ids


def test_overflow_in_float16_is_reported_separately(candidate):
    half = candidate("keras_layers", "Half")
    found = diagnose(half)
    assert found.right
    assert found.in_float16.ids == ("half-logits-overflow",)
    assert diagnose(half, float16=True).ids == ("half-logits-overflow",)


@pytest.mark.parametrize(
    ("arguments", "heads", "width"),
    [({"num_heads": 5}, 5, None), ({"d_model": 14, "num_heads": 7}, 7, 14), ({"d_model": 60}, None, 60)],
)
def test_sizes_may_be_given(candidate, arguments, heads, width):
    found = diagnose(candidate("keras_layers", "Course"), arguments=arguments)
    assert found.right, found.ids
    assert found.sizes.heads == heads or heads is None
    assert found.sizes.width == width or width is None


def test_policy_is_restored(candidate):
    diagnose(candidate("keras_layers", "OneHead"))
    assert keras.config.dtype_policy().name == "float32"


def _unbuilt():
    return keras.Sequential([keras.layers.Dense(3)])


def _dense():
    layer = keras.layers.Dense(3)
    layer.build((2, 5))
    return layer


class _Unknown(keras.layers.Layer):
    def __init__(self, colour):
        super().__init__()
        self.colour = colour.upper()

    def call(self, x):
        return x


class _NoInput(keras.layers.Layer):
    def call(self, colour=None):
        return colour


class _ManyWeights(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.parts = [keras.layers.Dense(units) for _ in range(6)]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (_unbuilt, {}, r"the layer has no weights yet. Give its class, so that kmha makes the weights"),
        (_dense, {}, r"its weights do not fit multi-head attention\..*\(5, 3\)"),
        (lambda: _Unknown, {}, r"kmha does not know the argument `colour`.*--set colour=VALUE"),
        (lambda: _Unknown, {"colours": 1}, r"has no argument `colours`. It has: colour, x\."),
        (lambda: _NoInput, {}, r"its call\(\) has no argument for the input.*Received: colour\."),
        (
            lambda: _ManyWeights,
            {},
            r"_ManyWeights: the weights fit no known form of .*H=1, O=.*parts.5.bias \(\d+,\)\.",
        ),
        (lambda: keras.layers.MultiHeadAttention, {"num_head": 2}, r"has no argument `num_head`. It has: num_heads, "),
        (lambda: int, {}, r"int is neither a keras.Layer nor a torch.nn.Module.*Give a function that calls it"),
    ],
    ids=["unbuilt", "dense", "unknown", "given", "input", "weights", "misspelt", "class"],
)
def test_errors_teach(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        diagnose(make(), arguments=arguments)


def test_a_width_that_heads_do_not_divide(candidate):
    with pytest.raises(CandidateError, match="a width of 7 is not a multiple of 2 heads"):
        diagnose(candidate("keras_layers", "Course"), arguments={"d_model": 7, "num_heads": 2})


def test_a_layer_that_raises_on_every_call():
    class Broken(keras.layers.Layer):
        def call(self, x):
            raise RuntimeError("out of coffee")

    found = diagnose(Broken)
    assert found.verdict == "raises"
    assert set(found.errors.values()) == {"RuntimeError: out of coffee"}


def test_an_unknown_number_of_heads_is_found_by_trying(rng):
    layer = types.SimpleNamespace(parts=3)  # no attribute that names heads
    shapes = {"wq": (12, 12), "wk": (12, 12), "wv": (12, 12), "wo": (12, 12)}
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    variables = [Variable(name, a.shape, lambda _: None, lambda a=a: a) for name, a in arrays.items()]
    found = arrangements_of_layer("layer", layer, variables, {})
    heads = {canonical_weights(sizes, slots)["query/kernel"].shape[0] for sizes, slots in found}
    assert heads == {1, 2, 3, 4, 6, 12}


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    ("fixed", "wide", "has_output", "heads", "expected"),
    [
        ({}, False, True, 3, (3, 13, 5, 17)),
        ({}, False, False, 3, (3, 13, 5, 13)),
        ({"size": 6, "output": 9}, False, True, 3, (3, 13, 6, 9)),
        ({"width": 8}, False, False, 2, (2, 8, 5, 8)),
        ({"inputs": 10}, False, True, 3, (3, 10, 5, 17)),
        ({}, True, True, 2, (2, 10, 5, 10)),
        ({}, True, False, 1, (1, 17, 17, 17)),
        ({"width": 12}, True, False, 2, (2, 12, 6, 12)),
    ],
)
def test_given_sizes_replace_drawn_sizes(fixed, wide, has_output, heads, expected):
    sizes = fixed_sizes(DRAWN, heads, fixed, wide, has_output, "layer")
    assert (sizes.heads, sizes.features, sizes.size, sizes.width) == expected
    assert sizes.key_features == sizes.features
    assert (sizes.batch, sizes.rows, sizes.columns) == (4, 11, 7)


def test_heads_must_divide_the_width():
    with pytest.raises(CandidateError, match=r"^layer: a width of 10 is not a multiple of 3 heads"):
        fixed_sizes(DRAWN, 3, {"width": 10}, True, False, "layer")


def test_the_sizes_of_weights():
    weights = draw_weights(np.random.default_rng(0), Sizes(2, 4, 6, 3, 13, 11, 5, 17))
    assert letters(weights) == {"H": 3, "O": 5, "E": 17, "I query": 13, "I key": 11, "I value": 11}
    held = held_sizes(weights)
    assert (held.heads, held.features, held.key_features, held.size, held.width) == (3, 13, 11, 5, 17)
    assert len({held.batch, held.rows, held.columns, held.heads, held.size}) == 5
    assert held.use_bias


def test_a_given_number_of_heads_does_not_hide_the_dropout():
    found = diagnose(keras.layers.MultiHeadAttention, arguments={"num_heads": 2})
    assert found.right, found.ids
