"""Read a candidate's signature, and build the arguments of its call."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Trial
from kmha.verify.diagnosing import frameworks, guessing, naming
from kmha.verify.diagnosing.conventions import (
    HEADS,
    HIDDEN,
    LISTS,
    MASK_SHAPES,
    MIDDLE,
    MIDDLE_SINGLE,
    ONE_KEY,
    PADDING_SHAPES,
    SINGLES,
    TIME,
)
from kmha.verify.diagnosing.packed_inputs import Parameters, packing_of

EMPTY = inspect.Parameter.empty
RANDOM = ("rng", "rngs", "prng", "prngkey", "rngkey", "randomkey", "dropoutrng", "dropoutkey")
# Names of the method that a call of a layer runs.
METHODS = ("forward", "call", "__call__", "forward_propagation", "forwardPropagation", "forward_pass")
FEATURES = ("feat", "feats", "feature", "features")  # an input's name, or the name of its width
SIZES = ("heads", "size", "width", "output", "inputs")
READS = "kmha reads attention, encoder layers, decoder layers, embeddings and positional encodings"


class CandidateError(ValueError):
    """A candidate cannot be called, or an argument that kmha needs is missing or invalid.

    Attributes:
        candidate: The candidate, if it takes something, but its weights are not those of attention.
    """

    candidate: Any = None


class NoWeightsError(CandidateError):
    """A layer that should have weights has none."""


def parameters(function: Any, skip: int = 0) -> Parameters:
    """Return a function's parameters that can be passed by name or position."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        if found := _documented(function):
            return found
        raise CandidateError(
            f"{function!r} has no signature that Python can read. Wrap it in a function, such as "
            "`def attention(query, key, value, mask=None)`."
        ) from None
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return dict([(n, p) for n, p in signature.parameters.items() if p.kind not in kinds][skip:])


def call_parameters(thing: Any, method: str) -> Parameters:
    """Return the parameters of a layer's call. If it only passes on what it gets, return those of what it calls.

    That is another method, or the first module of a sequence. An argument that the call unpacks stands for its parts.
    `thing` is a layer or its class.

    >>> import fractions
    >>> list(call_parameters(fractions.Fraction, "limit_denominator"))
    ['max_denominator']
    """
    layer_class = thing if isinstance(thing, type) else type(thing)
    if found := parameters(getattr(layer_class, method), skip=1):
        packing = packing_of(getattr(layer_class, method))
        return packing.opened(found) if packing else found
    source = frameworks.source_of(getattr(layer_class, method))
    for name in re.findall(r"(?:return|=) self\.(\w+)\(\*\w+", source):
        if hasattr(layer_class, name):
            return parameters(getattr(layer_class, name), skip=1)
    children = None if isinstance(thing, type) else getattr(thing, "children", None)
    inner = [*children()] if callable(children) and re.search(r"\(\*\w+", source) else []
    if not inner:
        return found
    found = call_parameters(inner[0], method)
    for first in [*found.values()][:1]:  # what lies between may read the input by its place
        if first.kind is first.POSITIONAL_OR_KEYWORD:
            found[first.name] = first.replace(kind=first.POSITIONAL_ONLY)
    return found


def positional_only(found: Mapping[str, inspect.Parameter]) -> list[str]:
    """Return the names of the parameters that cannot be passed by name."""
    return [name for name, each in found.items() if each.kind is each.POSITIONAL_ONLY]


def _documented(function: Any) -> Parameters:
    """Return the parameters that the docstring of a compiled attention function begins with, or nothing.

    >>> list(_documented(type("dot", (), {"__doc__": "dot(query, key, scale=None) -> Tensor"})))
    ['query', 'key', 'scale']
    """
    start = re.match(r"\s*\w+\([^()]*\)", getattr(function, "__doc__", None) or "")
    try:
        tree: Any = ast.parse(f"def {start[0].strip() if start else 'f()'}: ...")
        arguments = tree.body[0].args
        defaults = [ast.literal_eval(each) for each in arguments.defaults]
    except (SyntaxError, ValueError):
        return {}
    names = [each.arg for each in arguments.args]
    if "query" not in naming.roles_of(names):
        return {}
    values: list[Any] = [EMPTY] * (len(names) - len(defaults)) + defaults
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return {name: inspect.Parameter(name, kind, default=value) for name, value in zip(names, values, strict=True)}


def constructor(layer_class: type) -> Parameters:
    """Return the parameters of a class's constructor.

    If the constructor passes on `**kwargs`, the parameters of its parents are included, up to the framework's classes.
    """
    found: Parameters = {}
    for parent in layer_class.__mro__:
        if "__init__" not in vars(parent):
            continue
        if (
            parent.__module__.split(".")[0]
            in ("keras", "tf_keras", "keras_core", "torch", "flax", "haiku", "equinox", "builtins")
            and found
        ):
            break
        function: Any = vars(parent)["__init__"]
        found = {**parameters(function, skip=1), **found}
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
        found = {**_passed_on(function), **found}
    return found


def _passed_on(function: Any) -> Parameters:
    """Return the parameters of the layers that a constructor makes with all of its `**kwargs`."""
    tree = frameworks.syntax_of(function)
    names = {each.args.kwarg.arg for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.args.kwarg}
    found: Parameters = {}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        passes = any(
            not each.arg and isinstance(each.value, ast.Name) and each.value.id in names for each in call.keywords
        )
        made = _named(call.func, getattr(function, "__globals__", {})) if passes else None
        if isinstance(made, type):
            given = {each.arg for each in call.keywords}
            found |= {name: each for name, each in constructor(made).items() if name not in given}
    return found


def _named(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """Return what a dotted name in source code refers to, or `None`."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    return getattr(_named(node.value, scope), node.attr, None) if isinstance(node, ast.Attribute) else None


def random_names(found: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the parameters that take a key of random numbers.

    `key` is such a key in `(x, key)`, and the key of attention in `(query, key, value)`.
    """
    roles = {naming.argument(name) for name in found if name != "key"}
    is_attention = "key" not in roles and ("value" in roles or ("query" in roles and "memory" not in roles))
    return frozenset(
        name for name in found if (not is_attention if name == "key" else naming.plain(name.strip("_")) in RANDOM)
    )


def without_neutral(
    found: Mapping[str, Any], roles: Mapping[str, str], said: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Return the roles without a temperature that is 1 by default, and its name, since most such code scales by itself.

    `said` are the names that the user gave for roles.
    """
    name = roles.get("temperature", "")
    if not name or "temperature" in said or getattr(found[name], "default", None) != 1:
        return {**roles}, ""
    return {role: each for role, each in roles.items() if each != name}, name


def check_known(where: str, found: Parameters, known: Any, given: Mapping[str, Any]) -> None:
    """Check that every argument without a default is known or given.

    Raises:
        CandidateError: An argument is neither known nor given.
    """
    for name, parameter in found.items():
        if name in known or name in given or parameter.default is not EMPTY:
            continue
        raise CandidateError(
            f"{where}: kmha does not know the argument `{name}`, and it has no default. "
            f"Give it a value: arguments={{{name!r}: …}}, or --set {name}=VALUE. Or say what it is, "
            f"such as roles={{'mask': {name!r}}}, or --role mask={name}."
        )


def check_given(where: str, given: Mapping[str, Any], *found: Parameters) -> None:
    """Check that every given argument exists.

    Raises:
        CandidateError: A given argument does not exist.
    """
    names = [name for each in found for name in each]
    for name in given:
        if name not in names:
            raise CandidateError(f"{where} has no argument `{name}`. It has: {', '.join(names) or 'none'}.")


def check_roles(where: str, said: Mapping[str, str], *found: Parameters) -> None:
    """Check that each role that the user gave exists, and that its argument exists.

    Raises:
        CandidateError: A role or an argument does not exist.
    """
    for role in said:
        if role not in naming.ARGUMENTS:
            raise CandidateError(f"expected a role such as query, key, value, mask or heads. Received: {role!r}.")
    check_given(where, dict.fromkeys(said.values()), *found)


def without_flags(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's parameters without those that are named like masks and tell only whether, or how, to mask."""
    return {name: each for name, each in found.items() if not (naming.is_mask(name) and _is_flag(each))}


def _is_flag(parameter: Any) -> bool:
    """Return whether a parameter is a boolean, a number or a text, by its default or its annotation."""
    annotation = str(getattr(parameter, "annotation", ""))
    is_text = re.search(r"\bstr\b", annotation) and not re.search("Tensor|[Aa]rray", annotation)
    return bool(is_text) or isinstance(getattr(parameter, "default", None), int | float | str)


def call_roles(found: Mapping[str, Any], said: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the roles of the call's arguments. A look-ahead mask has the role "mask" if there is no other mask.

    Args:
        found: Parameters of the call.
        said: Names that the user gave for roles.

    >>> list(call_roles(parameters(lambda query, key_or_batches=None, value=None: 0)).values())
    ['query', 'value', 'key_or_batches']
    >>> call_roles(parameters(lambda feats, visible, keep=0.9: 0)), call_roles(parameters(lambda feats, keep=0.9: 0))
    ({'mask': 'visible', 'self': 'feats'}, {'self': 'feats'})
    >>> call_roles(parameters(lambda h, mask=None: 0)), call_roles(parameters(lambda spam, h: 0))
    ({'mask': 'mask', 'self': 'h'}, {'heads': 'h'})
    """
    roles = naming.roles_of(without_flags(found), said)
    if "look_ahead" in roles and "mask" not in roles:
        roles["mask"] = roles.pop("look_ahead")
    if "memory_mask" in roles and "memory" in roles and "mask" not in said:
        roles["mask"] = roles.pop("memory_mask")  # the other mask is for calls without the memory
    if "memory_mask" in roles and "padding" not in roles:
        roles["padding"] = roles.pop("memory_mask")
    if "use_bias" in roles and "mask" not in roles:
        roles["mask"] = roles.pop("use_bias")  # a call that takes a bias adds it to the logits
    if roles.get("causal") == "is_causal" and "mask" in roles:
        del roles["causal"]  # in torch, this argument only hints that the mask is causal
    if not {"query", "key", "value", "self", "memory", "ids"} & roles.keys():
        required = {name for name, each in found.items() if getattr(each, "default", EMPTY) is EMPTY}
        numbers = [role for role in ("width", *SIZES) if roles.get(role) in required]
        unknown = [name for name in required if name not in roles.values() and not naming.weight(name)[0]]
        if roles.get("output") in FEATURES:
            roles["self"] = roles.pop("output")
        elif numbers and not unknown:
            roles["self"] = roles.pop(numbers[0])  # without another input, `hidden`, `emb` or `h` is no number
    if {"query", "key", "value"} <= roles.keys():
        roles.pop("memory", None)  # another way to give key and value
    if {"query", "value"} <= roles.keys() and not {"key", "memory"} & roles.keys():
        names = list(found)
        between = names[names.index(roles["query"]) + 1 : names.index(roles["value"])]
        named = [name for name in between if re.search("key|source", name.lower()) and name not in roles.values()]
        roles |= {"key": named[0]} if len(between) == len(named) == 1 else {}
    return roles


def roles_by_place(found: Mapping[str, Any], roles: Mapping[str, str], known: Container[str]) -> dict[str, str]:
    """Return roles for unknown inputs without defaults, by their places: the only one is the input, three are q, k, v.

    Args:
        found: Parameters of the call.
        roles: Roles that names tell. If one of them is an input, another one is the memory, if there are two masks.
        known: Names of further arguments that are not inputs.

    >>> roles_by_place(parameters(lambda eins, zwei, drei: 0), {}, ())
    {'query': 'eins', 'key': 'zwei', 'value': 'drei'}
    >>> roles_by_place(parameters(lambda x, zwei, self_mask, cross_mask: 0), {"self": "x"}, ())
    {'memory': 'zwei'}
    """
    has_input = bool({"query", "self", "ids"} & roles.keys())
    if has_input and ({"memory", "key", "value"} & roles.keys() or sum(map(naming.is_mask, found)) < 2):
        return {}
    taken = {*roles.values()}
    unknown = [
        name
        for name, each in found.items()
        if each.default is EMPTY and not (name in taken or name in known or guessing.guesses(name, each)[1])
    ]
    if has_input:
        return {"memory": unknown[0]} if len(unknown) == 1 else {}
    places = {1: ("self",), 2: ("self", "memory"), 3: ROLES, 4: (*ROLES, "mask")}.get(len(unknown), ())
    return {role: name for role, name in zip(places, unknown, strict=False) if role not in roles}


def values_by_role(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of given arguments, keyed by role."""
    return {role: value for name, value in names.items() if (role := naming.argument(name)) is not None}


def given_sizes(where: str, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the given arguments that are sizes, keyed by role.

    Raises:
        CandidateError: A value is not a valid size.
    """
    # Keras turns an output shape into a tuple.
    given = {name: each[0] if isinstance(each, tuple) and len(each) == 1 else each for name, each in given.items()}
    for name, value in given.items():
        is_size = naming.argument(name) in SIZES and value is not None
        if is_size and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise CandidateError(f"{where}: expected `{name}` to be a whole number of at least 1. Received: {value!r}.")
    return {role: value for role, value in values_by_role(given).items() if role in SIZES and value is not None}


def input_arguments(candidate: Any, roles: Mapping[str, str], trial: Trial) -> dict[str, Any]:
    """Return the input tensors, keyed by the names of the candidate's arguments."""
    entry = candidate.convention.entry
    arrays: dict[str, Any] = {"query": trial.query, "self": trial.query}
    if candidate.accepts.cross:
        arrays |= {"key": trial.key, "value": trial.value, "memory": trial.key}
    else:
        arrays |= {"key": trial.query, "value": trial.query, "memory": trial.query}
    if entry in (MIDDLE, MIDDLE_SINGLE):
        arrays = {role: np.swapaxes(array, 1, 2) for role, array in arrays.items()}
    elif entry == ONE_KEY:
        arrays |= {role: arrays[role][:, 0] for role in ("key", "value", "memory")}
    elif trial.core and entry != HEADS:
        arrays = {role: array[:, 0] for role, array in arrays.items()}
    if entry in SINGLES:
        arrays = {role: array[0] for role, array in arrays.items()}
    if entry == TIME:
        arrays = {role: np.swapaxes(array, 0, 1) for role, array in arrays.items()}
    tensors = {role: candidate.tensor(array, trial) for role, array in arrays.items()}
    if entry in LISTS:
        name = roles["self" if "self" in roles else "query"]
        return {name: [tensors[role] for role in LISTS[entry]]}
    if "query" in roles and "key" in roles:
        tensors.pop("self")
    return {roles[role]: tensor for role, tensor in tensors.items() if role in roles}


def mask_arguments(candidate: Any, roles: Mapping[str, str], trial: Trial) -> dict[str, Any]:
    """Return masks and flags, keyed by the names of the candidate's arguments. A required mask may be `None`."""
    parameters_found: Parameters = getattr(candidate, "call_parameters", {})
    arrays = {
        "mask": mask_of(candidate, trial),
        "padding": padding_of(candidate, trial.key_mask, trial),
        "query_padding": padding_of(candidate, trial.query_mask, trial),
    }
    found: dict[str, Any] = {}
    for role, array in arrays.items():
        if array is not None and role in roles:
            found[roles[role]] = candidate.tensor(array, trial)
    if "lengths" in roles:
        found |= lengths_of(candidate, roles["lengths"], trial)
    found |= mode_arguments(roles, trial)
    flags = {"causal": trial.causal, "scores": bool(trial.more.get("scores", True))}
    for role, flag in flags.items():
        if role in roles and (role != "causal" or flag or _default(parameters_found, roles[role]) is not False):
            found[roles[role]] = flag
    for role in possible_masks(roles, parameters_found):
        is_required = parameters_found[roles[role]].default is EMPTY
        if roles[role] not in found and (is_required or candidate.neutral_masks):
            found[roles[role]] = _neutral(candidate, role, trial) if candidate.neutral_masks else None
    return found


def mode_arguments(roles: Mapping[str, str], trial: Trial) -> dict[str, bool]:
    """Return the flags that say whether a call is in training, keyed by the names of the candidate's arguments."""
    flags = {"training": trial.training, "deterministic": not trial.training}
    return {roles[role]: flag for role, flag in flags.items() if role in roles}


def lengths_of(candidate: Any, name: str, trial: Trial) -> dict[str, Any]:
    """Return the numbers of keys that are not padding, keyed by the name of the argument that takes them.

    Without padding, a required argument is `None`, or the number of all keys for code that cannot take `None`.
    """
    if trial.key_mask is not None:
        return {name: candidate.tensor(np.asarray(trial.key_mask).sum(-1), trial)}
    if candidate.neutral_masks:
        return {name: candidate.tensor(np.full(len(trial.query), trial.key.shape[-2]), trial)}
    return {name: None} if _default(candidate.call_parameters, name) is EMPTY else {}


def possible_masks(roles: Mapping[str, str], found: Mapping[str, Any]) -> list[str]:
    """Return the roles of the masks without a default, and of those that may be `None`, which some code cannot take."""
    masks = ("mask", "look_ahead", "padding", "query_padding", "lengths")
    return [r for r in masks if r in roles and _default(found, roles[r]) in (EMPTY, None) and roles[r] in found]


def _neutral(candidate: Any, role: str, trial: Trial) -> Any:
    """Return a mask that hides nothing."""
    items, rows, columns = len(trial.query), trial.query.shape[-2], trial.key.shape[-2]
    if role in ("mask", "look_ahead"):
        return candidate.tensor(
            mask_of(candidate, dataclasses.replace(trial, mask=np.ones((items, rows, columns), bool))), trial
        )
    length = columns if role == "padding" else rows
    return candidate.tensor(padding_of(candidate, np.ones((items, length), bool), trial), trial)


def guessed_arguments(candidate: Any, trial: Trial, size: int = 0) -> dict[str, Any]:
    """Return the values of required arguments that no role explains, keyed by name.

    `size` is the number of features of a head (O). By default, attention's weights or a core's inputs tell it.
    """
    size = size or (trial.query.shape[-1] if trial.core else trial.weights["query/kernel"].shape[-1])
    sizes = {"T": trial.query.shape[-2], "O": size, "I": trial.query.shape[-1]}
    return {
        name: guessing.value_of(text, candidate.framework, sizes, candidate.dtype_of(trial))
        for name, text in candidate.convention.guessed
    }


def _default(found: Mapping[str, Any], name: str) -> Any:
    return found[name].default if name in found else None


def with_copies(arguments: Mapping[str, Any]) -> list[tuple[Any, np.ndarray]]:
    """Return each tensor of a call with a copy, which shows whether the call changes the tensor in place."""
    flat: list[Any] = []
    for value in arguments.values():
        flat += value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
    return [(item, frameworks.to_numpy(item).copy()) for item in flat if hasattr(item, "shape")]


def mask_of(candidate: Any, trial: Trial) -> np.ndarray | None:
    """Return a trial's mask in the form that the candidate takes, without the masks that have a separate argument."""
    if trial.mask is None:
        return None
    shaped = MASK_SHAPES[candidate.convention.mask_shape](np.asarray(trial.mask), trial.heads)
    return to_candidate_mask(candidate, shaped, trial)


def padding_of(candidate: Any, mask: np.ndarray | None, trial: Trial) -> np.ndarray | None:
    """Return a padding mask (B, S) in the form that the candidate takes."""
    if mask is None:
        return None
    convention = candidate.convention
    shaped = PADDING_SHAPES[convention.padding_shape](np.asarray(mask))
    return to_candidate_mask(candidate, shaped, trial, convention.padding_meaning)


def to_candidate_mask(candidate: Any, mask: np.ndarray, trial: Trial, meaning: str = "") -> np.ndarray:
    """Convert a mask in which True means *attend* to the dtype that the candidate takes, and to its meaning."""
    meaning = meaning or candidate.convention.mask_meaning
    if meaning == "adds":
        least = -3e4 if trial.dtype == "float16" else HIDDEN
        return np.where(mask, 0.0, least)
    mask = mask ^ (meaning == "hides")
    dtype = candidate.convention.mask_dtype
    return mask.astype(trial.dtype if dtype == "float" else dtype)
