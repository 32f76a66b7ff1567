"""Scaled dot-product and multi-head attention as a chain of named steps, in NumPy (Vaswani et al. 2017, section 3.2).

Each step is a separate function, so that a mistake can change one step alone. The steps run in this order:

| step | equation | result |
| --- | --- | --- |
| `inputs` | x^Q, x^K and x^V | (B, P, I) for each role ("query", "key", "value") |
| `weights` | | kernels and biases, keyed by their canonical names |
| `projected` | x W, with a kernel (H, I, O) for each role | (B, P, H, O) for each role |
| `biased` | x W + b | (B, P, H, O) for each role |
| `heads` | q, k and v: `biased`, with the heads before the positions | (B, H, P, O) for each role |
| `scale` | 1/√O | a number |
| `logits` | q · k | (B, H, T, S) |
| `scaled` | q · k / √O | (B, H, T, S) |
| `allowed` | True where t may attend to s | boolean (B or 1, H or 1, T, S); (1, 1, 1, 1) without masks |
| `masked` | the scaled logits, and -∞ where t may not attend to s | (B, H, T, S) |
| `scores` | softmax over s; zeros in a row with nothing to attend to | (B, H, T, S) |
| `dropped` | the scores after dropout, in training | (B, H, T, S) |
| `mixed` | Σ_s score_ts v_s | (B, H, T, O) |
| `joined` | Concat(head_1, …, head_H) | (B, T, H·O) |
| `merged` | Concat(head_1, …, head_H) W^O | (B, T, E) |
| `output` | Concat(head_1, …, head_H) W^O + b^O | (B, T, E) |
| `returned` | the scores that the caller gets | (B, H, T, S) |
| `untouched` | | whether the inputs are still as they were |

P stands for T in the query, and for S in key and value. A trial (one call of a layer) without weights is scaled
dot-product attention alone, called the *core*. A core's inputs are (B, H, P, O), and its output is `mixed`.

A *change* of a step is a function `change(state, right)`. `state` has the results so far, and `right` is the original
step, which the change may call.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

ROLES = ("query", "key", "value")

State = dict[str, Any]
Step = Callable[[State], Any]
Change = Callable[[State, Step], Any]


class ImpossibleError(ValueError):
    """A mistake is impossible with these sizes, because code that makes the mistake would raise an error."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One call of a layer, with its inputs, weights and masks.

    Attributes:
        name: Name of the trial, such as "cross, padding".
        query, key, value: Inputs (B, P, I), or (B, H, P, O) without weights.
        weights: Weights, keyed by their canonical names. Empty for scaled dot-product attention alone.
        mask: Boolean mask (B, T, S), True where t may attend to s, or `None`.
        causal: Whether t may attend only to s ≤ t.
        key_mask, query_mask: Boolean padding masks (B, S) and (B, T), False at padding, or `None`. Attention ignores
            `query_mask`, which serves to find layers that use it wrongly.
        training, rate, kept: Dropout. `kept` (B, H, T, S) contains the factors that dropout multiplies the scores by.
        dtype: Dtype that the candidate computes in.
        fill: Number that replaces hidden logits, or is `added` to them. It matters if a mistake leaves a softmax
            nothing but hidden logits.
        chain: Name of the chain to run, a key of `CHAINS`.
        more: Further settings, which other chains use.
        choices: Changes of steps that are no mistakes, such as pre-norm. Every run of the trial makes them first.
    """

    name: str
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    weights: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    mask: np.ndarray | None = None
    causal: bool = False
    key_mask: np.ndarray | None = None
    query_mask: np.ndarray | None = None
    training: bool = False
    rate: float = 0.0
    kept: np.ndarray | None = None
    dtype: str = "float64"
    fill: float = -np.inf
    added: bool = False
    chain: str = "attention"
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    choices: tuple[Mapping[str, Change], ...] = ()

    @property
    def core(self) -> bool:
        """True for scaled dot-product attention alone."""
        return not self.weights

    @property
    def heads(self) -> int:
        """The number of heads of attention (H)."""
        return int(self.query.shape[1] if self.core else self.weights["query/kernel"].shape[0])

    @property
    def masked(self) -> bool:
        return self.mask is not None or self.causal or self.key_mask is not None

    def with_inputs(self, of: Callable[[np.ndarray], np.ndarray], **changes: Any) -> "Trial":
        """Return a trial with `of` applied to each input, and with `changes`. Inputs that share an array still do."""
        arrays = {id(array): array for array in (self.query, self.key, self.value)}
        made = {key: of(array) for key, array in arrays.items()}
        inputs: dict[str, Any] = {role: made[id(getattr(self, role))] for role in ROLES}
        return dataclasses.replace(self, **inputs, **changes)

    def allowed(self) -> np.ndarray:
        """Return a boolean mask (B, T, S), True where t may attend to s."""
        batch, rows, columns = self.query.shape[0], self.query.shape[-2], self.key.shape[-2]
        allowed = np.ones((batch, rows, columns), bool)
        if self.mask is not None:
            allowed &= self.mask
        if self.causal:
            at_the_end = self.more.get("corner") == "bottom right"
            allowed &= causal(rows, columns, columns - rows if at_the_end else 0)
        if self.key_mask is not None:
            allowed &= self.key_mask[:, None, :]
        return allowed

    def empty_rows(self) -> np.ndarray:
        """Return a boolean mask (B, T), True for rows that are padding or have nothing to attend to."""
        empty = np.logical_not(self.allowed().any(axis=-1))
        return empty if self.query_mask is None else empty | ~self.query_mask


def allowed_with(state: State, **masks: Any) -> np.ndarray:
    """Return the original `allowed` of a trial in which `mask`, `causal` or `key_mask` is replaced."""
    return dataclasses.replace(state["trial"], **masks).allowed()[:, None]


def allowed_without(state: State, *names: str) -> np.ndarray:
    """Return the original `allowed` of a trial from which some masks are removed."""
    return allowed_with(state, **{name: False if name == "causal" else None for name in names})


def causal(rows: int, columns: int, offset: int = 0) -> np.ndarray:
    """Return a boolean mask (T, S), True where s ≤ t + offset.

    >>> causal(2, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    return np.tril(np.ones((rows, columns), bool), offset)


def softmax(logits: np.ndarray, axis: Any = -1) -> np.ndarray:
    """Return exp(z_s) / Σ_r exp(z_r) along `axis`, or zeros where all logits are -∞."""
    largest = np.max(logits, axis=axis, keepdims=True)
    return normalised(np.exp(logits - np.where(np.isfinite(largest), largest, 0.0)), axis)


def normalised(powers: np.ndarray, axis: Any = -1) -> np.ndarray:
    """Divide by the sums along `axis`. What has the sum 0 stays as it is."""
    total = np.sum(powers, axis=axis, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def project(array: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Return x W_h for every position and head: (B, P, I), (H, I, O) → (B, P, H, O)."""
    if array.shape[-1] != kernel.shape[1]:
        raise ImpossibleError(f"the input has {array.shape[-1]} features, the kernel {kernel.shape[1]}")
    heads, features, size = kernel.shape
    flat = array @ np.swapaxes(kernel, 0, 1).reshape(features, heads * size)
    return flat.reshape(*array.shape[:-1], heads, size)


def _projected(state: State) -> dict[str, np.ndarray]:
    if state["trial"].core:
        return {role: np.swapaxes(array, 1, 2) for role, array in state["inputs"].items()}
    return {role: project(state["inputs"][role], state["weights"][f"{role}/kernel"]) for role in ROLES}


def _allowed(state: State) -> np.ndarray:
    # Without masks, keep an array that broadcasts to any number of positions, because a mistake may change the number.
    return state["trial"].allowed()[:, None] if state["trial"].masked else np.ones((1, 1, 1, 1), bool)


def _masked(state: State) -> np.ndarray:
    trial, logits = state["trial"], state["scaled"]
    return np.where(state["allowed"], logits, logits + trial.fill if trial.added else trial.fill)


def _dropped(state: State) -> np.ndarray:
    kept = state["trial"].kept
    return state["scores"] if kept is None else state["scores"] * kept


def _joined(state: State) -> np.ndarray:
    mixed = np.swapaxes(state["mixed"], 1, 2)
    return mixed.reshape(*mixed.shape[:2], -1)


def _merged(state: State) -> np.ndarray:
    if state["trial"].core:
        return state["mixed"]
    kernel = state["weights"]["attention_output/kernel"]
    return matmul(state["joined"], kernel.reshape(-1, kernel.shape[-1]))


def share_with_one_more(masked: np.ndarray) -> np.ndarray:
    """Return Σ exp / (1 + Σ exp)."""
    largest = np.maximum(masked.max(axis=-1, keepdims=True), 0.0)
    total = np.exp(masked - largest).sum(axis=-1, keepdims=True)
    return total / (total + np.exp(-largest))


def matmul(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product, or raise `ImpossibleError` if the shapes do not match."""
    if left.shape[-1] != right.shape[-2]:
        raise ImpossibleError(f"the shapes {left.shape} and {right.shape} have no product")
    return left @ right


ATTENTION: dict[str, Step] = {
    "inputs": lambda state: {role: getattr(state["trial"], role) for role in ROLES},
    "weights": lambda state: dict(state["trial"].weights),
    "projected": _projected,
    "biased": lambda state: {
        role: array + state["weights"].get(f"{role}/bias", 0.0) for role, array in state["projected"].items()
    },
    "heads": lambda state: {role: np.swapaxes(array, 1, 2) for role, array in state["biased"].items()},
    "scale": lambda state: 1 / math.sqrt(state["heads"]["query"].shape[-1]),
    "logits": lambda state: matmul(state["heads"]["query"], np.swapaxes(state["heads"]["key"], -1, -2)),
    "scaled": lambda state: state["logits"] * state["scale"],
    "allowed": _allowed,
    "masked": _masked,
    "scores": lambda state: softmax(state["masked"]),
    "dropped": _dropped,
    "mixed": lambda state: matmul(state["dropped"], state["heads"]["value"]),
    "joined": _joined,
    "merged": _merged,
    "output": lambda state: state["merged"] + state["weights"].get("attention_output/bias", 0.0),
    "returned": lambda state: state["scores"],
    "untouched": lambda state: True,
}

# The chains by name. `blocks` and `embedding` add their own.
CHAINS: dict[str, dict[str, Step]] = {"attention": ATTENTION}


def chains_with(steps: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the chains that have all of these steps. A block also runs the steps of its attention.

    >>> chains_with(["scaled"]), chains_with(["scaled", "norm1"])
    (('attention', 'encoder', 'decoder'), ('encoder', 'decoder'))
    """
    wanted = set(steps)
    return tuple(name for name in CHAINS if wanted <= steps_of(name))


def steps_of(chain: str) -> set[str]:
    """Return the names of a chain's steps, with the steps of the attention inside a block."""
    steps = set(CHAINS[chain])
    return steps | set(ATTENTION) if "inside1" in steps else steps


def run(trial: Trial, changes: Iterable[Mapping[str, Change]] = (), known: State | None = None) -> State:
    """Run a trial's chain with changes, and return the results of all steps, keyed by step name.

    Args:
        trial: Call to compute.
        changes: Changes, keyed by step name. If two changes apply to one step, the later change receives the step as
            the earlier change left it.
        known: Results of the trial without these changes, whose steps before the first change are not computed again.

    Raises:
        ImpossibleError: The changed steps cannot be computed with these sizes.

    >>> rng = np.random.default_rng(0)
    >>> trial = Trial("plain", *(rng.normal(size=(2, 3, size, 7)) for size in (4, 5, 5)))
    >>> run(trial)["output"].shape
    (2, 3, 4, 7)
    >>> unscaled = run(trial, [{"scaled": lambda state, right: state["logits"]}])
    >>> bool(np.allclose(unscaled["output"], run(trial)["output"]))
    False
    """
    steps, changes = CHAINS[trial.chain], tuple(changes)
    state: State = {"trial": trial, "changes": (*trial.choices, *changes)}
    if known is not None:
        names = list(steps)
        first = min((_first_index(names, name) for change in changes for name in change), default=0)
        later = {*names[first:]}
        state = {name: each for name, each in known.items() if name not in later} | state
        steps = {name: steps[name] for name in names[first:]}
    return run_steps(steps, state, state["changes"])


def _first_index(names: Sequence[str], changed: str) -> int:
    """Return the index of the first step that a change of a step changes. A block passes it on to its attention."""
    affected = {changed, "inside1"} if changed in ATTENTION else {changed}
    return next((index for index, name in enumerate(names) if name in affected), 0)


def with_fill(known: State, fill: float, added: bool) -> State:
    """Return the results of a trial that has another fill: `known` itself if the fill changes none.

    Args:
        known: Results of the trial, perhaps with changes.
        fill: Number for hidden logits.
        added: Whether the number is added to the logits instead of replacing them.

    >>> rng = np.random.default_rng(0)
    >>> arrays = (rng.normal(size=(2, 3, size, 7)) for size in (4, 5, 5))
    >>> known = run(Trial("causal", *arrays, causal=True))
    >>> with_fill(known, -1e9, False) is known, with_fill(known, -1.0, False) is known
    (True, False)
    """
    trial = dataclasses.replace(known["trial"], fill=fill, added=added)
    changes = known["changes"]
    if trial.chain != "attention":
        inside = [known[name] for name in ("inside1", "inside2") if name in known]
        calls_change = any(name.startswith(("call", "inside")) for change in changes for name in change)
        if inside and not calls_change and all(with_fill(each, fill, added) is each for each in inside):
            return known
        return run(trial, changes[len(trial.choices) :])
    names = list(ATTENTION)
    start, end = names.index("masked"), names.index("scores") + 1
    state = {name: known[name] for name in ("changes", *names[:start])} | {"trial": trial}
    state = run_steps({name: ATTENTION[name] for name in names[start:end]}, state, changes)
    is_changed_later = any(name in change for change in changes for name in names[end:])
    if not is_changed_later and np.array_equal(state["scores"], known["scores"], equal_nan=True):
        return known
    return run_steps({name: ATTENTION[name] for name in names[end:]}, state, changes)


def run_steps(steps: Mapping[str, Step], state: State, changes: Iterable[Mapping[str, Change]]) -> State:
    """Run `steps` in order with `changes`, and put each step's result into `state`."""
    with np.errstate(all="ignore"):  # mistakes produce infinities and NaN
        for name, right in steps.items():
            step = right
            for change in changes:
                if name in change:
                    step = _changed(change[name], step)
            try:
                state[name] = step(state)
            except ImpossibleError:
                raise
            except (ValueError, IndexError, KeyError) as error:  # no such shape or weight
                raise ImpossibleError(str(error)) from None
    return state


def _changed(change: Change, right: Step) -> Step:
    return lambda state: change(state, right)
