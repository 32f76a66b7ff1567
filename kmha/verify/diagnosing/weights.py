"""The weights of a layer: their roles and forms, and the conversion from and to the canonical layout.

A form is a pattern of axes. Each group between commas is one axis, which joins the axes of its letters. "I,HO" is a
`Dense` kernel for all heads, "HO,I" is the kernel of torch's `Linear`, and "I,3HO" packs query, key and value.

A weight is recognised by its name, by the name of its sublayer's attribute, or by the usual order of a layer's weights:
query, key, value, output.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES
from kmha.verify.choices.attention import Extra
from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.calling import CandidateError, NoWeightsError
from kmha.verify.diagnosing.conventions import ALL_ROLES, with_identity_kernels
from kmha.verify.diagnosing.stated_sizes import number_of_heads, stated_number, stated_size

# One small kernel for all heads. Each head takes its own P = I/H features.
SHARED, SHARED_BIAS = ("P,O", "O,P"), "O"
KERNELS = ("H,I,O", "I,H,O", "I,HO", "HO,I", "H,O,I")
BIASES = ("H,O", "HO", "1,1,HO", "1,HO", "H,1,O", "1,1,H,O")
OUTPUT_KERNELS = ("H,O,E", "HO,E", "E,HO", "E,H,O", "O,H,E", "H,E,O")
OUTPUT_BIASES = ("E", "1,1,E", "1,E")
# Packed forms differ in the order of query, key and value (3), heads, and features within a head.
PACKED_KERNELS = (
    *(
        "I,3HO",
        "3HO,I",
        "3,I,HO",
        "3,HO,I",
        "3,H,I,O",
        "3,I,H,O",
        "I,3,H,O",
        "3,H,O,I",
        "I,H3O",
        "H3O,I",
        "I,H,3O",
        "H,3O,I",
        "H,I,3O",
    ),
    *("I,HO3", "HO3,I"),
)
PACKED_BIASES = ("3HO", "3,HO", "3,H,O", "H3O", "H,3O", "H,1,3O", "HO3")
PACKS = {"packed": ("query", "key", "value"), "key_value": ("key", "value")}
ORDERS = ("3HO", "H3O", "HO3")
PACKED_ROLES = ("packed", "attention_output")
MOST_HEADS = 8  # number of numbers of heads to try
READINGS = 300  # maximum number of sizes to try
_INPUT = {"packed": "I query", "attention_output": "I query", "key_value": "I key"}


class UnknownWeightsError(ValueError):
    """A layer's weights do not match multi-head attention.

    Attributes:
        variables: Weights of the layer, if the error is about all of them.
    """

    def __init__(self, message: str, variables: Sequence["Variable"] = ()) -> None:
        super().__init__(message)
        self.variables = variables


@dataclasses.dataclass(frozen=True)
class Variable:
    """One weight array of a layer.

    Attributes:
        path: Attributes that lead to the array.
        shape: Shape of the array.
        assign: Function that sets the array.
        read: Function that returns the array.
        transposed: Whether a matrix, or each in a stack, is (out, in), as in torch's `Linear`, or `None` if unknown.
        used: Whether the layer's call made the array.
        frozen: Whether training leaves the array as it is.
        place: Path of the array in a script, if the code gives it a better name than the framework, or the numbers of
            a part's rows or columns.
        part_of: Path of the array that the variable is a part of, if it is one.
    """

    path: str
    shape: tuple[int, ...]
    assign: Callable[[np.ndarray], None]
    read: Callable[[], np.ndarray]
    transposed: bool | None = False
    used: bool = True
    frozen: bool = False
    place: str = ""
    part_of: str = ""

    @property
    def whole(self) -> str:
        """The path of the array that belongs to the layer."""
        return self.part_of or self.path

    def part(self, name: str, numbers: np.ndarray, axis: int = 0) -> "Variable":
        """Return a variable of some rows, or of some columns (`axis` is 1)."""
        shape = (*self.shape[:axis], len(numbers), *self.shape[axis + 1 :])
        return self._at((slice(None),) * axis + (numbers,), shape, name, str(numbers.tolist()))

    def item(self, name: str, index: int) -> "Variable":
        """Return a variable of one item of the first axis."""
        return self._at(index, self.shape[1:], name, str(index))

    def _at(self, index: Any, shape: tuple[int, ...], name: str, place: str) -> "Variable":
        def assign(array: np.ndarray) -> None:
            whole = np.array(self.read())
            whole[index] = array
            self.assign(whole)

        def read() -> np.ndarray:
            return np.asarray(self.read())[index]

        return dataclasses.replace(
            self, path=name, shape=shape, assign=assign, read=read, place=place, part_of=self.path
        )

    def oriented_like(self, other: tuple[int, ...]) -> "Variable":
        """Return the variable with `transposed` found from its shape in a layer with more input features."""
        longer = [mine != theirs for mine, theirs in zip(self.shape, other, strict=False)]
        if self.transposed is not None or len(longer) != 2 or sum(longer) != 1:
            return self
        return dataclasses.replace(self, transposed=longer[1])


@dataclasses.dataclass(frozen=True)
class Slot:
    """The content of one variable: the kernel or bias of a projection, in a form (an order of axes).

    Attributes:
        variable: Variable that contains the weights.
        role: Name of the projection.
        is_bias: Whether the variable is a bias.
        form: Order of the variable's axes, such as "I,HO".
        head: Index of the head, if each head has its own variable.
        groups: Number of heads of keys and values, if each serves several query heads, or else 0.
    """

    variable: Variable
    role: str
    is_bias: bool
    form: str
    head: int | None = None
    groups: int = 0

    @property
    def name(self) -> str:
        return f"{self.role}/{'bias' if self.is_bias else 'kernel'}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the canonical weights that the variable contains."""
        kind = "bias" if self.is_bias else "kernel"
        return tuple(f"{role}/{kind}" for role in PACKS.get(self.role, (self.role,)))

    @property
    def letters(self) -> str:
        if self.role == "attention_output":
            return "E" if self.is_bias else "HOE"
        letters = "HO" if self.is_bias else "HIO"
        if self.shared:
            return letters.replace("H", "").replace("I", "P")
        return f"{len(PACKS[self.role])}{letters}" if self.role in PACKS else letters

    @property
    def shared(self) -> bool:
        """True for one small kernel for all heads, which every head applies to its own part of the features."""
        return self.form in (*SHARED, SHARED_BIAS)

    @property
    def _axis(self) -> int:
        """The axis of heads in the canonical array."""
        return int(self.role in PACKS)

    def _each(self, step: int) -> tuple[slice, ...]:
        """Return the index of the first head of each group."""
        return (slice(None),) * self._axis + (slice(None, None, step),)

    def in_groups(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return canonical weights with the first head of each group in the places of the group's other heads."""
        if not self.groups:
            return dict(weights)
        mine = {name: weights[name] for name in self.names if name in weights}
        steps = {name: len(array) // self.groups for name, array in mine.items()}
        return {**weights, **{name: np.repeat(mine[name][:: steps[name]], steps[name], axis=0) for name in mine}}

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the variable from canonical weights, or to zeros if the canonical weights do not have this bias."""
        if self.role in PACKS:
            canonical = np.stack([weights.get(name, np.zeros(())) for name in self.names])
        elif self.name in weights:
            canonical = weights[self.name]
        else:
            self.variable.assign(np.zeros(self.variable.shape))
            return
        if self.head is not None:
            canonical = canonical[self.head : self.head + 1]
        if self.groups:
            canonical = canonical[self._each(canonical.shape[self._axis] // self.groups)]
        if self.shared:
            canonical = canonical[0] if self.is_bias else canonical[0, : canonical.shape[1] // len(canonical)]
        self.variable.assign(to_form(canonical, self.letters, self.form))

    def read(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """Return the canonical weights that the variable contains."""
        heads = sizes["H"]
        if self.shared:
            sizes = {**sizes, "P": sizes["I"] // heads}
        array = from_form(self.variable.read(), self.letters, self.form, {**sizes, "H": self.groups or heads})
        if self.groups:
            array = np.repeat(array, heads // self.groups, axis=self._axis)
        if self.shared:
            return {self.name: np.stack([array] * heads) if self.is_bias else _block_diagonal(array, heads)}
        return dict(zip(self.names, array if self.role in PACKS else [array], strict=True))


def _block_diagonal(array: np.ndarray, heads: int) -> np.ndarray:
    """Return the kernel (H, I, O) that equals a kernel (P, O) applied by each head to its own part of the features."""
    part, size = array.shape
    blocks = np.zeros((heads, heads, part, size), array.dtype)
    blocks[np.arange(heads), np.arange(heads)] = array
    return blocks.reshape(heads, heads * part, size)


def arrangements(variables: Sequence[Variable], sizes: Mapping[str, int], grouped: bool = False) -> list[list[Slot]]:
    """Return all possible roles and forms of the variables, the likeliest first.

    Args:
        variables: Variables of the layer, in the order in which they were made.
        sizes: Sizes, keyed by letter: H, O, E, and I of each role as "I query", "I key", "I value".
        grouped: Whether keys and values may have fewer heads than queries.

    Raises:
        UnknownWeightsError: No roles and forms match the variables.
    """
    ways = ("roles", "groups", "pairs") if grouped else ("whole", "pairs")
    found = [slots for each in _orders(variables, sizes, ways) for slots in _arrangements(each, sizes, grouped)]
    if not found and variables:
        wanted = ", ".join(f"{letter}={size}" for letter, size in sizes.items())
        raise UnknownWeightsError(
            "the weights fit no known form of multi-head attention. Expected kernels for query, key, value and output, "
            f"such as (I, H·O), (H, I, O) or (H·O, I), with {wanted}. Received: {listed(variables)}.",
            variables,
        )
    return found or [[]]


def possible(variables: Sequence[Variable], sizes: Mapping[str, int]) -> list[list[Slot]]:
    """Return the arrangements of the variables, with fewer heads of keys and values only if no others match."""
    try:
        return arrangements(variables, sizes)
    except UnknownWeightsError:
        return arrangements(variables, sizes, grouped=True)


def _orders(variables: Sequence[Variable], sizes: Mapping[str, int], ways: Sequence[str]) -> list[list[Variable]]:
    """Return the variables, with packed ones in parts: once for each of the `ways` of `_unpacked` that gives others."""
    found: dict[Any, list[Variable]] = {}
    for how in ways:
        parts = [part for each in variables for part in _unpacked(each, sizes, how)]
        found.setdefault(tuple(part.place for part in parts), parts)
    return [*found.values()]


def _unpacked(variable: Variable, sizes: Mapping[str, int], how: str) -> list[Variable]:
    """Return the queries', keys' and values' outputs of a packed layer, or the variable if it is none.

    Args:
        variable: Variable.
        sizes: Sizes, keyed by letter.
        how: How the heads follow each other: "roles" (one role after another), "groups" (in each group, the queries'
            heads and then those of key and value), "pairs" (the queries' heads, and then pairs of key and value, of
            which there may be as many), or "whole" (the variable stays as it is).
    """
    role, is_bias = naming.weight(variable.path)
    if how == "roles" and len(variable.shape) > 2 and variable.shape[0] == len(PACKS.get(role or "", ())):
        return [variable.item(f"{each}.weight", index) for index, each in enumerate(PACKS[role or ""])]
    unknown = (
        role not in ("packed", None) or len(variable.shape) > 2 or not (is_bias or variable.transposed is not None)
    )
    if how == "whole" or unknown:
        return [variable]
    heads, size = sizes["H"], sizes["O"]
    axis = 0 if variable.transposed else len(variable.shape) - 1
    groups, rest = divmod(variable.shape[axis] - heads * size, 2 * size)
    rest += role is None and groups != heads
    if rest or not 0 < groups <= heads or heads % groups or (groups == heads and how != "pairs"):
        return [variable]
    rows = np.arange(variable.shape[axis]).reshape(-1, size)
    of_groups, of_pairs = rows.reshape(groups, -1, size), rows[heads:].reshape(groups, 2, size)
    parts = {
        "roles": (rows[:heads], rows[heads:-groups], rows[-groups:]),
        "groups": (of_groups[:, :-2], of_groups[:, -2], of_groups[:, -1]),
        "pairs": (rows[:heads], of_pairs[:, 0], of_pairs[:, 1]),
    }[how]
    kind = "bias" if is_bias else "weight"
    named = zip(PACKS["packed"], parts, strict=True)
    return [variable.part(f"{name}.{kind}", part.ravel(), axis) for name, part in named]


def _arrangements(variables: Sequence[Variable], sizes: Mapping[str, int], grouped: bool) -> Iterator[list[Slot]]:
    undetermined = any(variable.transposed is None for variable in variables)
    for roles in _roles(variables):
        for order in ORDERS if any(role in PACKS for role, _, _ in roles) else ORDERS[:1]:
            for transposed in (False, True) if undetermined else (False,):
                if slots := _fitted(variables, roles, sizes, order, transposed, grouped):
                    yield slots


OTHER_EXTRAS = re.compile(r"null|scale|bias_[kv]$|mem_[kv]$|rel_|relative|pos_(?!ff)|alpha|temp|table")
EXTRAS = re.compile(rf"norm|(^|[._])ln(?![a-z])|gamma|beta|{OTHER_EXTRAS.pattern}")
NEUTRAL = re.compile(r"rel_|relative|pos_(?!ff)|table")  # weights that change nothing if they are zero


def without_extras(variables: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Split the variables into kernels and biases, and extras: norms, learned keys, tables of relative positions.

    An extra has a telling name, is a vector in a sublayer without a matrix, or has one number for each head.
    """
    owners = {each.path.rpartition(".")[0] for each in variables if len(each.shape) > 1}
    found: list[Variable] = []
    for each in variables:
        owner = each.path.rpartition(".")[0]
        vector = len(each.shape) < 2 and owner and owner not in owners and not naming.weight(each.path)[0]
        extra = OTHER_EXTRAS if len(each.shape) > 1 else EXTRAS  # a matrix in `norm_and_attention` is no norm's
        named = extra.search(each.path.lower()) and not _is_matrix_of_a_projection(each)
        of_heads = each.shape[-2:] == (1, 1) and len(each.shape) > 2 and not naming.weight(each.path)[0]
        if named or vector or of_heads or not each.shape:
            found.append(each)
    paths = {each.path for each in found}
    return [each for each in variables if each.path not in paths], found


def _is_matrix_of_a_projection(variable: Variable) -> bool:
    role = naming.weight(variable.path.rpartition(".")[2] or variable.path)[0]
    return role is not None and len(variable.shape) > 1


def extras_of(variables: Sequence[Variable], free: bool) -> tuple[Extra, ...]:
    """Return the numbers of extras. If they are `free`, draw numbers that show where a normalization uses them."""
    found = []
    for number, variable in enumerate(variables):
        array = np.asarray(variable.read(), "float64")
        start = float(array.flat[0]) if array.size and np.all(array == array.flat[0]) else None
        if free and NEUTRAL.search(variable.path.lower()):
            array = np.zeros_like(array)
        elif free and start in (0.0, 1.0) and array.size > 1:
            array = start + 0.3 * np.random.default_rng(number).normal(size=array.shape)
        if free:
            variable.assign(array)
        found.append(Extra(variable.path, array, start))
    return tuple(found)


def listed(variables: Sequence[Variable]) -> str:
    """Return the paths and shapes of variables as text."""
    return ", ".join(f"{variable.path} {variable.shape}" for variable in variables) or "none"


def _roles(variables: Sequence[Variable]) -> Iterator[list[Any]]:
    """Yield the possible roles of the variables. Names decide, and variables without known names take every order."""
    named = [naming.weight(variable.path) for variable in variables]
    heads = [head_of(variable.path, variables) for variable in variables]
    known = [(role, is_bias, head) for (role, is_bias), head in zip(named, heads, strict=True)]
    owners: dict[str, list[int]] = {}
    for index, variable in enumerate(variables):
        if not named[index][0]:
            owner = re.sub(r"[/.]?[^/.]*$", "", variable.path) or naming.without_kind(variable.path)
            if re.search(r"[/.]\d+$", variable.path):  # an array in a list has no layer around it
                owner = variable.path
            owners.setdefault(owner, []).append(index)
    found = {part for role, _ in named if role for part in (role, *PACKS.get(role, ()))}
    packed = "packed" in found or len(owners) + len(found) <= len(PACKED_ROLES)
    rest = [role for role in (PACKED_ROLES if packed else ALL_ROLES) if role not in found]
    for order in itertools.permutations(rest, len(owners)):
        has_all = {*ROLES} <= {*found, *order} or "packed" in {*found, *order} or found == {"attention_output"}
        if not has_all:  # query, key and value must be present, unless the output projection alone is there
            continue
        roles: list[Any] = list(known)
        for role, indices in zip(order, owners.values(), strict=True):
            for index in indices:
                largest = max(len(variables[other].shape) for other in indices)
                is_bias = len(indices) > 1 and (named[index][1] or len(variables[index].shape) < largest)
                roles[index] = (role, is_bias, None)
        yield roles


_HEAD = re.compile(r"(?<=[/._])\d+(?=[/.])|(?<=head_)\d+(?=_)", re.IGNORECASE)  # such as heads.2.weight, Head_2_keys
_LAST = re.compile(r"(?<=[/.])\d+$")  # such as w_q.2, if the name tells a role


def head_of(path: str, variables: Sequence[Variable]) -> int | None:
    """Return the index of a variable's head, or `None` unless there is a list with a variable for each head."""
    number = _LAST if _LAST.search(path) and naming.weight(path)[0] else _HEAD
    numbers, pattern = number.findall(path), number.sub("#", path)
    alike = [other for other in variables if number.sub("#", other.path) == pattern]
    return int(numbers[-1]) if numbers and len(alike) > 1 else None


def listed_heads(variables: Sequence[Variable]) -> int | None:
    """Return the number of heads if there is a list with a variable for each head, or else `None`."""
    listed = {head for variable in variables if (head := head_of(variable.path, variables)) is not None}
    return max(listed) + 1 if listed else None


def _fitted(
    variables: Sequence[Variable], roles: Any, sizes: Mapping[str, int], order: str, transposed: bool, grouped: bool
) -> list[Slot] | None:
    """Return a slot for each variable, or `None` if a shape does not match its role.

    `order` is the packing order of packed forms. `transposed` applies to variables of unknown orientation.
    """
    slots = []
    for variable, (role, is_bias, head) in zip(variables, roles, strict=True):
        mine = _own_sizes(role, sizes)
        if head is not None and role != "attention_output":
            mine["H"] = 1
        groups = _groups(variable, role, is_bias, mine) if grouped else 0
        mine["H"] = groups or mine["H"]
        mine["P"] = 0 if mine["I"] % mine["H"] else mine["I"] // mine["H"]
        fitting = fitting_forms(variable.shape, forms_of(role, is_bias), mine)
        if role in PACKS:
            fitting = [form for form in fitting if packing_order(form) == order]
        # (I, H·O) and (H·O, I) have the same shape if I = H·O.
        is_turned = transposed if variable.transposed is None else variable.transposed
        facing = [form for form in fitting if is_transposed(form) == is_turned and form.count(",") < 3]
        if not fitting:
            return None
        is_matrix = len(variable.shape) == 2 or variable.transposed is None  # or a stack of matrices
        chosen = facing[0] if facing and is_matrix and not is_bias else fitting[0]
        slots.append(Slot(variable, role, is_bias, chosen, head if role != "attention_output" else None, groups))
    return slots


def _groups(variable: Variable, role: str, is_bias: bool, sizes: Mapping[str, int]) -> int:
    """Return the number of heads of keys and values, if it divides the number of heads, or else 0."""
    if role not in ("key", "value", "key_value") or naming.weight(variable.path)[0] != role:
        return 0  # a guess of the role would be confirmed by too many sizes
    each = len(PACKS.get(role, (role,))) * sizes["O"] * (1 if is_bias else sizes["I"])
    groups, rest = divmod(math.prod(variable.shape), each)
    return groups if not rest and 0 < groups < sizes["H"] and sizes["H"] % groups == 0 else 0


def _own_sizes(role: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes by letter, with the I and the O of one projection."""
    size = sizes.get("O value", sizes["O"]) if role in ("value", "attention_output") else sizes["O"]
    return {**sizes, "I": sizes[_INPUT.get(role, f"I {role}")], "O": size}


def write_weights(slots: Sequence[Slot], weights: Mapping[str, np.ndarray]) -> None:
    """Set all variables from canonical weights."""
    for slot in slots:
        slot.write(weights)


def read_weights(slots: Sequence[Slot], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Return all weights in the canonical layout."""
    weights: dict[str, Any] = {}
    for slot in slots:
        mine = _own_sizes(slot.role, sizes)
        if slot.head is None:
            weights |= slot.read(mine)
            continue
        for name, array in slot.read({**mine, "H": 1}).items():
            weights.setdefault(name, [None] * sizes["H"])[slot.head] = array[0]
    return {name: np.stack(array) if isinstance(array, list) else array for name, array in weights.items()}


def arrangements_of_layer(
    name: str,
    layer: Any,
    variables: Sequence[Variable],
    given: Mapping[str, Any],
    one_input: bool = False,
    takes: Callable[[Mapping[str, int]], bool] = lambda _: True,
) -> list[tuple[dict[str, int], list[Slot]]]:
    """Return the possible arrangements of a built layer's weights, the likeliest first, each with its sizes.

    If the layer takes but one input, its query and key have the same number of features. `takes` tells whether the
    layer takes inputs of some sizes. It is asked only if these depend on the orientation of the matrices.

    Raises:
        NoWeightsError: There are no weights.
        CandidateError: The weights do not match multi-head attention.
    """
    if not variables:
        raise NoWeightsError(
            f"{name}: the layer has no weights yet. Give its class, so that kmha makes the weights, or call it once or "
            "`build` it first."
        )
    heads = number_of_heads(layer, given) or heads_by_size(layer, given, variables)
    variables = fitting_variables(variables, heads)
    readings = [heads] if heads else likely_heads(layer, variables) or _divisors(variables)
    if found := _in_both_orientations(variables, heads, readings, one_input, takes):
        return found
    given_heads = f" with {heads} heads" if heads else ""
    remedy = "" if heads else " Give the number of heads: arguments={'num_heads': …}, or --set num_heads=H."
    raise CandidateError(
        f"{name}: its weights do not fit multi-head attention{given_heads}. Expected kernels for query, key, "
        f"value and output, such as (I, H·O) or (H, I, O).{remedy} Received: {listed(variables)}."
    )


def canonical_weights(sizes: Mapping[str, int], slots: Sequence[Slot]) -> dict[str, np.ndarray]:
    """Return all weights in the canonical layout, with an identity for each kernel that the layer lacks."""
    return with_identity_kernels(read_weights(slots, sizes), sizes["H"], sizes["O"])


def _in_both_orientations(
    variables: Sequence[Variable],
    heads: int | None,
    readings: Sequence[int],
    one_input: bool,
    takes: Callable[[Mapping[str, int]], bool],
) -> list[tuple[dict[str, int], list[Slot]]]:
    """Return the arrangements with the likeliest sizes. All matrices of unknown orientation have the same."""
    if all(each.transposed is not None for each in variables):
        return _of_layer(variables, heads, readings)
    found = []
    for turned in (False, True):
        facing = [
            dataclasses.replace(v, transposed=turned if v.transposed is None else v.transposed) for v in variables
        ]
        found += _of_layer(facing, heads, readings)
    widths = [_widths(sizes) for sizes, _ in found]
    if one_input:
        widths.sort(key=lambda each: each["I key"] != each["I query"])
    differ = any(each != widths[0] for each in widths)
    likeliest = next(filter(takes, widths), widths[0]) if differ else {}
    return [(sizes, slots) for sizes, slots in found if not differ or _widths(sizes) == likeliest]


def _widths(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that do not depend on the number of heads."""
    return {letter: size for letter, size in sizes.items() if letter not in ("H", "O")}


def _of_layer(
    variables: Sequence[Variable], heads: int | None, readings: Sequence[int]
) -> list[tuple[dict[str, int], list[Slot]]]:
    """Return the arrangements with the first sizes that the variables fit, with shared heads only if no others fit."""
    found = [(sizes, slots) for each in readings for sizes, slots in _first_fitting(variables, each)]
    if heads and not any(stands(slots) for _, slots in found):
        in_groups = _fitting(variables, heads, grouped=True)
        standing = ([(sizes, slots) for slots in fitting if stands(slots)] for sizes, fitting in in_groups)
        found = next(filter(None, standing), []) or found or _first_fitting(variables, heads, grouped=True)
    return found


def fitting_variables(variables: Sequence[Variable], heads: int | None) -> list[Variable]:
    """Return the variables without extras, unless all of them fit attention."""
    rest, extras = without_extras(variables)
    all_fit = not extras or not rest or next(_fitting(variables, heads or 1, READINGS), None) is not None
    return list(variables) if all_fit else rest


def possible_sizes(variables: Sequence[Variable], heads: int) -> dict[str, int] | None:
    """Return sizes with which variables fit attention with `heads` heads, or `None` if there are none.

    Without an output projection, the layer returns the heads side by side: E is H·O.
    """
    found: dict[str, int] | None = None
    for sizes, fitting in _fitting(variables, heads, READINGS):
        if not any(slot.role == "attention_output" for slot in fitting[0]):
            sizes["E"] = sizes["H"] * sizes["O"]
        if stands(fitting[0]):
            return sizes
        found = found or sizes
    return found


def stands(slots: Sequence[Slot]) -> bool:
    """Return whether all matrices have the orientations that their layers say, if they say one."""
    matrices = [slot for slot in slots if slot.variable.transposed is not None and len(slot.variable.shape) == 2]
    return all(is_transposed(slot.form) == slot.variable.transposed for slot in matrices)


def _first_fitting(
    variables: Sequence[Variable], heads: int, grouped: bool = False
) -> list[tuple[dict[str, int], list[Slot]]]:
    """Return the arrangements of the variables with the first sizes that they fit, each with the sizes.

    Sizes with which matrices have the orientations that their layers say are preferred.
    """
    first = None
    for found in itertools.islice(_fitting(variables, heads, grouped=grouped), READINGS):
        first = first or found
        if any(map(stands, found[1])):
            first = found
            break
    return [(first[0], slots) for slots in first[1]] if first else []


def _fitting(
    variables: Sequence[Variable], heads: int, most: int | None = None, grouped: bool = False
) -> Iterator[tuple[dict[str, int], list[list[Slot]]]]:
    """Yield the sizes that the variables fit, each with the arrangements. At most `most` sizes are tried."""
    if next(_roles(variables), None) is None:
        return  # whatever the sizes are
    kernels = [variable.shape for variable in variables if len(variable.shape) > 1]
    for sizes in itertools.islice(_possible_sizes(kernels, heads), most):
        if not all(_may_fit(math.prod(shape), sizes) for shape in kernels):
            continue
        try:
            found = arrangements(variables, sizes, grouped)
        except UnknownWeightsError:
            continue
        yield sizes, found


def _may_fit(count: int, sizes: Mapping[str, int]) -> bool:
    """Return whether some projection has so many numbers. Most sizes are refused by this alone, which is fast."""
    heads, widths = sizes["H"], {sizes["E"], *(sizes[f"I {role}"] for role in ROLES)}
    for size in {sizes["O"], sizes.get("O value", sizes["O"])}:
        # A kernel of one head, some heads, or three times all heads; a bias; and a small kernel for all heads.
        parts = (size, *(size * width for width in widths), *(size * (width // heads) for width in widths))
        if any(part and count % part == 0 and count // part <= 3 * heads for part in parts):
            return True
    return count in widths


def _divisors(variables: Sequence[Variable]) -> list[int]:
    """Return the numbers of heads to try if nothing states the number: those that divide the smallest axis."""
    smallest = min(number for variable in variables if len(variable.shape) > 1 for number in variable.shape)
    return [number for number in range(1, smallest + 1) if smallest % number == 0][:MOST_HEADS]


def heads_by_size(layer: Any, given: Mapping[str, Any], variables: Sequence[Variable]) -> int | None:
    """Return the number of heads of a size that the layer or its scale states in the queries' kernel, or `None`."""
    size = stated_number(layer, given, "size") or (stated_size(layer) or ("", 0))[1]
    kernels = [
        each.shape for each in variables if naming.weight(each.path) == ("query", False) and len(each.shape) == 2
    ]
    found = {number // size for shape in kernels for number in shape if size and number % size == 0}
    return found.pop() if len(found) == 1 else None


def likely_heads(layer: Any, variables: Sequence[Variable]) -> list[int]:
    """Return the likely numbers of heads if neither an argument nor an attribute states the number.

    The sizes of the axes of kernels with three axes are likely. Without such kernels, there is one head, unless some
    number of the layer divides O. An unknown number of heads must not be guessed, or a right layer would be accused.
    """
    kernels = [variable.shape for variable in variables if len(variable.shape) > 1]
    cubes = [number for shape in kernels if len(shape) == 3 for number in shape]
    if cubes:
        return list(dict.fromkeys(cubes))
    sizes = {number for shape in kernels for number in shape}
    numbers = {value for value in vars(layer).values() if isinstance(value, int) and not isinstance(value, bool)}
    if any(number > 1 and number not in sizes and size % number == 0 for number in numbers for size in sizes):
        return []
    return [listed_heads(variables) or 1]


def _possible_sizes(kernels: list[tuple[int, ...]], heads: int) -> Iterator[dict[str, int]]:
    """Yield all possible sizes (features, heads and head size) that the kernels' shapes allow."""
    numbers = sorted({number for shape in kernels for number in shape})
    inner = set(numbers) | {number // heads for number in numbers if number % heads == 0}
    # The likeliest readings come first: H·O is one of the numbers, and O is as large as possible.
    for size in sorted(inner, key=lambda each: (each * heads not in numbers, -each)):
        for features, key_features, width in itertools.product(numbers, repeat=3):
            inputs = {"I query": features, "I key": key_features, "I value": key_features}
            yield {"H": heads, "O": size, "E": width, **inputs}
    begins = {shape[:2] for shape in kernels}
    for size, value_size in itertools.permutations(sorted(inner), 2):  # values may have heads of another size
        if value_size * heads in numbers or (heads, value_size) in begins:
            for features, width in itertools.product(numbers, repeat=2):
                inputs = dict.fromkeys(("I query", "I key", "I value"), features)
                yield {"H": heads, "O": size, "O value": value_size, "E": width, **inputs}


def forms_of(role: str, is_bias: bool) -> tuple[str, ...]:
    """Return the forms of a projection's kernel or bias, the likeliest first."""
    if role in PACKS:
        count = str(len(PACKS[role]))
        return tuple(form.replace("3", count) for form in (PACKED_BIASES if is_bias else PACKED_KERNELS))
    if role == "attention_output":
        return OUTPUT_BIASES if is_bias else OUTPUT_KERNELS
    return (*BIASES, SHARED_BIAS) if is_bias else (*KERNELS, *SHARED)


def form_shape(form: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an array in this form, with these sizes.

    >>> form_shape("I,3HO", {"H": 2, "O": 5, "I": 7})
    (7, 30)
    """
    return tuple(math.prod(_size(letter, sizes) for letter in axis) for axis in form.split(","))


def _size(letter: str, sizes: Mapping[str, int]) -> int:
    return int(letter) if letter.isdigit() else sizes[letter]


def packing_order(form: str) -> str:
    """Return the order of query, key and value (3), heads (H) and features (O) in a packed form, the outermost first.

    >>> packing_order("3,I,HO"), packing_order("H2O,I")
    ('3HO', 'H3O')
    """
    return re.sub("[,1I]", "", form).replace("2", "3")


def is_transposed(form: str) -> bool:
    """Return whether the form is a matrix (out, in).

    >>> is_transposed("I,HO"), is_transposed("HO,I"), is_transposed("E,HO")
    (False, True, True)
    """
    return form.split(",")[-1] in ("I", "P") or form == "E,HO"


def fitting_forms(actual: tuple[int, ...], candidates: tuple[str, ...], sizes: Mapping[str, int]) -> list[str]:
    """Return the forms among `candidates` that have the shape `actual`."""
    return [form for form in candidates if form_shape(form, sizes) == tuple(actual)]


def to_form(canonical: np.ndarray, letters: str, form: str) -> np.ndarray:
    """Convert a canonical array, whose axes are `letters`, to a form.

    >>> to_form(np.zeros((2, 7, 5)), "HIO", "I,HO").shape
    (7, 10)
    """
    order = [letter for letter in form.replace(",", "") if letter != "1"]
    moved = np.transpose(canonical, [letters.index(letter) for letter in order])
    sizes = dict(zip(letters, canonical.shape, strict=True))
    return moved.reshape([math.prod(1 if x == "1" else sizes[x] for x in axis) for axis in form.split(",")])


def from_form(array: np.ndarray, letters: str, form: str, sizes: Mapping[str, int]) -> np.ndarray:
    """Convert an array in a form to the canonical array with the axes `letters`.

    >>> from_form(np.zeros((7, 10)), "HIO", "I,HO", {"H": 2, "I": 7, "O": 5}).shape
    (2, 7, 5)
    """
    order = [letter for letter in form.replace(",", "") if letter != "1"]
    split = np.reshape(array, [_size(letter, sizes) for letter in order])
    return np.transpose(split, [order.index(letter) for letter in letters])
