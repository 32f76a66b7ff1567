"""What is diagnosed: a function of arrays, or a layer. Here is what both have in common.

A *convention* is what cannot be read off a signature: the shape in which a mask is wanted, the order of weights that
have no names, the dtype that a helper casts to. All that are usual are tried, and the first that makes the candidate
right is taken; else the first that one known mistake explains; else the first with which it runs.
"""

import contextlib
import dataclasses
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify import frameworks, naming, trials
from kmha.verify.chain import Trial
from kmha.verify.matching import Answer
from kmha.verify.trials import Accepts, Sizes

# The shapes of a mask (B, T, S), as functions of it.
MASK_SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "B,1,T,S": lambda mask: mask[:, None],
    "B,T,S": lambda mask: mask,
    "T,S": lambda mask: _same_for_all(mask),
}
LARGEST = 16  # B·T·S of a smallest case
MASK_DTYPES = ("bool", "float", "int32")


class SubjectError(ValueError):
    """The candidate cannot be called: what is missing, and how to give it."""


@dataclasses.dataclass(frozen=True)
class Convention:
    """How a candidate wants what its signature does not tell; `causal`, if it is so without being asked."""

    weights: Any = None
    mask_shape: str = "B,1,T,S"
    mask_dtype: str = "bool"
    dtype: str = "float64"
    causal: bool = False


class Subject:
    """A candidate, ready to be asked.

    Attributes:
        name: as it is shown.
        chain: the chain that it is to be: "attention", or a block's.
        core: whether it is scaled dot-product attention alone, without weights.
        accepts: what it can be called with.
        framework: of the arrays that it takes.
        weights: canonical ones that it holds and keeps, or `None` where they are set for each trial.
        hides: whether True (or 1) in a mask means *hide*.
        convention: what is tried, or was found.
    """

    name = ""
    chain = "attention"
    core = False
    accepts = Accepts()
    framework = "numpy"
    weights: Mapping[str, np.ndarray] | None = None
    hides = False
    convention = Convention()

    def sizes(self, rng: np.random.Generator) -> Sizes:
        """Sizes that the candidate allows."""
        raise NotImplementedError

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        """The calls to try."""
        drawn = trials.draw(seed, self.accepts, sizes, self.weights, core=self.core)
        return [dataclasses.replace(trial, causal=True) for trial in drawn] if self.convention.causal else drawn

    @property
    def may_be_causal(self) -> bool:
        """Whether it may be causal without being asked: self-attention that has no flag for it, as in language models."""
        return not (self.accepts.cross or self.accepts.causal) and self.chain == "attention"

    def smaller(self, sizes: Any) -> Iterator[Any]:
        """Sizes from one of everything on; what the candidate holds stays as it is."""
        free = self.weights is None
        heads = range(1, sizes.heads + 1) if free and sizes.heads > 1 else (sizes.heads,)
        inner = (1, 2, sizes.size) if free else (sizes.size,)
        lengths = range(1, max(sizes.rows, sizes.columns) + 1)
        options = itertools.product((1, 2), lengths, lengths, heads, inner)
        for batch, rows, columns, head_count, size in sorted(options, key=lambda each: (np.prod(each), each)):
            changes = {"batch": batch, "rows": rows, "columns": columns, "heads": head_count, "size": size}
            if free:
                width = head_count * size if self.accepts.wide else 2
                changes |= {"width": width, "features": width, "key_features": width}
            if np.prod([batch, rows, columns]) <= LARGEST:
                yield dataclasses.replace(sizes, **changes)

    def mask_shapes(self) -> list[str]:
        """The shapes of a mask that are worth a try, the likeliest first."""
        return ["B,1,T,S", "B,T,S", "T,S"] if not self.core or self.accepts.heads else ["B,T,S", "T,S"]

    def weight_conventions(self) -> list[Any]:
        """All orders and forms of weights that are worth a try."""
        return [None]

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        """What the candidate returns for a trial, and its inputs beside copies of them."""
        raise NotImplementedError

    def code(self, trial: Trial) -> list[str]:
        """Lines of Python that make the call; the last one leaves `result`."""
        raise NotImplementedError

    def answer(self, trial: Trial) -> Answer:
        """The candidate's answer to a trial. An error of its own is an answer too."""
        try:
            # What a stranger's code prints must not get into what we print, nor its warnings.
            with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
                warnings.simplefilter("ignore")
                result, inputs = self.call(trial)
            output, scores = frameworks.shaped(result)
            output = frameworks.back(output)
        except SubjectError:
            raise
        except Exception as error:  # a stranger's code may raise anything
            return Answer(raised=said(error))
        untouched = all(np.array_equal(frameworks.back(given), copy) for given, copy in inputs)
        dtype = str(output.dtype) if str(output.dtype) in ("float16", "float32", "bfloat16") else "float64"
        if self.core and output.ndim == 3:
            output = output[:, None]
        found = None if scores is None else _scores(frameworks.back(scores), trial)
        return Answer(np.asarray(output, "float64"), found, untouched, dtype)

    def mask(self, trial: Trial) -> np.ndarray | None:
        """The mask of a trial as the candidate wants it; what has an argument of its own is not in it."""
        mask = trial.mask
        if mask is None:
            return None
        mask = MASK_SHAPES[self.convention.mask_shape](np.asarray(mask) ^ self.hides)
        return mask.astype(trial.dtype if self.convention.mask_dtype == "float" else self.convention.mask_dtype)

    def tensor(self, array: Any, trial: Trial) -> Any:
        """As the candidate's framework has it."""
        dtype = trial.dtype if trial.dtype == "float16" else self.convention.dtype
        return frameworks.to(array, self.framework, dtype)


def said(error: Exception) -> str:
    """An error in one line, without what Keras puts around it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    inner = [line for line in lines if not line.startswith("Exception encountered when calling")]
    return f"{type(error).__name__}: {(inner or lines or [''])[0]}"


def _same_for_all(mask: np.ndarray) -> np.ndarray:
    if not (mask == mask[:1]).all():
        raise ValueError("not tried: a mask (T, S) hides the same positions of all items")
    return mask[0]


def _scores(scores: np.ndarray, trial: Trial) -> np.ndarray | None:
    """As (B, H, T, S), where they are of every head."""
    if trial.chain != "attention":
        return None  # a block's are of its attentions, in an order of its own
    heads = trial.query.shape[1] if trial.core else trial.weights["query/kernel"].shape[0]
    if scores.ndim == 3 and heads == 1:
        scores = scores[:, None]
    return np.asarray(scores, "float64") if scores.ndim == 4 else None


def parameters(function: Any, skip: int = 0) -> dict[str, inspect.Parameter]:
    """By name, those that can be given by name or place."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise SubjectError(f"{function!r} has no signature that Python can read. Wrap it in a function.") from None
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return dict(list((n, p) for n, p in signature.parameters.items() if p.kind not in kinds)[skip:])


def constructor(layer_class: type) -> dict[str, inspect.Parameter]:
    """Those of the constructor, and where it passes on `**kwargs`, those of its parents' that are not a framework's."""
    found: dict[str, inspect.Parameter] = {}
    for parent in layer_class.__mro__:
        if "__init__" not in vars(parent):
            continue
        if parent.__module__.split(".")[0] in ("keras", "torch", "builtins") and found:
            break
        found = {**parameters(parent.__init__, skip=1), **found}
        kinds = {parameter.kind for parameter in inspect.signature(parent.__init__).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    return found


def check_known(where: str, found: Mapping[str, inspect.Parameter], known: Any, given: Mapping[str, Any]) -> None:
    """Every argument without a default must be known or given.

    Raises:
        SubjectError: it names the first that is not.
    """
    for name, parameter in found.items():
        if name in known or name in given or parameter.default is not inspect.Parameter.empty:
            continue
        raise SubjectError(
            f"{where}: what is the argument `{name}`? Its name is not one that is known, and it has no default. "
            f"Give it a value: arguments={{{name!r}: …}}, or --set {name}=VALUE."
        )
    for name in given.keys() - found.keys():
        raise SubjectError(f"{where} has no argument `{name}`. It has: {', '.join(found) or 'none'}.")


def inputs(subject: Subject, roles: Mapping[str, str], trial: Trial) -> dict[str, Any]:
    """The tensors of a call by the names of the candidate's arguments."""
    by_role: dict[str, Any] = {"query": trial.query, "self": trial.query}
    if subject.accepts.cross:
        by_role |= {"key": trial.key, "value": trial.value, "memory": trial.key}
    else:
        by_role |= {"key": trial.query, "value": trial.query, "memory": trial.query}
    if subject.core and not subject.accepts.heads:
        by_role = {role: array[:, 0] for role, array in by_role.items()}
    if "query" in roles and "key" in roles:
        by_role.pop("self")
    return {roles[role]: subject.tensor(array, trial) for role, array in by_role.items() if role in roles}


def masks(subject: Subject, roles: Mapping[str, str], trial: Trial) -> dict[str, Any]:
    """The masks and flags of a call by the names of the candidate's arguments."""
    found: dict[str, Any] = {}
    arrays = {"mask": subject.mask(trial), "padding": trial.key_mask, "query_padding": trial.query_mask}
    for role, array in arrays.items():
        if array is not None and role in roles:
            array = array if role == "mask" else np.asarray(array) ^ subject.hides
            found[roles[role]] = subject.tensor(array, trial)
    flags = {"causal": trial.causal, "training": trial.training, "deterministic": not trial.training, "scores": True}
    found |= {roles[role]: flag for role, flag in flags.items() if role in roles and (flag or role != "causal")}
    return found


def roles_of(found: Mapping[str, Any]) -> dict[str, str]:
    """The name of the argument that plays each part."""
    return naming.arguments(found)
