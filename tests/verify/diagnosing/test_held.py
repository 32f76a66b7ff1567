import numpy as np
import pytest

from kmha.verify.diagnosing import held
from kmha.verify.diagnosing.held import UnknownWeightsError, Variable
from kmha.verify.diagnosing.trials_sizes import Sizes, draw_weights

H, O, I, E = 3, 5, 7, 11
SIZES = {"H": H, "O": O, "E": E, "I query": I, "I key": I, "I value": I}
WEIGHTS = draw_weights(np.random.default_rng(0), Sizes(2, 4, 6, H, I, I, O, E))


class Store:
    """Variables by path, in the order in which they are given."""

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
def test_what_is_written_is_read(items):
    store = Store().add(*items)
    slots = held.arrangements(store.variables(), SIZES)[0]
    held.write(slots, WEIGHTS)
    found = held.read(slots, SIZES)
    assert found.keys() == WEIGHTS.keys()
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_dense_kernel_has_the_heads_side_by_side():
    store = Store().add(*CASES["named"])
    held.write(held.arrangements(store.variables(), SIZES)[0], WEIGHTS)
    np.testing.assert_array_equal(store.arrays["wk.kernel"], np.concatenate(list(WEIGHTS["key/kernel"]), axis=1))
    np.testing.assert_array_equal(store.arrays["wo.kernel"], np.concatenate(list(WEIGHTS["attention_output/kernel"])))


def test_a_matrix_that_is_square_is_turned_as_its_layer_has_it():
    square = {**SIZES, "E": H * O, **{f"I {role}": H * O for role in ("query", "key", "value")}}
    weights = draw_weights(np.random.default_rng(1), Sizes(2, 4, 6, H, H * O, H * O, O, H * O))
    items = [(f"{name}.weight", (H * O, H * O)) for name in ("wq", "wk", "wv", "wo")]
    kernels = {}
    for transposed in (False, True):
        store = Store(transposed=transposed).add(*items)
        held.write(held.arrangements(store.variables(), square)[0], weights)
        kernels[transposed] = store.arrays["wq.weight"]
    np.testing.assert_array_equal(kernels[True], kernels[False].T)
    untold = held.arrangements(Store(transposed=None).add(*items).variables(), square)
    assert [slots[0].form for slots in untold] == ["I,HO", "HO,I"]


def test_without_names_every_order_that_fits_is_possible():
    width = H * O
    square = {**SIZES, "E": width, **{f"I {role}": width for role in ("query", "key", "value")}}
    items = [(f"d.{number}.kernel", (width, width)) for number in range(4)]
    orders = [
        tuple(slot.role for slot in slots) for slots in held.arrangements(Store().add(*items).variables(), square)
    ]
    assert len(orders) == 24
    assert orders[0] == ("query", "key", "value", "attention_output")
    fitting = held.arrangements(Store().add(*CASES["numbered"]).variables(), SIZES)
    assert {slots[-1].role for slots in fitting} == {"attention_output"}
    assert len(fitting) == 6


def test_an_output_projection_may_be_missing():
    items = _four("wq", "wk", "wv", "wo")[:6]
    names = {slot.name for slot in held.arrangements(Store().add(*items).variables(), SIZES)[0]}
    assert names == {f"{role}/{kind}" for role in ("query", "key", "value") for kind in ("kernel", "bias")}


def test_a_bias_that_is_not_drawn_is_zero():
    store = Store().add(*CASES["named"])
    store.arrays["wq.bias"] += 1.0
    held.write(held.arrangements(store.variables(), SIZES)[0], {n: a for n, a in WEIGHTS.items() if "bias" not in n})
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
def test_what_is_no_attention(items):
    with pytest.raises(UnknownWeightsError, match=r"Expected kernels for query.*H=3, O=5, E=11.*Received: .*kernel \("):
        held.arrangements(Store().add(*items).variables(), SIZES)


def test_no_weights_at_all_are_possible():
    assert held.arrangements([], SIZES) == [[]]
