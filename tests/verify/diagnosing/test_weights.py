import types

import numpy as np
import pytest

from kmha.verify.diagnosing import weights
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.trials import Sizes, draw_weights
from kmha.verify.diagnosing.weights import (
    BIASES,
    KERNELS,
    OUTPUT_BIASES,
    OUTPUT_KERNELS,
    PACKED_BIASES,
    PACKED_KERNELS,
    UnknownWeightsError,
    Variable,
    arrangements,
    arrangements_of_layer,
    canonical_weights,
    fitting_forms,
    form_shape,
    forms_of,
    from_form,
    head_of,
    listed_heads,
    read_weights,
    to_form,
    without_extras,
    write_weights,
)

H, O, I, E = 3, 5, 7, 11
SIZES = {"H": H, "O": O, "E": E, "I query": I, "I key": I, "I value": I}
RNG = np.random.default_rng(0)
WEIGHTS = draw_weights(np.random.default_rng(0), Sizes(2, 4, 6, H, I, I, O, E))


class Store:
    """Variables by path, in the given order."""

    def __init__(self, **options):
        self.arrays, self.options = {}, options

    def add(self, *items):
        for path, shape in items:
            self.arrays[path] = np.zeros(shape)
        return self

    def variables(self):
        return [
            Variable(
                path,
                array.shape,
                lambda new, path=path: self.arrays.__setitem__(path, np.array(new)),
                lambda path=path: self.arrays[path],
                **self.options,
            )
            for path, array in self.arrays.items()
        ]


FLAT = [("{}.kernel", (I, H * O)), ("{}.bias", (H * O,))]
OUT = [("{}.kernel", (H * O, E)), ("{}.bias", (E,))]


def _four(*names, into=FLAT, out=OUT):
    parts = [(name, out if index == 3 else into) for index, name in enumerate(names)]
    return [(path.format(name), shape) for name, part in parts for path, shape in part]


CASES = {
    "named": _four("wq", "wk", "wv", "wo"),
    "numbered": _four("d.0", "d.1", "d.2", "d.3"),
    "some named": _four("wq", "wk", "wv", "dense"),
    "four axes": _four(
        "query",
        "key",
        "value",
        "out",
        into=[("{}.kernel", (I, H, O)), ("{}.bias", (H, O))],
        out=[("{}.kernel", (H, O, E)), ("{}.bias", (E,))],
    ),
    "bare": [
        *((f"w_{role}", (I, H * O)) for role in "qkv"),
        ("w_o", (H * O, E)),
        *((f"b_{role}", (H * O,)) for role in "qkv"),
        ("b_o", (E,)),
    ],
    "packed": [("qkv.kernel", (I, 3 * H * O)), ("qkv.bias", (3 * H * O,)), *_four("", "", "", "proj")[6:]],
    "heads": [
        *(
            (f"{role}.{head}.{kind}", shape)
            for role in ("queries", "keys", "values")
            for head in range(H)
            for kind, shape in (("kernel", (I, O)), ("bias", (O,)))
        ),
        *_four("", "", "", "wo")[6:],
    ],
}


@pytest.mark.parametrize("items", CASES.values(), ids=CASES)
def test_write_and_read(items):
    store = Store().add(*items)
    slots = arrangements(store.variables(), SIZES)[0]
    write_weights(slots, WEIGHTS)
    found = read_weights(slots, SIZES)
    assert found.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_dense_kernel_has_the_heads_side_by_side():
    store = Store().add(*CASES["named"])
    write_weights(arrangements(store.variables(), SIZES)[0], WEIGHTS)
    np.testing.assert_array_equal(store.arrays["wk.kernel"], np.concatenate(list(WEIGHTS["key/kernel"]), axis=1))
    np.testing.assert_array_equal(store.arrays["wo.kernel"], np.concatenate(list(WEIGHTS["attention_output/kernel"])))


def test_orientation_of_a_square_matrix():
    square = {**SIZES, "E": H * O, **{f"I {role}": H * O for role in ("query", "key", "value")}}
    weights = draw_weights(np.random.default_rng(1), Sizes(2, 4, 6, H, H * O, H * O, O, H * O))
    items = [(f"{name}.weight", (H * O, H * O)) for name in ("wq", "wk", "wv", "wo")]
    kernels = {}
    for transposed in (False, True):
        store = Store(transposed=transposed).add(*items)
        write_weights(arrangements(store.variables(), square)[0], weights)
        kernels[transposed] = store.arrays["wq.weight"]
    np.testing.assert_array_equal(kernels[True], kernels[False].T)
    untold = arrangements(Store(transposed=None).add(*items).variables(), square)
    assert [slots[0].form for slots in untold] == ["I,HO", "HO,I"]


def test_without_names_every_order_that_fits_is_possible():
    width = H * O
    square = {**SIZES, "E": width, **{f"I {role}": width for role in ("query", "key", "value")}}
    items = [(f"d.{number}.kernel", (width, width)) for number in range(4)]
    orders = [tuple(slot.role for slot in slots) for slots in arrangements(Store().add(*items).variables(), square)]
    assert len(orders) == 24
    assert orders[0] == ("query", "key", "value", "attention_output")
    fitting = arrangements(Store().add(*CASES["numbered"]).variables(), SIZES)
    assert {slots[-1].role for slots in fitting} == {"attention_output"}
    assert len(fitting) == 6


def test_an_output_projection_may_be_missing():
    items = _four("wq", "wk", "wv", "wo")[:6]
    names = {slot.name for slot in arrangements(Store().add(*items).variables(), SIZES)[0]}
    assert names == {f"{role}/{kind}" for role in ("query", "key", "value") for kind in ("kernel", "bias")}


def test_missing_bias_is_zero():
    store = Store().add(*CASES["named"])
    store.arrays["wq.bias"] += 1.0
    write_weights(arrangements(store.variables(), SIZES)[0], {n: a for n, a in WEIGHTS.items() if "bias" not in n})
    assert not store.arrays["wq.bias"].any()


@pytest.mark.parametrize(
    "items",
    [
        [("wq.kernel", (2, 2)), *CASES["named"][1:]],
        [*CASES["named"], ("norm.gamma", (E,))],
        CASES["named"][:4],
        [("dense.kernel", (I, E))],
    ],
    ids=["shape", "more", "fewer", "one"],
)
def test_weights_of_other_layers(items):
    with pytest.raises(UnknownWeightsError, match=r"Expected kernels for query.*H=3, O=5, E=11.*Received: .*kernel \("):
        arrangements(Store().add(*items).variables(), SIZES)


def test_no_weights():
    assert arrangements([], SIZES) == [[]]


def _variables(**shapes):
    arrays = {path: RNG.normal(size=shape) for path, shape in shapes.items()}
    return [Variable(path, array.shape, None, lambda array=array: array) for path, array in arrays.items()]


BUILT = {"wq": (13, 15), "wk": (11, 15), "wv": (11, 15), "wo": (15, 17)}


def _likeliest(layer, variables, given):
    return canonical_weights(*arrangements_of_layer("layer", layer, variables, given)[0])


def test_sizes_are_read_off_the_shapes():
    variables = _variables(**BUILT)
    weights = _likeliest(types.SimpleNamespace(num_heads=3), variables, {})
    assert {name: array.shape for name, array in weights.items()} == {
        "query/kernel": (3, 13, 5),
        "key/kernel": (3, 11, 5),
        "value/kernel": (3, 11, 5),
        "attention_output/kernel": (3, 5, 17),
    }
    np.testing.assert_array_equal(weights["key/kernel"][1], variables[1].read()[:, 5:10])


def test_missing_output_projection_is_the_identity():
    shapes = {name: BUILT[name] for name in ("wq", "wk", "wv")}
    weights = _likeliest(types.SimpleNamespace(heads=5), _variables(**shapes), {})
    np.testing.assert_array_equal(weights["attention_output/kernel"].reshape(15, 15), np.eye(15))


def test_kernels_with_an_axis_of_heads_tell_their_number():
    shapes = {"q": (3, 13, 5), "k": (3, 13, 5), "v": (3, 13, 5), "o": (3, 5, 17)}
    weights = _likeliest(types.SimpleNamespace(), _variables(**shapes), {})
    assert weights["query/kernel"].shape == (3, 13, 5)


def test_given_number_of_heads_wins():
    weights = _likeliest(types.SimpleNamespace(h=3), _variables(**BUILT), {"num_heads": 5})
    assert weights["query/kernel"].shape == (5, 13, 3)


def test_without_a_number_there_is_one_head():
    weights = _likeliest(types.SimpleNamespace(rate=0.1), _variables(**BUILT), {})
    assert weights["query/kernel"].shape == (1, 13, 15)


@pytest.mark.parametrize(
    ("layer", "shapes", "message"),
    [
        (types.SimpleNamespace(), {}, "has no weights yet"),
        (
            types.SimpleNamespace(parts=3),
            {"wq": (13, 15), "wk": (14, 7)},
            r"do not fit multi-head.*Give the number of heads: arguments=",
        ),
        (types.SimpleNamespace(heads=4), BUILT, r"do not fit multi-head attention with 4 heads.*wq \(13, 15\)"),
        (types.SimpleNamespace(heads=3), {"wq": (2, 3)}, r"Expected kernels for query, key, value and output"),
    ],
)
def test_errors_teach(layer, shapes, message):
    with pytest.raises(CandidateError, match=message):
        arrangements_of_layer("layer", layer, _variables(**shapes), {})


@pytest.mark.parametrize("path", ["heads.{}.query.weight", "Head_{}_query.kernel", "attention.head_{}_query.kernel"])
def test_the_heads_of_a_list(path):
    variables = _variables(**{path.format(number): (7, 5) for number in range(3)}, **{"output.kernel": (15, 11)})
    assert [head_of(each.path, variables) for each in variables] == [0, 1, 2, None]
    assert listed_heads(variables) == 3
    assert listed_heads(_variables(w_1=(3, 5), w_2=(5, 3))) is None


def test_the_weights_of_a_feed_forward_network_are_no_table_of_positions():
    variables = _variables(**{"pos_ffn.w_1.weight": (20, 12), "pos_table.weight": (64, 12), "pos_emb": (64, 12)})
    assert [each.path for each in without_extras(variables)[0]] == ["pos_ffn.w_1.weight"]


FORM_SIZES = {"H": 2, "I": 7, "O": 5, "E": 11}
LETTERS = {
    KERNELS: "HIO",
    BIASES: "HO",
    OUTPUT_KERNELS: "HOE",
    OUTPUT_BIASES: "E",
    PACKED_KERNELS: "3HIO",
    PACKED_BIASES: "3HO",
}


def _canonical(letters):
    shape = [3 if letter == "3" else FORM_SIZES[letter] for letter in letters]
    return np.arange(np.prod(shape)).reshape(shape)


@pytest.mark.parametrize(("form", "letters"), [(form, letters) for all_, letters in LETTERS.items() for form in all_])
def test_there_and_back(form, letters):
    canonical = _canonical(letters)
    there = to_form(canonical, letters, form)
    assert there.shape == form_shape(form, FORM_SIZES)
    np.testing.assert_array_equal(from_form(there, letters, form, FORM_SIZES), canonical)


def test_the_form_of_a_dense_kernel_has_the_heads_side_by_side():
    canonical = _canonical("HIO")
    dense = to_form(canonical, "HIO", "I,HO")
    np.testing.assert_array_equal(dense, np.concatenate(list(canonical), axis=1))
    np.testing.assert_array_equal(to_form(canonical, "HIO", "HO,I"), dense.T)


def test_packed_is_query_then_key_then_value():
    packed = _canonical("3HIO")
    dense = to_form(packed, "3HIO", "I,3HO")
    np.testing.assert_array_equal(dense[:, 10:20], to_form(packed[1], "HIO", "I,HO"))


def test_only_what_fits():
    assert fitting_forms((7, 10), KERNELS, FORM_SIZES) == ["I,HO"]
    assert fitting_forms((10, 7), KERNELS, FORM_SIZES) == ["HO,I"]
    assert fitting_forms((7, 11), KERNELS, FORM_SIZES) == []


@pytest.mark.parametrize(
    ("role", "is_bias", "found"),
    [
        ("query", False, KERNELS),
        ("value", True, BIASES),
        ("attention_output", False, OUTPUT_KERNELS),
        ("attention_output", True, OUTPUT_BIASES),
        ("packed", False, PACKED_KERNELS),
        ("packed", True, PACKED_BIASES),
    ],
)
def test_forms_of_a_role(role, is_bias, found):
    assert forms_of(role, is_bias)[: len(found)] == found


@pytest.mark.parametrize("heads", [None, 3])
def test_weights_that_cannot_fit_are_refused_without_trying_all_sizes(heads, monkeypatch):
    """Four matrices of odd sizes took twenty seconds, and ten took minutes."""
    tried = []
    monkeypatch.setattr(
        weights, "arrangements", lambda *given, known=arrangements: tried.append(given) or known(*given)
    )
    odd = _variables(**{f"layer{number}": (7 + 4 * number, 5 + 6 * number) for number in range(4)})
    with pytest.raises(CandidateError, match="do not fit multi-head attention"):
        weights.arrangements_of_layer("x", types.SimpleNamespace(), odd, {"num_heads": heads} if heads else {})
    assert len(tried) < 100
