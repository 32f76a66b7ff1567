import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import projections

# What the projections of query, key and value receive.
INPUTS = {
    "inputs-key-value-swapped": "xzy",
    "inputs-value-is-key": "xyy",
    "inputs-key-is-value": "xzz",
    "inputs-all-query": "xxx",
    "inputs-all-key": "yyz",
    "inputs-query-from-encoder": "yxx",
    "inputs-query-value-swapped": "zyx",
    "inputs-value-from-query": "xyx",
    "inputs-key-from-query": "xxz",
}
# Whose kernel and bias query, key and value are projected with.
KERNELS = {
    "kernels-key-value-swapped": "query value key",
    "kernels-query-key-swapped": "key query value",
    "kernels-query-value-swapped": "value key query",
    "kernels-key-for-value": "query key key",
    "kernels-query-for-key": "query query value",
    "kernels-query-for-value": "query key query",
    "kernels-key-for-query": "key key value",
    "kernels-value-for-key": "query value value",
    "kernels-query-for-all": "query query query",
}
# Whose input K and V are projected from, if not from their own.
CHAINED = {
    "projections-chained-key-from-query": "qz",
    "projections-chained-value-from-query": "yq",
    "projections-chained-value-from-key": "yk",
    "projections-chained-both-from-query": "qq",
    "projections-chained-all": "qk",
}
OUTPUT = {f"kernels-{role}-for-output": role for role in ("query", "key", "value")}
# Whose kernels are transposed, or missing.
TRANSPOSED = {
    "kernel-transposed-query": "q",
    "kernel-transposed-key": "k",
    "kernel-transposed-value": "v",
    "kernels-transposed": "qkv",
}
MISSING = {
    "projection-missing-query": "q",
    "projection-missing-key": "k",
    "projection-missing-value": "v",
    "projections-missing": "qkv",
}
ROLES = {"q": ("query", "x"), "k": ("key", "y"), "v": ("value", "z")}


@pytest.mark.parametrize("identity", INPUTS)
def test_inputs(make_plain, identity):
    p = make_plain("mask, equal lengths")
    q, k, v = (
        p.project(getattr(p, name), role)
        for name, role in zip(INPUTS[identity], ("query", "key", "value"), strict=True)
    )
    p.check(identity, p.attend(q, k, v))


def test_inputs_of_the_core(make_plain):
    p = make_plain("mask, equal lengths", core=True)
    p.check("inputs-query-from-encoder", p.mix(p.soft(p.logits(p.k, p.q)), p.q))
    with pytest.raises(ImpossibleError, match="products"):
        p.wrong("inputs-value-is-key")


@pytest.mark.parametrize("identity", KERNELS)
def test_kernels(make_plain, identity):
    p = make_plain("mask")
    q, k, v = (p.project(x, role) for x, role in zip((p.x, p.y, p.z), KERNELS[identity].split(), strict=True))
    p.check(identity, p.attend(q, k, v))


@pytest.mark.parametrize("identity", TRANSPOSED)
def test_transposed(make_plain, identity):
    p = make_plain("mask", wide=True)
    heads = {}
    for name, (role, given) in ROLES.items():
        # A column of (I, H·O) for every feature of every head; as (out, in), a row.
        flat = np.stack([p.kernel(role)[h, :, o] for h in range(p.H) for o in range(p.O)], axis=1)
        used = flat.T if name in TRANSPOSED[identity] else flat
        x = getattr(p, given)
        heads[name] = (x @ used).reshape(*x.shape[:2], p.H, p.O) + p.bias(role)
    p.check(identity, p.attend(**heads))
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong(identity)


@pytest.mark.parametrize("identity", MISSING)
def test_missing(make_plain, identity):
    p = make_plain("mask", wide=True)
    heads = {}
    for name, (_, given) in ROLES.items():
        x = getattr(p, given)
        raw = np.stack(np.split(x, p.H, axis=-1), axis=2)
        heads[name] = raw if name in MISSING[identity] else getattr(p, name)
    p.check(identity, p.attend(**heads))
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong(identity)


@pytest.mark.parametrize("identity", CHAINED)
def test_chained(make_plain, identity):
    """`q = wq(q); k = wk(q)` projects twice."""
    p = make_plain("mask, equal lengths", wide=True)
    made = {"x": p.x, "y": p.y, "z": p.z, "q": p.join(np.swapaxes(p.q, 1, 2))}
    key_input, value_input = CHAINED[identity]
    k = p.project(made[key_input], "key")
    made["k"] = p.join(np.swapaxes(k, 1, 2))
    p.check(identity, p.attend(k=k, v=p.project(made[value_input], "value")))
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong(identity)


@pytest.mark.parametrize("identity", OUTPUT)
def test_kernel_of_the_output(make_plain, identity):
    p = make_plain("mask", wide=True)
    role = OUTPUT[identity]
    joined = p.join(p.mix(p.scores()))
    p.check(identity, p.join(np.swapaxes(p.project(joined, role), 1, 2)))
    with pytest.raises(ImpossibleError, match="not square"):
        make_plain("mask").wrong(identity)
    with pytest.raises(ImpossibleError, match="no output projection"):
        make_plain("mask", core=True).wrong(identity)


def test_rectified(make_plain):
    p = make_plain("mask")
    p.check("projections-rectified", p.attend(*(np.where(array > 0, array, 0) for array in (p.q, p.k, p.v))))


def test_all(ids_in):
    assert ids_in(projections) == {
        *INPUTS,
        *KERNELS,
        *CHAINED,
        *OUTPUT,
        *TRANSPOSED,
        *MISSING,
        "projections-rectified",
    }
