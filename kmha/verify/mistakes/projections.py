"""Mistakes in what is projected, and with which kernel (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.2"
CROSS = "Vaswani et al. 2017, section 3.2.3"


def _taken(roles: Mapping[str, str]) -> Change:
    """A change that gives the role `a` what the role `roles[a]` should have."""

    def change(state: State, right: Step) -> Any:
        result = right(state)
        return {**result, **{role: result[other] for role, other in roles.items()}}

    return change


def _weights(roles: Mapping[str, str], what: tuple[str, ...] = ("kernel", "bias")) -> Change:
    """A change of `weights`: the role `a` gets the kernel and bias of the role `roles[a]`."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        if state["trial"].core:
            raise ImpossibleError("nothing is projected")
        taken = {f"{role}/{part}": weights.get(f"{other}/{part}") for role, other in roles.items() for part in what}
        return {**weights, **{name: array for name, array in taken.items() if array is not None}}

    return change


def _swap(one: str, other: str) -> dict[str, str]:
    return {one: other, other: one}


def _given(roles: Mapping[str, str], core: bool) -> Change:
    """The same for the inputs; without projections some are the same as another product, and have its name."""
    change = _taken(roles)

    def changed(state: State, right: Step) -> Any:
        if state["trial"].core and not core:
            raise ImpossibleError("nothing is projected: see the mistakes of the two products")
        return change(state, right)

    return changed


CORE = ("inputs-all-query", "inputs-query-from-encoder", "inputs-value-from-query")
INPUTS = "which array goes into which argument or projection"
for _id, _says, _source, _roles in (
    (
        "inputs-key-value-swapped",
        "The value's projection receives the key, and the key's projection the value.",
        "the order of keras-team/keras#19257",
        _swap("key", "value"),
    ),
    (
        "inputs-value-is-key",
        "The value's projection receives the key: the value is not used.",
        "Khaliladib11/Transformer-from-scratch#1",
        {"value": "key"},
    ),
    (
        "inputs-key-is-value",
        "The key's projection receives the value: the key is not used.",
        PAPER,
        {"key": "value"},
    ),
    (
        "inputs-all-query",
        "Self-attention in place of cross-attention: key and value are made of the query's input.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"key": "query", "value": "query"},
    ),
    (
        "inputs-all-key",
        "The query is made of the key's input: the query itself is not used.",
        "Khaliladib11/Transformer-from-scratch#1",
        {"query": "key"},
    ),
    (
        "inputs-query-from-encoder",
        "The query comes from the encoder, and key and value from the decoder: the roles are exchanged.",
        "rexrex9/nlp_torchtext#2; seed 000",
        {"query": "key", "key": "query", "value": "query"},
    ),
    (
        "inputs-value-from-query",
        "The value is made of the query's input.",
        "tensorflow/tensorflow#34809",
        {"value": "query"},
    ),
    (
        "inputs-key-from-query",
        "The key is made of the query's input, the value is right.",
        CROSS,
        {"key": "query"},
    ),
):
    register(_id, _says, INPUTS, _source, inputs=_given(_roles, _id in CORE))

KERNELS = "which kernel is used, or saved, for which role"
for _id, _says, _source, _roles in (
    (
        "kernels-key-value-swapped",
        "The kernels of key and value are swapped.",
        "jsbaan/transformer-from-scratch#1",
        _swap("key", "value"),
    ),
    ("kernels-query-key-swapped", "The kernels of query and key are swapped.", PAPER, _swap("query", "key")),
    ("kernels-query-value-swapped", "The kernels of query and value are swapped.", PAPER, _swap("query", "value")),
    (
        "kernels-key-for-value",
        "The value is projected with the key's kernel.",
        "yflyzhang/AnnotatedTransformer#1",
        {"value": "key"},
    ),
    (
        "kernels-query-for-key",
        "The key is projected with the query's kernel.",
        "stevezheng23/sequence_labeling_tf#81",
        {"key": "query"},
    ),
    (
        "kernels-query-for-value",
        "The value is projected with the query's kernel.",
        "stevezheng23/sequence_labeling_tf#81",
        {"value": "query"},
    ),
    ("kernels-key-for-query", "The query is projected with the key's kernel.", PAPER, {"query": "key"}),
    ("kernels-value-for-key", "The key is projected with the value's kernel.", PAPER, {"key": "value"}),
    (
        "kernels-query-for-all",
        "One kernel, the query's, is used for query, key and value.",
        "stevezheng23/sequence_labeling_tf#81",
        {"key": "query", "value": "query"},
    ),
):
    register(_id, _says, KERNELS, _source, weights=_weights(_roles))


def _transposed(roles: tuple[str, ...]) -> Change:
    """The kernels of `roles` as (H·O, I), where I is H·O."""

    def change(state: State, right: Step) -> Any:
        weights = dict(right(state))
        for role in roles:
            kernel = weights.get(f"{role}/kernel")
            if kernel is None or kernel.shape[0] * kernel.shape[2] != kernel.shape[1]:
                raise ImpossibleError("the kernel is not square")
            heads, features, size = kernel.shape
            flat = np.swapaxes(kernel, 0, 1).reshape(features, features)
            weights[f"{role}/kernel"] = np.swapaxes(flat.T.reshape(features, heads, size), 0, 1)
        return weights

    return change


def _unprojected(roles: tuple[str, ...]) -> Change:
    """The inputs of `roles` themselves, split into heads, where I is H·O."""

    def change(state: State, right: Step) -> Any:
        if state["trial"].core:
            raise ImpossibleError("nothing is projected")
        result = dict(right(state))
        for role in roles:
            array, (heads, size) = state["inputs"][role], result[role].shape[2:]
            result[role] = array.reshape(*array.shape[:2], heads, size)
        return result

    return change


for _role in ROLES:
    register(
        f"kernel-transposed-{_role}",
        f"The {_role}'s kernel is used as (out, in) in place of (in, out).",
        "the product with the kernel, or a converted weight that was not transposed",
        "rasbt/LLMs-from-scratch#857",
        weights=_transposed((_role,)),
    )
    register(
        f"projection-missing-{_role}",
        f"The {_role} is not projected: the input itself is split into heads.",
        f"the {_role}'s projection",
        "seed 000",
        biased=_unprojected((_role,)),
    )
register(
    "kernels-transposed",
    "The kernels of query, key and value are used as (out, in) in place of (in, out).",
    "the products with the kernels, or converted weights that were not transposed",
    "rasbt/LLMs-from-scratch#857",
    weights=_transposed(ROLES),
)
register(
    "projections-missing",
    "Query, key and value are not projected: the inputs themselves are split into heads.",
    "the projections",
    "seed 000",
    biased=_unprojected(ROLES),
)
register(
    "projections-rectified",
    "Query, key and value go through a relu after their projections.",
    "the activation of the projections",
    "hanxiao/tf-nlp-blocks#1, Kyubyong/transformer#4",
    biased=lambda state, right: {role: np.maximum(array, 0.0) for role, array in right(state).items()},
)
