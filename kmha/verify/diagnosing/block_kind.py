"""Recognise what a layer is: attention, an encoder layer, a decoder layer or an embedding.

The arguments' names tell, or else the weights: a block has the weights of a feed-forward network beside attention's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.block_candidate import chain_of
from kmha.verify.diagnosing.block_weights import FORWARD, check_attends, squeezed
from kmha.verify.diagnosing.calling import Parameters, call_parameters, constructor, roles_by_place
from kmha.verify.diagnosing.embedding_candidate import is_embedding, word_of_code
from kmha.verify.diagnosing.layer_adapters import adapter_of
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.weights import Variable, without_extras

ATTENTION = re.compile(r"attn|attention|(^|\.)att(\.|$)|mha|multi_?head")  # in the paths of weights


def kind_of(thing: Any, given: Mapping[str, Any], said: Mapping[str, str]) -> str:
    """Return the chain that a layer should compute, judged by its arguments' names and by its weights.

    Args:
        thing: Layer, or class of a layer.
        given: Arguments that the user gave. An argument that is always `None` does not tell what the layer is.
        said: Names that the user gave for roles.

    Raises:
        CandidateError: The layer is a feed-forward network.
    """
    layer_class = thing if isinstance(thing, type) else type(thing)
    adapter = adapter_of(layer_class)
    call = _open(adapter, call_parameters(thing, adapter.method))
    called = naming.roles_of(call, said)
    called |= roles_by_place(call, called, given)
    called = {role: name for role, name in called.items() if given.get(name, name) is not None}
    made = naming.roles_of_constructor(_open(adapter, constructor(layer_class)), said)
    copy = None if isinstance(thing, type) else adapter.working_copy(thing)
    variables = [] if copy is None else adapter.variables(copy)
    # What adds an encoding to its input need not have a name that says so.
    inner = [] if copy is None or variables else [type(part).__name__ for part in adapter.parts(copy)]
    names = [layer_class.__name__, *(inner if len(inner) == 1 else []), word_of_code(layer_class)]
    if any(is_embedding(name, made if copy is None else {}, called, variables) for name in names):
        return "embedding"
    check_attends(layer_class.__name__, variables)
    return chain_of_weights(variables, called) if variables else chain_of(made, called)


def chain_of_made(layer: LayerCandidate) -> str:
    """Return the chain that a layer computes, judged by the weights of an instance if a class makes them at once."""
    is_class = isinstance(layer.thing, type)
    return chain_of_weights(layer.sample_variables(), layer.roles) if is_class else "attention"


def _open(adapter: Any, found: Parameters) -> Parameters:
    """Return the parameters for which the adapter has no values."""
    supplied = adapter.supplied(found)
    return {name: each for name, each in found.items() if name not in supplied}


def kind_of_made(layer: LayerCandidate) -> str:
    """Return the chain of a layer that was taken for attention, judged by weights that do not fit attention.

    Raises:
        CandidateError: The layer is a feed-forward network.
    """
    variables = layer.weights_error.variables if layer.weights_error is not None else ()
    check_attends(layer.name, variables)
    return chain_of_weights(variables, layer.roles) if layer.chain == "attention" else "attention"


def is_block(candidate: Any) -> bool:
    """Return whether a candidate was taken for attention, and its weights fit a block instead."""
    if not isinstance(candidate, LayerCandidate) or candidate.weights_error is None:
        return False
    return chain_of_weights(candidate.weights_error.variables, candidate.roles) != "attention"


def chain_of_weights(variables: Sequence[Variable], called: Mapping[str, str]) -> str:
    """Return the chain that layers with these weights compute."""
    rest, extras = without_extras(variables)
    matrices = [v for v in rest if len(squeezed(v.shape)) > 1]
    forward = [v for v in matrices if len(squeezed(v.shape)) == 2 and _is_forward(v.path)]
    queries = [v for v in matrices if _is_query(v.path)]
    # Four matrices without known names may be an attention too, if their path says so.
    unnamed = {found for v in matrices if (found := _attention_of(v.path))}
    count = len(queries) or len(unnamed)
    # A single layer after an attention with an output of its own, as in the Set Transformer (arXiv 1810.00825).
    outputs = [v for v in matrices if naming.weight(v.path)[0] == "attention_output" and v not in forward]
    single = len(forward) == len(outputs) == 1 and len({v.path.rpartition(".")[0] for v in extras}) == 2
    if not count or (len(forward) < 2 and not single):
        return "attention"
    return "decoder" if count > 1 and {"memory", "key"} & called.keys() else "encoder"


def _attention_of(path: str) -> str:
    """Return the start of a path that leads to an attention by its name, or "".

    >>> _attention_of("layer.self_attn.linears.0.weight"), _attention_of("layer.fc1.weight")
    ('layer.self_attn', '')
    """
    parts = path.split(".")
    end = next((number for number, part in enumerate(parts, 1) if ATTENTION.search(part.lower())), 0)
    return ".".join(parts[:end])


def _is_query(path: str) -> bool:
    return naming.weight(path)[0] in ("query", "packed")


def _is_forward(path: str) -> bool:
    """Return whether a weight belongs to a feed-forward network, judged by its path."""
    parts = path.lower().split(".")
    if any(ATTENTION.search(part) for part in parts):
        return False
    known = (None, "attention_output")  # `ff_q` is a query's kernel
    return any(FORWARD.search(part) and naming.weight(part)[0] in known for part in parts) or (
        naming.weight(path)[0] in known
    )
