"""Attention as a chain of named steps, in NumPy, so that one step can be changed and the rest stays.

| step | what it makes |
| --- | --- |
| `inputs` | by role ("query", "key", "value"), what its projection receives: (B, P, I) |
| `weights` | the weights that are used, by their canonical names |
| `projected` | by role, the input times the kernel: (B, P, H, O) |
| `biased` | the same with the bias |
| `heads` | by role: (B, H, P, O) |
| `scale` | what the logits are multiplied by |
| `logits` | query · key: (B, H, T, S) |
| `scaled` | logits times scale |
| `allowed` | who may attend to whom: boolean, (B or 1, H or 1, T, S); (1, 1, 1, 1) without any mask |
| `masked` | the scaled logits, -inf where nobody may attend |
| `scores` | their softmax over s; a row with nothing to attend to is zeros |
| `dropped` | the scores after dropout, in training |
| `mixed` | scores · value: (B, H, T, O) |
| `joined` | the heads side by side: (B, T, H·O) |
| `merged` | joined times the output kernel: (B, T, E) |
| `output` | merged with the output bias |
| `returned` | the scores that the caller gets |
| `untouched` | whether the inputs are as they were |

Positions P are T for the query and S for key and value. A trial without weights is of the four steps alone (scaled
dot-product attention): its inputs are (B, H, P, O) already, and its output is `mixed`.

A *change* of a step is a function of what has been computed so far and of the right step: it may call that one, or not.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

ROLES = ("query", "key", "value")

State = dict[str, Any]
Step = Callable[[State], Any]
Change = Callable[[State, Step], Any]


class ImpossibleError(ValueError):
    """A mistake cannot be made with these sizes: the code that makes it would raise."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One call: what goes in, and the weights.

    Attributes:
        name: of the trial, such as "cross, padding".
        query, key, value: (B, P, I), or (B, H, P, O) where there are no weights.
        weights: by their canonical names; empty for scaled dot-product attention alone.
        mask: boolean (B, T, S), True where t may attend to s, or `None`.
        causal: whether t may attend only to s ≤ t.
        key_mask, query_mask: boolean (B, S) and (B, T), False at padding, or `None`. The second hides nothing from
            attention: it is there for layers that use it wrongly.
        training, rate, kept: dropout; `kept` is what it multiplies the scores by, (B, H, T, S).
        dtype: what the candidate computes in.
        fill: what stands in place of the logits that the mask hides, or is `added` to them: it shows where a mistake
            leaves a softmax nothing else.
        more: what a chain of blocks needs besides.
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

    @property
    def core(self) -> bool:
        """Whether it is of the four steps alone."""
        return not self.weights

    @property
    def masked(self) -> bool:
        return self.mask is not None or self.causal or self.key_mask is not None

    def with_inputs(self, of: Callable[[np.ndarray], np.ndarray], **changes: Any) -> "Trial":
        """With what `of` makes of each input, and other changes; inputs that are one array stay one."""
        arrays = {id(array): array for array in (self.query, self.key, self.value)}
        made = {key: of(array) for key, array in arrays.items()}
        inputs: dict[str, Any] = {role: made[id(getattr(self, role))] for role in ROLES}
        return dataclasses.replace(self, **inputs, **changes)

    def allowed(self) -> np.ndarray:
        """Who may attend to whom: boolean, (B, T, S)."""
        batch, rows, columns = self.query.shape[0], self.query.shape[-2], self.key.shape[-2]
        allowed = np.ones((batch, rows, columns), bool)
        if self.mask is not None:
            allowed &= self.mask
        if self.causal:
            allowed &= causal(rows, columns)
        if self.key_mask is not None:
            allowed &= self.key_mask[:, None, :]
        return allowed

    def empty_rows(self) -> np.ndarray:
        """The rows with nothing to attend to, or of padding: boolean, (B, T)."""
        empty = np.logical_not(self.allowed().any(axis=-1))
        return empty if self.query_mask is None else empty | ~self.query_mask


def causal(rows: int, columns: int) -> np.ndarray:
    """Boolean (T, S), True where s ≤ t.

    >>> causal(2, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    return np.tril(np.ones((rows, columns), bool))


def softmax(logits: np.ndarray, axis: Any = -1) -> np.ndarray:
    """Along `axis`, stable; zeros where all logits are -inf."""
    largest = np.max(logits, axis=axis, keepdims=True)
    powers = np.exp(logits - np.where(np.isfinite(largest), largest, 0.0))
    total = np.sum(powers, axis=axis, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def project(array: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """BPI,HIO->BPHO."""
    if array.shape[-1] != kernel.shape[1]:
        raise ImpossibleError(f"{array.shape[-1]} features, and a kernel for {kernel.shape[1]}")
    heads, features, size = kernel.shape
    flat = array @ np.swapaxes(kernel, 0, 1).reshape(features, heads * size)
    return flat.reshape(*array.shape[:-1], heads, size)


def _projected(state: State) -> dict[str, np.ndarray]:
    if state["trial"].core:
        return {role: np.swapaxes(array, 1, 2) for role, array in state["inputs"].items()}
    return {role: project(state["inputs"][role], state["weights"][f"{role}/kernel"]) for role in ROLES}


def _allowed(state: State) -> np.ndarray:
    # Without a mask there is none that another number of positions would not fit.
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


def matmul(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product, or an `ImpossibleError`."""
    if left.shape[-1] != right.shape[-2]:
        raise ImpossibleError(f"a product of {left.shape} and {right.shape}")
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

# A chain by the name that a trial gives; `chain_blocks` adds the blocks.
CHAINS: dict[str, dict[str, Step]] = {"attention": ATTENTION}


def run(trial: Trial, changes: Iterable[Mapping[str, Change]] = ()) -> State:
    """All steps' results by name, with the changes made, those that come first inside those that follow.

    Raises:
        ImpossibleError: the changed steps cannot be computed with these sizes.

    >>> rng = np.random.default_rng(0)
    >>> trial = Trial("plain", *(rng.normal(size=(2, 3, size, 7)) for size in (4, 5, 5)))
    >>> run(trial)["output"].shape
    (2, 3, 4, 7)
    >>> unscaled = run(trial, [{"scaled": lambda state, right: state["logits"]}])
    >>> bool(np.allclose(unscaled["output"], run(trial)["output"]))
    False
    """
    changes = tuple(changes)
    return run_steps(CHAINS[trial.chain], {"trial": trial, "changes": changes}, changes)


def run_steps(steps: Mapping[str, Step], state: State, changes: Iterable[Mapping[str, Change]]) -> State:
    """Goes through `steps` in their order and fills `state`."""
    with np.errstate(all="ignore"):  # wrong numbers are what this is for
        for name, right in steps.items():
            step = right
            for change in changes:
                if name in change:
                    step = _changed(change[name], step)
            try:
                state[name] = step(state)
            except ImpossibleError:
                raise
            except (ValueError, IndexError, np.exceptions.AxisError) as error:  # shapes that do not fit
                raise ImpossibleError(str(error)) from None
    return state


def _changed(change: Change, right: Step) -> Step:
    return lambda state: change(state, right)
