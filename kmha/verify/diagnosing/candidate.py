"""The base class of all candidates. A candidate is a function of arrays, or a layer, that is diagnosed.

A candidate's *convention* (`kmha.verify.diagnosing.conventions`) is everything that the signature does not show, such
as the shape of the mask, the order of weights without names, and the dtype that a helper casts to.
"""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.choices import combinations
from kmha.verify.diagnosing import documentation, frameworks, naming
from kmha.verify.diagnosing.calling import EMPTY, METHODS, CandidateError, roles_by_place
from kmha.verify.diagnosing.conventions import (
    BATCH,
    HEADS,
    LISTS,
    MASK_MEANINGS,
    MIDDLE,
    MIDDLE_SINGLE,
    ONE_KEY,
    SINGLE,
    SINGLES,
    TIME,
    Convention,
    adapt,
)
from kmha.verify.diagnosing.matching import Answer, TrialResult
from kmha.verify.diagnosing.slips import error_line, is_slip, line_of_error
from kmha.verify.diagnosing.trials import Accepts, AttentionTrials, Sizes

# Trials that are repeated without asking for scores, because a layer may then compute in a faster way.
WITHOUT_SCORES = ("self-attention", "mask", "causal")
SWAPPED = {TIME: (0, 1), MIDDLE: (1, 2)}  # axes of the output to swap
LOGITS = r"(?m)^\s*return .*,\s*qk\b"  # the product of query and key
LARGEST, LONGEST = 16, 4  # upper limits of a smallest case, for B·T·S and for each of T and S


class Candidate:
    """A layer or function under diagnosis, which can be called with trials.

    Attributes:
        name: Name of the candidate in messages.
        source: Where the candidate is defined, as MODULE:NAME, if known.
        chain: Name of the chain that the candidate should compute: "attention" or the name of a block's chain.
        core: Whether the candidate is scaled dot-product attention alone, without weights.
        accepts: Arguments that the candidate takes.
        framework: Framework of the arrays that the candidate takes.
        weights: Canonical weights that the candidate has and keeps, or `None` if weights are set for each trial.
        said_meaning: Meaning of True (or 1) in masks, if the user said it, one of `conventions.MASK_MEANINGS`.
        said: Names of arguments that the user gave, keyed by role.
        given: Values of arguments that the user gave, keyed by name.
        call_parameters: Parameters of the call, keyed by name.
        fixed: Sizes that were given, keyed by role.
        roles: Names of the call's arguments, keyed by role.
        weights_error: Error from reading the weights, if any.
        neutral_temperature: Name of a temperature that is 1 by default and was left out.
        convention: Calling convention that is being tried, or was found.
        told_causal: Whether the user said that the candidate is causal, although it has no such argument, or `None`.
        neutral_masks: Whether a required mask that a trial does not have is passed as a mask that hides nothing. Some
            candidates cannot run with `None`.
        closing: Meanings of True with which a mask that should hide nothing hides everything, so they are not meant.
        scores_first: Whether the last call that could tell returned the scores before the output.
        scores_alone: Whether the last call that could tell returned the scores alone.
        heads_last: Whether the heads are the last axis of the scores in the last call that could tell.
        chooses: Whether to look for design choices.
        expected: Ids of the design choices that the candidate must make.
        on_call: Function called with the name of each call when the call begins, and with "" when it ends.
    """

    name = ""
    source = ""
    chain = "attention"
    core = False
    accepts = Accepts()
    framework = "numpy"
    weights: Mapping[str, np.ndarray] | None = None
    said_meaning: str | None = None
    said: Mapping[str, str] = MappingProxyType({})
    given: Mapping[str, Any] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})
    call_parameters: Mapping[str, inspect.Parameter] = MappingProxyType({})
    roles: Mapping[str, str] = MappingProxyType({})
    weights_error: ValueError | None = None
    neutral_temperature = ""
    convention = Convention()
    told_causal: bool | None = None
    neutral_masks = False
    closing: frozenset[str] = frozenset()
    scores_first = scores_alone = heads_last = False
    chooses = True
    expected: tuple[str, ...] = ()
    on_call: Callable[[str], None] | None = None

    def sizes(self, rng: np.random.Generator) -> Sizes:
        """Draw random sizes that the candidate allows."""
        raise NotImplementedError

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        """Draw all trials, and return them as a list."""
        return list(self.iter_trials(seed, sizes))

    def iter_trials(self, seed: int, sizes: Any) -> Iterator[Trial]:
        """Draw and yield all trials. The first trials are the plainest, and the last trials take time to draw."""
        if self.chain != "attention":
            yield from self.draw(seed, sizes)
            return
        rng = np.random.default_rng(seed)
        for trial in AttentionTrials(rng, self.accepts, sizes, self.weights, self.core).trials():
            yield trial
            if "scores" in self.roles and trial.name in WITHOUT_SCORES:
                yield dataclasses.replace(trial, name=f"{trial.name}, without scores", more={"scores": False})

    def input_layouts(self) -> list[dict[str, Any]]:
        """Return the input layouts in the order to try them, each as changes of the convention."""
        return [{"entry": BATCH}]

    def use_layout(self, **changes: Any) -> None:
        """Set an input layout, given as changes of the convention."""
        first = {f"{role}_meaning": self.meanings(role)[0] for role in ("mask", "padding")}
        self.convention = dataclasses.replace(self.convention, **{**first, **changes})
        entry = self.convention.entry
        self.framework = self.convention.framework or self.framework
        if self.core:
            self.accepts = dataclasses.replace(self.accepts, heads=entry in (HEADS, MIDDLE, ONE_KEY, MIDDLE_SINGLE))
        if entry in LISTS:
            self.accepts = dataclasses.replace(self.accepts, cross=True, value="value" in LISTS[entry])

    def use_convention(self, convention: Convention) -> None:
        """Set the convention for all further calls."""
        self.convention = convention

    def meanings(self, role: str) -> tuple[str, ...]:
        """Return the meanings of True to try in a mask (role "mask") or padding mask (role "padding").

        What the user said is the only one, and what the code says in words excludes the contrary. Otherwise, the custom
        of the argument's name comes first.
        """
        if self.said_meaning is not None:
            return (self.said_meaning,)
        if documented := self.documented_meanings(self.roles.get(role, "")):
            return documented
        usual = naming.mask_meaning(self.roles.get(role, ""))
        return tuple(each for each in dict.fromkeys((usual, *MASK_MEANINGS)) if each not in self.closing)

    def likely_choices(self, trial: Trial) -> list[tuple[str, ...]]:
        """Return the combinations of design choices that the candidate likely makes, the likeliest first."""
        return list(combinations(self.chain, trial, self.expected))

    def epsilons(self) -> tuple[float, ...]:
        """Return the epsilons that a normalization may add to the variance."""
        return (1e-5, 1e-6)

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        """Return the names of the canonical weights that the candidate has, or `None` if it has all."""
        return None

    def evaluate(self, trial: Trial) -> TrialResult:
        """Adapt a trial to the candidate, and call the candidate with it."""
        with self._reported(trial.name):
            trial = self.adapted(trial)
            return TrialResult(trial, self.answer(trial))

    def adapted(self, trial: Trial) -> Trial:
        """Return the trial as the candidate can run it."""
        with quietly():
            present = self.weights_present(trial)
        return adapt(trial, self.convention, present)

    @contextlib.contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Report when a call begins and when it ends."""
        if self.on_call is None:
            yield
            return
        self.on_call(name)
        try:
            yield
        finally:
            self.on_call("")

    @property
    def said_causal(self) -> bool | None:
        """The value that the user gave to the candidate's causal flag, or `None`."""
        named = (value for name, value in self.given.items() if naming.argument(name) == "causal")
        flag = self.given.get(self.said.get("causal", ""), next(named, None))
        return flag if isinstance(flag, bool) else self.told_causal

    def causal_options(self) -> tuple[bool, ...]:
        """Return whether to compare with causal attention, in the order to try.

        Attention without a causal flag may always be causal, as in language models.
        """
        if self.chain != "attention":
            return (False,)
        if self.said_causal is not None:
            return (self.said_causal,)
        return (False,) if self.accepts.causal else (False, True)

    def smaller_sizes(self, sizes: Any) -> Iterator[Any]:
        """Yield small sizes in increasing order. They match any weights that the candidate keeps."""
        free = self.weights is None
        heads = (1, 2) if free and sizes.heads > 1 and "heads" not in self.fixed else (sizes.heads,)
        inner = (1, 2) if free and "size" not in self.fixed else (sizes.size,)
        lengths = range(1, min(max(sizes.rows, sizes.columns), LONGEST) + 1)
        options = itertools.product((1, 2), lengths, lengths, heads, inner)
        for batch, rows, columns, head_count, size in sorted(options, key=lambda each: (np.prod(each), each)):
            changes = {"batch": batch, "rows": rows, "columns": columns, "heads": head_count, "size": size}
            if free:
                width = head_count * size if self.accepts.wide else 2
                changes |= {"width": width, "features": width, "key_features": width}
            if np.prod([batch, rows, columns]) <= LARGEST:
                yield dataclasses.replace(sizes, **changes)

    def mask_shapes(self) -> list[str]:
        """Return the shapes to try for a mask, the likeliest first."""
        if self.convention.entry in SINGLES:
            return ["T,S", "B,T,S", "B,1,T,S"]
        if self.core and self.convention.entry == BATCH:
            return ["B,T,S", "T,S", "B,S"]
        usual = ["B,1,T,S", "B,T,S", "T,S", "B,S", "B,1,1,S", "B·H,T,S", "H·B,T,S", "B,H,T,S"]
        return [*usual, "T,S,B"] if self.convention.entry == TIME else usual

    def padding_shapes(self) -> list[str]:
        """Return the shapes to try for a padding mask, the likeliest first."""
        if self.convention.entry in SINGLES:
            return ["S", "B,S"]
        return ["B,S", "B,1,S"] if self.core and self.convention.entry == BATCH else ["B,S", "B,1,1,S", "B,1,S"]

    def projections(self, trial: Trial) -> list[tuple[str, Any]]:
        """Return the slots of attention's weights, each with the prefix that these have in a trial."""
        return []

    def weight_conventions(self) -> list[Any]:
        """Return all orders and forms to try for the weights."""
        return [None]

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        """Call the candidate with a trial. Return its result, and each input with a copy of the input."""
        raise NotImplementedError

    def code(self, trial: Trial) -> list[str]:
        """Return lines of Python that make the call. The last line sets `result`."""
        raise NotImplementedError

    def seeded_code(self, trial: Trial) -> list[str]:
        """Return the lines of `code` with weights drawn by seed, or no lines if the candidate cannot have them."""
        return []

    @property
    def _definition(self) -> Any:
        """The class or function that defines the candidate, or the layer whose call it is, or `None`."""
        owner: Any = getattr(self, "layer", self)
        return getattr(owner, "layer_class", None) or frameworks.function_of(getattr(owner, "function", None))

    @property
    def module(self) -> str:
        """The name of the module that defines the candidate, or the layer whose call it is, or ""."""
        return str(getattr(self._definition, "__module__", ""))

    @functools.cached_property
    def says_batch_first(self) -> bool:
        """True if the docstring of the class, or of its call, says that the batch is the first axis of inputs."""
        return documentation.says_batch_first(self._definition)

    def says(self, pattern: str) -> bool:
        """Return whether a line of the candidate's docstrings and comments, in lower case, has a regular expression."""
        return any(re.search(pattern, line.lower()) for line in documentation.said(self._definition))

    def documented_meanings(self, name: str) -> tuple[str, ...]:
        """Return what a mask may mean by the docstrings and comments of the candidate, or nothing."""
        return documentation.meanings_of_mask(self._definition, name) if name else ()

    def roles_beside_names(self, known: Container[str]) -> dict[str, str]:
        """Return roles of arguments whose names tell nothing: masks by docstrings or comments, and inputs by place."""
        optional = (n for n, each in self.call_parameters.items() if each.default is None or each.default is EMPTY)
        names = [n for n in optional if naming.argument(n) is None and n not in self.roles.values()]
        told = {role: n for role, n in documentation.masks(self._definition, names).items() if role not in self.roles}
        return told | roles_by_place(self.call_parameters, {**self.roles, **told}, known)

    @functools.cached_property
    def returns_logits(self) -> bool:
        """True if the code returns logits by the name that Whisper and its ports have for them."""
        thing = self._definition
        methods = [getattr(thing, name, None) for name in METHODS] if isinstance(thing, type) else [thing]
        return any(re.search(LOGITS, frameworks.source_of(each)) for each in methods)

    def answer(self, trial: Trial) -> Answer:
        """Return the candidate's answer to a trial. An error that the candidate raises is an answer too."""
        try:
            with self._reported(trial.name), quietly():
                result, inputs = self.call(trial)
                untouched = all(np.array_equal(frameworks.to_numpy(given), copy) for given, copy in inputs)
                return dataclasses.replace(self._read_result(result, trial), untouched=untouched)
        except CandidateError:
            raise
        except (Exception, SystemExit) as error:  # untrusted code may raise anything
            line, own = line_of_error(error, self.module), is_slip(error, self.module)
            return Answer(error=error_line(error), line=line, is_slip=own)

    def _read_result(self, result: Any, trial: Trial) -> Answer:
        """Return the output and the scores in what a call returned, with the axes of the reference."""
        first, scores = self._in_order(*frameworks.output_and_scores(result), trial)
        first = frameworks.numeric_array(first)
        dtype = str(first.dtype) if str(first.dtype) in ("float16", "float32", "bfloat16") else "float64"
        output = np.asarray(first, "float64")
        if self.returns_logits:
            scores = None
        elif scores is not None:
            scores = self._scores_of_heads(np.asarray(frameworks.numeric_array(scores), "float64"), trial)
        elif self._returns_scores_alone(first, trial) and (alone := self._scores_of_heads(output, trial)) is not None:
            return Answer(alone @ trial.value, alone, dtype=dtype, scores_alone=True)
        return Answer(self._restore_axes(output, trial.query.ndim), scores, dtype=dtype)

    def _returns_scores_alone(self, result: Any, trial: Trial) -> bool:
        """Return whether a function of query and key alone returns the scores, and no output."""
        if not self.core or not {"query", "key"} <= self.roles.keys() or "value" in self.roles:
            return False
        if trial.value.shape[-1] != trial.key.shape[-2]:  # else both may have the same shape
            self.scores_alone = _are_scores(result, trial)
        return self.scores_alone and _are_scores(result, trial)

    def _in_order(self, output: Any, scores: Any, trial: Trial) -> tuple[Any, Any]:
        """Return the output and the scores, which some code returns in the other order."""
        if trial.chain != "attention" or scores is None or not _are_scores(output, trial):
            return output, scores
        width = trial.value.shape[-1] if trial.core else _width(trial.weights)
        shape = tuple(getattr(scores, "shape", ()))
        if width != trial.key.shape[-2]:  # else both may have the same shape
            self.scores_first = len(shape) > 1 and shape[-1] == width
        return (scores, output) if self.scores_first else (output, scores)

    def _restore_axes(self, array: np.ndarray, axes: int) -> np.ndarray:
        """Restore the axes that the input layout leaves out: the batch axis, and the heads axis of a core."""
        entry = self.convention.entry
        if array.ndim == axes and entry in SWAPPED:
            array = np.swapaxes(array, *SWAPPED[entry])
        elif self.core and entry not in (HEADS, ONE_KEY, MIDDLE_SINGLE) and array.ndim == axes - 1 - (entry == SINGLE):
            array = array[..., None, :, :]
        if entry == MIDDLE_SINGLE and array.ndim == axes - 1:
            array = np.swapaxes(array, 0, 1)
        return array[None] if entry in SINGLES and array.ndim == axes - 1 else array

    def _scores_of_heads(self, scores: np.ndarray, trial: Trial) -> np.ndarray | None:
        """Return the scores as (B, H, T, S), or `None` if they are not the scores of every head."""
        if trial.chain != "attention":
            return None  # a block returns the scores of several attentions, in an unknown order
        heads = trial.heads
        single = self.convention.entry in SINGLES
        if heads == 1 and scores.ndim == 3 - single:
            scores = scores[..., None, :, :]
        if single and scores.ndim == 3:
            scores = scores[None]
        batch, rows, columns = len(trial.query), trial.query.shape[-2], trial.key.shape[-2]
        usual, last = (batch, heads, rows, columns), (batch, rows, columns, heads)
        if usual != last:  # else both have the same shape
            self.heads_last = scores.shape == last
        if self.heads_last and scores.shape == last:
            scores = np.moveaxis(scores, -1, 1)
        likely = sorted(scores.shape) == sorted(usual)
        likely |= self.core and scores.ndim == 4 and scores.shape not in (trial.key.shape, trial.value.shape)
        averaged = scores.shape == (batch, rows, columns)
        return np.asarray(scores, "float64") if likely or averaged else None  # else a cache, or something else

    def tensor(self, array: Any, trial: Trial) -> Any:
        """Convert an array to a tensor of the candidate's framework."""
        return frameworks.to_tensor(array, self.framework, self.dtype_of(trial))

    def dtype_of(self, trial: Trial) -> str:
        """Return the dtype to compute in, which is float16 for a float16 trial, else the convention's dtype."""
        return trial.dtype if trial.dtype == "float16" else self.convention.dtype


def _are_scores(array: Any, trial: Trial) -> bool:
    """Return whether the last axes of an array are those of scores, (T, S)."""
    return tuple(getattr(array, "shape", ()))[-2:] == (trial.query.shape[-2], trial.key.shape[-2])


def _width(weights: Mapping[str, np.ndarray]) -> int:
    """Return the number of features of the output, or 0 if the weights do not tell."""
    if "attention_output/kernel" in weights:
        return weights["attention_output/kernel"].shape[-1]
    return int(np.prod(weights["value/kernel"].shape[::2])) if "value/kernel" in weights else 0


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep what the candidate prints away from standard output, and silence its warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield
