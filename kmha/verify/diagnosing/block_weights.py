"""The weights of a block: which variables belong to which sublayer, found by shape, first value and name.

A module that has vectors alone is a normalization: its gain starts as ones, and its bias as zeros. The feed-forward
network has the matrices between E features and another number of features. All other variables are attention's.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import READS, CandidateError
from kmha.verify.diagnosing.weights import UnknownWeightsError, Variable, listed

ATTENTION = re.compile(r"attention|attn|^att$|mha|mhsa|qkv|query|key|value")
FORWARD = re.compile(
    r"feed_?for|ffn|mlp|^dense$|(^|[._])ff|fc_?\d|c_fc|intermediate|w_?\d|linear_?\d|dense_?\d|(^|[._])lin\d"
)
CROSSING = re.compile(r"cross|enc|memory|src|context")
# Names of the weights of normalizations without a module of their own, and what in them tells gain from bias.
FLAT_NORM = re.compile(r"norm|ln|gamma|beta|^(g|be)_?\d$")
KINDS = re.compile(r"gamma|beta|weight|bias|scale|gain|shift|_[gb]$|^[gb]_|^(g|be)(?=_?\d)")
GAINS = re.compile(r"gamma|weight|scale|gain|alpha|a_?2|^g_?\d?$|_g$")
SCALES = re.compile(r"(^|[._])ls_?\d|layer_?scale")
GATES = re.compile(r"gate|w1|wi_0|fc_1")
MAX_ORDERS = 6  # maximum number of orders of normalizations to try


@dataclasses.dataclass(frozen=True)
class PlainSlot:
    """A variable that contains one canonical array, its transpose, or several arrays along its first axis.

    Attributes:
        variable: Variable that contains the weights.
        parts: Canonical names of the arrays in the variable. A kernel's arrays are packed along its outputs.
        transposed: Whether the variable is (outputs, inputs).
        offset: Number to add to the canonical array, such as -1 for a gain 1 + g.
    """

    variable: Variable
    parts: tuple[str, ...]
    transposed: bool = False
    offset: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the canonical weights that the variable contains."""
        return self.parts

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the variable from canonical weights."""
        arrays = [weights[name] for name in self.parts if name in weights]
        if not arrays:  # this weight plays no part in the reference, such as the scale of a sublayer
            self.variable.assign(np.ones(self.variable.shape))
            return
        array = np.concatenate(arrays, axis=-1) + self.offset
        self.variable.assign(np.reshape(array.T if self.transposed else array, self.variable.shape))


@dataclasses.dataclass(frozen=True)
class Sublayers:
    """The variables of a block, by sublayer.

    Attributes:
        attentions: Possible orders of the attentions' variables, the likeliest first. Self-attention is called first.
        forward: Possible slots of the feed-forward network, the likeliest first.
        norms: Possible orders of the slots of the normalizations, the likeliest first.
        scales: Variables that scale the output of a sublayer. They are set to 1.
    """

    attentions: tuple[tuple[tuple[Variable, ...], ...], ...]
    forward: tuple[tuple[PlainSlot, ...], ...]
    norms: tuple[tuple[tuple[PlainSlot, ...], ...], ...]
    scales: tuple[PlainSlot, ...] = ()

    @property
    def inner(self) -> int:
        """Number of hidden features of the feed-forward network (F), or 0 without one."""
        return inner_features(self.forward[0]) if self.forward else 0


def inner_features(slots: Sequence[PlainSlot]) -> int:
    """Return the number of input features of the network's last layer."""
    last = next((slot for slot in slots if slot.parts == ("dense2/kernel",)), slots[0])
    rows, columns = squeezed(last.variable.shape)
    return columns if last.transposed else rows


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without axes of size 1, which convolutions of width 1 have.

    >>> squeezed((12, 5, 1)), squeezed((1, 1, 12))
    ((12, 5), (12,))
    """
    return tuple(size for size in shape if size != 1)


def owner(variable: Variable) -> str:
    """Return the path of the module that has the variable."""
    return variable.path.rpartition(".")[0]


def sublayers(variables: Sequence[Variable], width: int, inner: int | None = None, attentions: int = 1) -> Sublayers:
    """Group the variables of a block by sublayer.

    Args:
        variables: Variables of the block, in the order in which they were made.
        width: Number of features of the block's input (E).
        inner: Number of hidden features of the feed-forward network (F), if known.
        attentions: Number of attentions: 1 in an encoder layer, 2 in a decoder layer, 0 in a feed-forward network.

    Raises:
        UnknownWeightsError: The attentions cannot be told apart.
    """
    variables = [part for each in variables for part in _gate_and_other(each)]
    norms, scales = _norms(variables, width)
    used = {variable.path for variable in itertools.chain(scales, *norms)}
    rest = [variable for variable in variables if variable.path not in used and variable.shape]
    forward = _feed_forward(rest, width, inner, attentions)
    used = {slot.variable.path for slots in forward for slot in slots}
    rest = [variable for variable in rest if variable.path not in used]
    groups = _attentions(rest, attentions)
    if not groups:
        raise UnknownWeightsError(
            f"expected the weights of {attentions} attention{'s' * (attentions > 1)}, two dense layers and "
            f"normalizations of {width} features. Received: {listed(variables)}."
        )
    orders = tuple(tuple(_norm_slots(norms[index]) for index in order) for order in _orders(norms, attentions))
    ones = tuple(PlainSlot(variable, ()) for variable in scales)
    return Sublayers(groups, forward, orders, ones)


def _gate_and_other(variable: Variable) -> list[Variable]:
    """Return the kernels of a gated network that are stacked, (2, E, F), one by one, or the variable."""
    gates = re.search(r"(^|[._])gat(e|ing)", variable.path.lower()) and not _is_attention(variable.path)
    if len(variable.shape) == 3 and variable.shape[0] == 2 and gates:
        return [variable.item(f"{variable.path}.{name}", index) for index, name in enumerate(("gate", "other"))]
    return [variable]


def unused_owners(variables: Sequence[Variable], run: Callable[[], Any]) -> frozenset[str]:
    """Return the paths of the modules whose weights do not change what `run` returns.

    While `run` is called, all weights are random, because a weight of zero would hide the effect of others.
    """
    rng = np.random.default_rng(0)
    before = [variable.read().copy() for variable in variables]
    modules: dict[str, list[Variable]] = {}
    for variable in variables:
        variable.assign(rng.normal(size=variable.shape))
        modules.setdefault(owner(variable), []).append(variable)
    try:
        first = frameworks.to_numpy(frameworks.output_and_scores(run())[0])
        unused = set()
        for path, mine in modules.items():
            for variable in mine:
                variable.assign(variable.read() + rng.normal(size=variable.shape))
            again = frameworks.to_numpy(frameworks.output_and_scores(run())[0])
            if np.array_equal(first, again):
                unused.add(path)
            first = again
        return frozenset(unused - {""})
    finally:
        for variable, array in zip(variables, before, strict=True):
            variable.assign(array)


def _norms(variables: Sequence[Variable], width: int) -> tuple[list[list[Variable]], list[Variable]]:
    """Return the variables of each normalization, and the variables that scale the output of a sublayer."""
    owners: dict[str, list[Variable]] = {}
    for variable in variables:
        owners.setdefault(owner(variable), []).append(variable)
    norms, scales = [], []
    for path, mine in owners.items():
        vectors = [variable for variable in mine if squeezed(variable.shape) == (width,)]
        if path and len(vectors) == len(mine):
            if len(mine) == 1 and SCALES.search(mine[0].path):
                scales += mine
            elif len(mine) <= 2:
                norms.append(mine)
            continue
        flat: dict[str, list[Variable]] = {}
        for variable in vectors:
            name = variable.path.rpartition(".")[2].lower()
            if FLAT_NORM.search(name):
                flat.setdefault(KINDS.sub("", name), []).append(variable)
        norms += flat.values()
    return norms, scales


def _norm_slots(variables: Sequence[Variable]) -> tuple[PlainSlot, ...]:
    """Return the slots of gain and bias. First values decide, then names, then the order."""
    firsts = [np.unique(variable.read()) for variable in variables]
    starts = [first.item() if first.size == 1 else None for first in firsts]
    if len(variables) == 1:
        name = variables[0].path.rpartition(".")[2].lower()
        if re.search("beta|bias", name):
            return (PlainSlot(variables[0], ("beta",)),)
        return (PlainSlot(variables[0], ("gamma",), offset=-1.0 if starts[0] == 0 else 0.0),)
    first, second = variables
    names = [bool(GAINS.search(variable.path.rpartition(".")[2].lower())) for variable in variables]
    if starts == [0, 1] or (set(starts) != {0, 1} and names == [False, True]):
        first, second = second, first
    return PlainSlot(first, ("gamma",)), PlainSlot(second, ("beta",))


def _orders(norms: Sequence[Sequence[Variable]], attentions: int) -> list[tuple[int, ...]]:
    """Return the orders of the normalizations to try, as indices. The order of attributes comes first.

    With one attention, a normalization of the memory is a further one, which comes last. In the code, it is often the
    second.

    If names such as attention_norm and ffn_norm state the order, no other order is tried. If names state the places of
    some, the orders with these places come first. Numbers, as in norm1 and norm2, are followed, or else the order in
    which the normalizations were made.
    """
    paths = [norm[0].path if len(norm) == 1 else owner(norm[0]) or norm[0].path for norm in norms]
    usual = tuple(range(len(norms)))
    places = [_place(path) for path in paths]
    if attentions == 1:
        places = [place if not place else 3 - place for place in places]
    if len(set(places)) == len(places) and None not in places:
        return [tuple(sorted(usual, key=lambda index: places[index] or 0))]
    patterns = {re.sub(r"\d+", "#", path) for path in paths}
    if len(patterns) <= 1:
        counted = tuple(sorted(usual, key=lambda index: [int(digits) for digits in re.findall(r"\d+", paths[index])]))
        memory = [(0, 2, 1)] if attentions == 1 and len(norms) == 3 else []
        # Post-norm with the first normalization at the end of the block, where pre-norm would have it at the beginning.
        shifted = [(*counted[1:], counted[0])] if attentions == 2 else []
        return [*dict.fromkeys([counted, usual, *memory, *shifted])]

    def misplaced(order: tuple[int, ...]) -> int:
        return sum(places[index] not in (None, place) for place, index in enumerate(order))

    orders = itertools.islice(itertools.permutations(usual), 20 * MAX_ORDERS)
    return sorted(orders, key=misplaced)[:MAX_ORDERS]


def _place(path: str) -> int | None:
    """Return the place of a normalization in a block, judged by its name, or `None`.

    >>> _place("ffn_norm"), _place("self_attn_layer_norm"), _place("norm3")
    (2, 0, None)
    """
    path = path.lower()
    found = [bool(FORWARD.search(path)), bool(CROSSING.search(path)), bool(ATTENTION.search(path))]
    if re.search("post|after|final", path) or sum(found) == 0:
        return None
    return 1 if found[1] and not found[0] else (2 if found[0] and not found[2] else 0 if not found[0] else None)


def _feed_forward(
    variables: Sequence[Variable], width: int, inner: int | None, attentions: int
) -> tuple[tuple[PlainSlot, ...], ...]:
    """Return the possible slots of the feed-forward network: two kernels, or three in a gated one, and biases."""
    matrices = [variable for variable in variables if len(squeezed(variable.shape)) == 2]
    free = [variable for variable in matrices if width in squeezed(variable.shape)]
    free = [variable for variable in free if attentions == 0 or not _is_attention(variable.path)]
    sizes = Counter(_other(variable, width) for variable in free)
    likely = {inner, *{2 * inner} - {width}} if inner is not None else set()
    if any(sizes[number] for number in likely):
        kernels = [variable for variable in free if _other(variable, width) in likely]
    else:
        named = [variable for variable in free if FORWARD.search(variable.path.lower())]
        kernels = [variable for variable in free if _other(variable, width) != width] or named
        if not kernels and len(free) == 2 < len(matrices):  # all others are attention's by name
            kernels = free
    if inner == width:
        kernels = [variable for variable in kernels if FORWARD.search(variable.path.lower())] or kernels[-2:]
    if kernels in ([], free) and [each.shape for each in free] == [(width, width)]:  # the second kernel is the identity
        slot = PlainSlot(free[0], ("dense1/kernel",), bool(free[0].transposed))
        return ((slot, *_biases([slot], variables, width)),)
    if not 2 <= len(kernels) <= 3:
        return ()
    ways = [_directed(kernels, width, way) for way in (False, True)]
    return tuple((*slots, *_biases(slots, variables, width)) for way in ways for slots in _gated(way, width))


def _other(variable: Variable, width: int) -> int:
    """Return the number of features of a matrix besides the width."""
    rows, columns = squeezed(variable.shape)
    return columns if rows == width else rows


def _is_attention(path: str) -> bool:
    parts = path.lower().split(".")
    inside = next((part for part in parts[:-2] if ATTENTION.search(part) or FORWARD.search(part)), "")
    if inside and not ATTENTION.search(inside):  # `ffn.in_proj.weight`, `ffn.w_value.weight`
        return False
    if any(ATTENTION.search(part) for part in parts):
        return True
    return naming.weight(path)[0] in ("query", "key", "value", "packed", "key_value")


def _directed(kernels: Sequence[Variable], width: int, reverse: bool) -> list[tuple[Variable, bool, bool]]:
    """Return each kernel with two facts: whether it is the second layer's, and whether it is (outputs, inputs).

    The orientation of a framework's own layer is known. Otherwise, the last kernel is the second layer's. `reverse`
    takes the opposite orientation, or else the first kernel for the second layer's.
    """
    last = kernels[0] if reverse else kernels[-1]
    found = []
    for variable in kernels:
        rows, columns = squeezed(variable.shape)
        if rows == columns:
            found.append((variable, variable is last, bool(variable.transposed)))
        elif variable.transposed is not None and not reverse:
            found.append((variable, (columns if variable.transposed else rows) != width, variable.transposed))
        else:
            found.append((variable, variable is last, (columns if variable is not last else rows) == width))
    return found


def _gated(directed: Sequence[tuple[Variable, bool, bool]], width: int) -> list[list[PlainSlot]]:
    """Return the possible slots of the kernels. In a gated network, either first kernel may be the activated one."""
    seconds = [PlainSlot(variable, ("dense2/kernel",), turned) for variable, second, turned in directed if second]
    firsts = [(variable, turned) for variable, second, turned in directed if not second]
    if len(seconds) != 1 or not firsts:
        return []
    second = seconds[0]
    if len(firsts) == 2:
        ordered = sorted(firsts, key=lambda each: not GATES.search(each[0].path.lower()))
        names = [("dense1/kernel", "gate/kernel"), ("gate/kernel", "dense1/kernel")]
        return [
            [PlainSlot(v, (name,), turned) for (v, turned), name in zip(ordered, order, strict=True)] + [second]
            for order in names
        ]
    variable, turned = firsts[0]
    if _other(variable, width) == 2 * _other(second.variable, width):
        both = ("gate/kernel", "dense1/kernel")
        return [[PlainSlot(variable, order, turned), second] for order in (both, both[::-1])]
    return [[PlainSlot(variable, ("dense1/kernel",), turned), second]]


def _biases(kernels: Sequence[PlainSlot], variables: Sequence[Variable], width: int) -> list[PlainSlot]:
    """Return the slots of the biases. A bias belongs to its kernel's module, or has its kernel's name or place."""
    found = []
    taken: set[str] = set()
    for slot in kernels:
        features = width if slot.parts == ("dense2/kernel",) else _other(slot.variable, width)
        near = [
            variable
            for variable in variables
            if owner(variable) == owner(slot.variable)
            and squeezed(variable.shape) == (features,)
            and variable.path not in taken
        ]
        if len(near) > 1:
            name = naming.without_kind(slot.variable.path.rpartition(".")[2])
            same = [v for v in near if naming.without_kind(v.path.rpartition(".")[2]) == name]
            near = same or near[-1:]
        if near:
            taken.add(near[0].path)
            found.append(PlainSlot(near[0], tuple(part.replace("kernel", "bias") for part in slot.parts)))
    return found


def _attentions(variables: Sequence[Variable], count: int) -> tuple[tuple[tuple[Variable, ...], ...], ...]:
    """Return the possible orders of `count` attentions, with the variables of each.

    The modules that lead to the variables tell the attentions apart, or else the numbers in the variables' names. An
    attention that serves twice is there twice.
    """
    if count < 2:
        return ((tuple(variables),) * count,)
    for depth in range(1, 5):
        groups: dict[str, list[Variable]] = {}
        for variable in variables:
            groups.setdefault(".".join(variable.path.split(".")[:depth]), []).append(variable)
        if len(groups) >= count:
            break
    if len(groups) != count:
        groups = {}
        for variable in variables:
            number = re.findall(r"\d+", variable.path)
            groups.setdefault(number[-1] if number else "", []).append(variable)
    if len(groups) != count:
        once = {naming.weight(variable.path) for variable in variables}
        return ((tuple(variables),) * count,) if len(once) == len(variables) else ()
    crossing = [name for name in groups if CROSSING.search(name.lower().rpartition(".")[2])]
    if len(crossing) == 1:
        return (tuple(tuple(groups[name]) for name in sorted(groups, key=lambda name: name in crossing)),)
    usual = tuple(tuple(group) for group in groups.values())
    alike = len({re.sub(r"\d+", "#", name) for name in groups}) == 1
    return (usual,) if alike else (usual, usual[::-1])


def check_attends(name: str, variables: Sequence[Variable]) -> None:
    """Check that a layer is more than a feed-forward network.

    Raises:
        CandidateError: It has two or three matrices, which lead from a number of features to another and back.
    """
    matrices = [v for v in variables if len(squeezed(v.shape)) > 1]
    shapes = {squeezed(each.shape) for each in matrices}
    there_and_back = len(shapes) == 2 and shapes == {shape[::-1] for shape in shapes}
    if (
        len(matrices) <= 3
        and there_and_back
        and not any(naming.weight(each.path)[0] in ("query", "packed") for each in matrices)
    ):
        raise CandidateError(
            f"{name} is a feed-forward network without attention. {READS}. Diagnose the layer that contains it."
        )


def width_of(variables: Sequence[Variable]) -> int | None:
    """Return the number of features of a built block, judged by its normalizations, or else by its matrices."""
    owners: dict[str, list[tuple[int, ...]]] = {}
    for variable in variables:
        owners.setdefault(owner(variable), []).append(squeezed(variable.shape))
    vectors = [shapes[0][0] for shapes in owners.values() if {len(shape) for shape in shapes} == {1}]
    sizes: Any = Counter(vectors) or Counter(size for variable in variables for size in {*variable.shape} - {1})
    return sizes.most_common(1)[0][0] if sizes else None
