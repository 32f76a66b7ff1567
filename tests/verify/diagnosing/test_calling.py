import inspect
import types

import keras
import numpy as np
import pytest

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import calling
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.conventions import BATCH, HEADS, SINGLE, TIME, Convention
from kmha.verify.diagnosing.trials import Accepts

B, T, S, H, I, O = 2, 3, 5, 4, 7, 6
RNG = np.random.default_rng(0)
MASK = RNG.random((B, T, S)) < 0.5
PADDING = np.arange(S) < np.array([[4], [2]])


def _trial(core=False, **options):
    shape = (B, H) if core else (B,)
    arrays = (RNG.normal(size=(*shape, size, O if core else I)) for size in (T, S, S))
    return Trial("t", *arrays, {} if core else {"query/kernel": np.zeros((H, I, O))}, **options)


def _subject(call=lambda query, key, value, mask=None: 0, cross=True, **convention):
    return types.SimpleNamespace(
        neutral_masks=False,
        accepts=Accepts(cross=cross),
        convention=Convention(**convention),
        call_parameters=calling.parameters(call),
        tensor=lambda array, trial: array,
    )


def test_the_parameters_of_a_function():
    def call(self, query, *rest, key=None, **more):
        return self, query, rest, key, more

    assert list(calling.parameters(call, skip=1)) == ["query", "key"]


def test_a_call_that_passes_on_what_it_gets():
    class Layer:
        def forward(self, *args, **kwargs):
            return self._forward(*args, **kwargs)

        def _forward(self, query, mask=None):
            return query, mask

        def call(self, *args):
            return self.other(*args)

    assert list(calling.call_parameters(Layer, "forward")) == ["query", "mask"]
    assert not calling.call_parameters(Layer, "call")


def test_a_sequence_that_passes_on_what_it_gets():
    class First:
        def forward(self, query, mask=None):
            return query, mask

    class Sequence(First):
        def __init__(self, *inner):
            self.inner = inner

        def children(self):
            return iter(self.inner)

        def forward(self, *args):
            return self.inner[0].forward(*args)

    found = calling.call_parameters(Sequence(Sequence(First())), "forward")
    assert (list(found), calling.positional_only(found)) == (["query", "mask"], ["query"])
    assert not calling.call_parameters(Sequence(Sequence()), "forward")
    assert not calling.call_parameters(Sequence, "forward")
    listed = Sequence(First())
    listed.children = [First()]
    assert not calling.call_parameters(listed, "forward")


def test_constructor_with_kwargs_has_its_parents_parameters():
    class Parent(keras.layers.Layer):
        def __init__(self, num_heads, width=3, **kwargs):
            super().__init__(**kwargs)

    class Child(Parent):
        def __init__(self, colour, **kwargs):
            super().__init__(**kwargs)

    class Strict(Parent):
        def __init__(self, colour):
            super().__init__(2)

    assert list(calling.constructor(Child)) == ["num_heads", "width", "colour"]
    assert list(calling.constructor(Strict)) == ["colour"]
    assert "num_heads" in calling.constructor(keras.layers.MultiHeadAttention)


def test_unknown_arguments_must_be_given():
    found = calling.parameters(lambda query, colour, size=1: 0)
    calling.check_known("f()", found, ["query", "colour"], {})
    calling.check_known("f()", found, ["query"], {"colour": 1})
    with pytest.raises(CandidateError, match=r"^f\(\): kmha does not know the argument `colour`,"):
        calling.check_known("f()", found, ["query"], {})
    with pytest.raises(CandidateError, match=r"^f\(\) has no argument `shade`. It has: query, colour, size\.$"):
        calling.check_given("f()", {"shade": 1}, found)


@pytest.mark.parametrize("value", [0, -2, 1.5, True, "three", [4]])
def test_invalid_size(value):
    with pytest.raises(
        CandidateError, match=r"^f: expected `num_heads` to be a whole number of at least 1. Received: "
    ):
        calling.given_sizes("f", {"num_heads": value})


def test_sizes_by_role():
    given = {"nhead": 3, "d_k": 5, "output_shape": None, "dropout": 0.5}
    assert calling.given_sizes("f", given) == {"heads": 3, "size": 5}


def test_a_look_ahead_mask_is_the_mask_if_there_is_no_other():
    assert calling.call_roles(dict.fromkeys(["x", "look_ahead_mask"]))["mask"] == "look_ahead_mask"
    assert calling.call_roles(dict.fromkeys(["x", "look_ahead_mask", "mask"]))["look_ahead"] == "look_ahead_mask"


def test_is_causal_of_torch_is_no_flag():
    assert "causal" not in calling.call_roles(dict.fromkeys(["query", "attn_mask", "is_causal"]))
    assert calling.call_roles(dict.fromkeys(["query", "is_causal"]))["causal"] == "is_causal"


@pytest.mark.parametrize(
    ("entry", "core", "shape"),
    [
        (HEADS, True, (B, H, T, O)),
        (BATCH, True, (B, T, O)),
        (SINGLE, True, (T, O)),
        (BATCH, False, (B, T, I)),
        (SINGLE, False, (T, I)),
        (TIME, False, (T, B, I)),
    ],
)
def test_the_axes_of_inputs(entry, core, shape):
    found = calling.input_arguments(_subject(entry=entry), {"query": "q", "key": "k", "value": "v"}, _trial(core))
    assert found["q"].shape == shape
    assert [found[name].shape[-2 if entry != TIME else 0] for name in "qkv"] == [T, S, S]


@pytest.mark.parametrize(
    ("entry", "lengths"),
    [("[query, key, value]", [T, S, S]), ("[query, value, key]", [T, S, S]), ("[query, key]", [T, S])],
)
def test_inputs_in_a_list(entry, lengths):
    found = calling.input_arguments(_subject(entry=entry), {"self": "inputs"}, trial := _trial())
    assert [array.shape[1] for array in found["inputs"]] == lengths
    assert found["inputs"][1] is (trial.value if "value, key" in entry else trial.key)


def test_copies_show_what_is_changed_in_place():
    first, second = np.zeros((2, 3)), np.ones((2, 5))
    found = calling.with_copies({"inputs": [first, second], "flag": True})
    assert [tensor is given for (tensor, _), given in zip(found, (first, second), strict=True)] == [True, True]
    second += 1.0
    assert [np.array_equal(tensor, copy) for tensor, copy in found] == [True, False]


def test_self_attention_gets_the_query_as_key_and_value():
    trial = _trial()
    found = calling.input_arguments(_subject(cross=False), {"query": "q", "value": "v"}, trial)
    assert found["q"] is trial.query
    assert found["v"] is trial.query


@pytest.mark.parametrize(("shape", "expected"), [("B,1,T,S", (B, 1, T, S)), ("B,T,S", (B, T, S)), ("T,S", (T, S))])
@pytest.mark.parametrize("dtype", ["bool", "float", "int32"])
def test_the_shape_and_dtype_of_a_mask(shape, expected, dtype):
    found = calling.mask_of(_subject(mask_shape=shape, mask_dtype=dtype), _trial(mask=MASK))
    assert found.shape == expected
    assert found.dtype == ("float64" if dtype == "float" else dtype)
    np.testing.assert_array_equal(found.reshape(-1, T, S)[0].astype(bool), MASK[0])


@pytest.mark.parametrize(
    ("shape", "expected"), [("B,S", (B, S)), ("B,1,1,S", (B, 1, 1, S)), ("B,1,S", (B, 1, S)), ("S", (S,))]
)
def test_the_shape_of_a_padding_mask(shape, expected):
    found = calling.padding_of(_subject(padding_shape=shape), PADDING, _trial())
    assert found.shape == expected


@pytest.mark.parametrize(
    ("meaning", "hidden", "allowed"), [("attends", False, True), ("hides", True, False), ("adds", -1e9, 0.0)]
)
def test_meaning_of_a_mask(meaning, hidden, allowed):
    found = calling.mask_of(_subject(mask_meaning=meaning, mask_shape="B,T,S"), _trial(mask=MASK))
    np.testing.assert_array_equal(found, np.where(MASK, allowed, hidden))


def test_an_additive_mask_is_finite_in_float16():
    found = calling.mask_of(_subject(mask_meaning="adds"), _trial(mask=MASK, dtype="float16"))
    assert np.isfinite(found.astype("float16")).all()


ROLES = {"query": "q", "mask": "mask", "causal": "causal", "training": "training", "scores": "return_scores"}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda q, mask, causal=False: 0, {"mask": None}),
        (lambda q, mask=None, causal=True: 0, {"causal": False}),
        (lambda q, mask=None, causal=False: 0, {}),
        (lambda q, mask=None, causal=False, training=None: 0, {"training": False}),
        (lambda q, mask=None, return_scores=False: 0, {"return_scores": True}),
    ],
)
def test_without_a_mask_only_required_arguments_are_given(call, expected):
    roles = {role: name for role, name in ROLES.items() if name in inspect.signature(call).parameters}
    assert calling.mask_arguments(_subject(call), roles, _trial()) == expected


def test_flags_of_a_trial():
    roles = {"causal": "causal", "training": "train", "deterministic": "deterministic"}
    call = lambda causal=False, train=False, deterministic=True: 0  # noqa: E731
    found = calling.mask_arguments(_subject(call), roles, _trial(causal=True, training=True))
    assert found == {"causal": True, "train": True, "deterministic": False}
