"""Mistakes in the projections' inputs and kernels (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step, project
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.2"
PARTS = ("kernel", "bias")
CROSS = "Vaswani et al. 2017, section 3.2.3"


def _weights_from(roles: Mapping[str, str]) -> Change:
    """Return a change of `weights` that gives the role `a` the kernel and bias of the role `roles[a]`."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        if state["trial"].core:
            raise ImpossibleError("nothing is projected")
        taken = {f"{role}/{part}": weights.get(f"{other}/{part}") for role, other in roles.items() for part in PARTS}
        return {**weights, **{name: array for name, array in taken.items() if array is not None}}

    return change


CORE = ("inputs-all-query", "inputs-query-from-encoder", "inputs-value-from-query")


def _inputs_from(roles: Mapping[str, str], core: bool) -> Change:
    """Return a change of `inputs` that gives the role `a` the array of the role `roles[a]`.

    Without projections, all of these changes except those in `CORE` equal a mistake in `products`.
    """

    def change(state: State, right: Step) -> Any:
        if state["trial"].core and not core:
            raise ImpossibleError("nothing is projected; the mistakes of the two products cover this case")
        result = right(state)
        return {**result, **{role: result[other] for role, other in roles.items()}}

    return change


for _id, _says, _source, _roles in (
    (
        "inputs-key-value-swapped",
        "You passed the key to the value's projection, and the value to the key's. Swap the two arguments.",
        "the order of keras-team/keras#19257",
        {"key": "value", "value": "key"},
    ),
    (
        "inputs-value-is-key",
        "You passed the key to the value's projection, so the value is never used. Pass it the value.",
        "Khaliladib11/Transformer-from-scratch#1",
        {"value": "key"},
    ),
    (
        "inputs-key-is-value",
        "You passed the value to the key's projection, so the key is never used. Pass it the key.",
        PAPER,
        {"key": "value"},
    ),
    (
        "inputs-all-query",
        "You made K and V from the query's input (self-attention). In cross-attention, use the key and the value.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"key": "query", "value": "query"},
    ),
    (
        "inputs-all-key",
        "You made Q from the key's input, so the query is never used. Project the query to get Q.",
        "Khaliladib11/Transformer-from-scratch#1",
        {"query": "key"},
    ),
    (
        "inputs-query-from-encoder",
        "You made Q from the encoder, and K and V from the decoder. Make Q from the decoder, K and V from the encoder.",
        "rexrex9/nlp_torchtext#2; seed 000",
        {"query": "key", "key": "query", "value": "query"},
    ),
    (
        "inputs-query-value-swapped",
        "You passed the query to the value's projection, and the value to the query's. Swap the two arguments.",
        "the order (v, k, q) of the Transformer tutorial of tensorflow.org",
        {"query": "value", "value": "query"},
    ),
    (
        "inputs-value-from-query",
        "You made V from the query's input. Project the value to get V.",
        "tensorflow/tensorflow#34809",
        {"value": "query"},
    ),
    ("inputs-key-from-query", "You made K from the query's input. Project the key to get K.", CROSS, {"key": "query"}),
):
    _look = "the arrays that you pass to each argument or projection"
    register(_id, _says, _look, _source, inputs=_inputs_from(_roles, _id in CORE))

KERNELS = "the kernel that each role uses, or that you saved for it"
SHARED = "stevezheng23/sequence_labeling_tf#81"
for _one, _other, _source in (
    ("key", "value", "jsbaan/transformer-from-scratch#1"),
    ("query", "key", PAPER),
    ("query", "value", PAPER),
):
    register(
        f"kernels-{_one}-{_other}-swapped",
        f"You projected the {_one} with the {_other}'s kernel, and the {_other} with the {_one}'s. Swap the kernels.",
        KERNELS,
        _source,
        weights=_weights_from({_one: _other, _other: _one}),
    )
for _used, _role, _source in (
    ("key", "value", "yflyzhang/AnnotatedTransformer#1"),
    ("query", "key", SHARED),
    ("query", "value", SHARED),
    ("key", "query", PAPER),
    ("value", "key", PAPER),
):
    register(
        f"kernels-{_used}-for-{_role}",
        f"You projected the {_role} with the {_used}'s kernel. The {_role} has a kernel of its own.",
        KERNELS,
        _source,
        weights=_weights_from({_role: _used}),
    )
register(
    "kernels-query-for-all",
    "You projected query, key and value with one kernel, the query's. Each of the three has a kernel of its own.",
    KERNELS,
    SHARED,
    weights=_weights_from({"key": "query", "value": "query"}),
)


def _of_output(state: State, role: str) -> Any:
    """Return the weights with the role's kernel (I, H·O) and bias as the output's. This is possible if I = H·O = E."""
    weights = state["weights"]
    if state["trial"].core:
        raise ImpossibleError("the core has no output projection")
    kernel = weights[f"{role}/kernel"]
    if kernel.shape[0] * kernel.shape[2] != kernel.shape[1]:
        raise ImpossibleError("the kernel is not square")
    flat = np.swapaxes(kernel, 0, 1).reshape(kernel.shape[1], -1)
    bias = weights.get(f"{role}/bias")
    taken = {} if bias is None else {"attention_output/bias": bias.reshape(-1)}
    return {**weights, "attention_output/kernel": flat.reshape(kernel.shape[0], kernel.shape[2], -1), **taken}


def _output_from(role: str) -> Change:
    return lambda state, right: _of_output({**state, "weights": right(state)}, role)


for _role in ROLES:
    register(
        f"kernels-{_role}-for-output",
        f"You projected the merged heads with the {_role}'s kernel. The output has a kernel of its own.",
        "the output projection",
        SHARED,
        weights=_output_from(_role),
    )


def _chained(sources: Mapping[str, str]) -> Change:
    """Return a change that projects, for the role `a`, the projected `sources[a]` instead of the input of `a`.

    This is possible if I = H·O.
    """

    def change(state: State, right: Step) -> Any:
        if state["trial"].core:
            raise ImpossibleError("nothing is projected")
        weights, found = state["weights"], dict(right(state))
        for role, other in sources.items():
            made = found[other] + weights.get(f"{other}/bias", 0.0)
            found[role] = project(made.reshape(*made.shape[:2], -1), weights[f"{role}/kernel"])
        return found

    return change


for _id, _did, _sources in (
    ("key-from-query", "projected the projected query again to get K", {"key": "query"}),
    ("value-from-query", "projected the projected query again to get V", {"value": "query"}),
    ("value-from-key", "projected the projected key again to get V", {"value": "key"}),
    ("both-from-query", "projected the projected query again to get K and V", {"key": "query", "value": "query"}),
    ("all", "projected the projected query again to get K, and this K to get V", {"key": "query", "value": "key"}),
):
    register(
        f"projections-chained-{_id}",
        f"You {_did}. Project the inputs themselves.",
        "the arrays that you pass to each projection, and the variables that you assign twice",
        PAPER,
        projected=_chained(_sources),
    )


def _transposed(roles: tuple[str, ...]) -> Change:
    """Return a change that uses the kernels of `roles` as (H·O, I). This is possible if I is H·O."""

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
    """Return a change that splits the inputs of `roles` into heads without a projection, which requires I = H·O."""

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
        f"You used the {_role}'s kernel as (out, in). Its axes are (in, out): transpose it.",
        "the product with the kernel, or the kernel that you converted without transposing it",
        "rasbt/LLMs-from-scratch#857",
        weights=_transposed((_role,)),
    )
    register(
        f"projection-missing-{_role}",
        f"You split the {_role} into heads without projecting it. Multiply it by its kernel first.",
        f"the {_role}'s projection",
        "seed 000",
        biased=_unprojected((_role,)),
    )
register(
    "kernels-transposed",
    "You used the kernels of query, key and value as (out, in). Their axes are (in, out): transpose them.",
    "the products with the kernels, or the kernels that you converted without transposing them",
    "rasbt/LLMs-from-scratch#857",
    weights=_transposed(ROLES),
)
register(
    "projections-missing",
    "You split query, key and value into heads without projecting them. Multiply each by its own kernel first.",
    "the projections",
    "seed 000",
    biased=_unprojected(ROLES),
)
register(
    "projections-rectified",
    "You applied a relu to the projected query, key and value. The projections are linear: leave the activation out.",
    "the activation of the projections",
    "hanxiao/tf-nlp-blocks#1, Kyubyong/transformer#4",
    biased=lambda state, right: {role: np.maximum(array, 0.0) for role, array in right(state).items()},
)
