"""What is diagnosed: a function of arrays, or a layer. Here is what both have in common.

A *convention* (`kmha.verify.diagnosing.conventions`) is what cannot be read off a signature: the shape in which a mask
is wanted, the order of weights that have no names, the dtype that a helper casts to.
"""

import contextlib
import dataclasses
import inspect
import itertools
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.conventions import BATCH, HEADS, LISTS, MIDDLE, SINGLE, TIME, Convention, adapt
from kmha.verify.diagnosing.matching import Answer, TrialResult
from kmha.verify.diagnosing.trials import Accepts, AttentionTrials, Sizes
from kmha.verify.wording import error_lines

WITHOUT_SCORES = ("self-attention", "mask", "causal")  # are tried so too: a layer may have a quicker way then
SWAPPED = {TIME: (0, 1), MIDDLE: (1, 2)}  # axes of the output
LARGEST, LONGEST = 16, 4  # of a smallest case: B·T·S, and each of T and S


class Candidate:
    """A candidate, ready to be asked.

    Attributes:
        name: as it is shown.
        source: MODULE:NAME, if it is known.
        chain: the chain that it is to be: "attention", or a block's.
        core: whether it is scaled dot-product attention alone, without weights.
        accepts: what it can be called with.
        framework: of the arrays that it takes.
        weights: canonical ones that it holds and keeps, or `None` where they are set for each trial.
        meaning: what True (or 1) in a mask means: see `conventions.MEANINGS`.
        call_parameters: the arguments of its call by name.
        roles: the names of its arguments, by the part that they play.
        weights_error: why its weights could not be read.
        convention: what is tried, or was found.
    """

    name = ""
    source = ""
    chain = "attention"
    core = False
    accepts = Accepts()
    framework = "numpy"
    weights: Mapping[str, np.ndarray] | None = None
    meaning = "attends"
    call_parameters: Mapping[str, inspect.Parameter] = MappingProxyType({})
    roles: Mapping[str, str] = MappingProxyType({})
    weights_error: ValueError | None = None
    convention = Convention()

    def sizes(self, rng: np.random.Generator) -> Sizes:
        """Sizes that the candidate allows."""
        raise NotImplementedError

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        """The calls to try."""
        return list(self.iter_trials(seed, sizes))

    def iter_trials(self, seed: int, sizes: Any) -> Iterator[Trial]:
        """The same, one after the other: the first are the plainest, and the last take time to draw."""
        if self.chain != "attention":
            yield from self.draw(seed, sizes)
            return
        for trial in AttentionTrials(
            np.random.default_rng(seed), self.accepts, sizes, self.weights, self.core
        ).trials():
            yield trial
            if "scores" in self.roles and trial.name in WITHOUT_SCORES:
                yield dataclasses.replace(trial, name=f"{trial.name}, without scores", more={"scores": False})

    def input_layouts(self) -> list[dict[str, Any]]:
        """The ways to hand over the inputs, as changes of the convention; the next is worth a try where one fails."""
        return [{"entry": BATCH}]

    def use_layout(self, **changes: Any) -> None:
        """Takes one of them."""
        self.convention = dataclasses.replace(self.convention, **changes)
        entry = self.convention.entry
        self.framework = self.convention.framework or self.framework
        if self.core:
            self.accepts = dataclasses.replace(self.accepts, heads=entry in (HEADS, MIDDLE))
        if entry in LISTS:
            self.accepts = dataclasses.replace(self.accepts, cross=True, value="value" in LISTS[entry])

    def use_convention(self, convention: Convention) -> None:
        """Is called so from now on."""
        self.convention = convention

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        """The canonical weights that the candidate has, or `None` for all."""
        return None

    def evaluate(self, trial: Trial) -> TrialResult:
        """The trial as the candidate can be asked it, and its answer."""
        with quietly():
            present = self.weights_present(trial)
        trial = adapt(trial, self.convention, present)
        return TrialResult(trial, self.answer(trial))

    @property
    def may_be_causal(self) -> bool:
        """Whether it may be causal unasked: self-attention that has no flag for it, as in language models."""
        return not (self.accepts.cross or self.accepts.causal) and self.chain == "attention"

    def smaller_sizes(self, sizes: Any) -> Iterator[Any]:
        """Sizes from one of everything on; what the candidate holds stays as it is."""
        free = self.weights is None
        heads = (1, 2) if free and sizes.heads > 1 else (sizes.heads,)
        inner = (1, 2) if free else (sizes.size,)
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
        """The shapes of a mask that are worth a try, the likeliest first."""
        if self.convention.entry == SINGLE:
            return ["T,S", "B,T,S", "B,1,T,S"]
        return ["B,T,S", "T,S"] if self.core and self.convention.entry == BATCH else ["B,1,T,S", "B,T,S", "T,S"]

    def padding_shapes(self) -> list[str]:
        """Those of a mask of the keys."""
        if self.convention.entry == SINGLE:
            return ["S", "B,S"]
        return ["B,S", "B,1,S"] if self.core and self.convention.entry == BATCH else ["B,S", "B,1,1,S", "B,1,S"]

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
            with quietly():
                result, inputs = self.call(trial)
                output, scores = frameworks.output_and_scores(result)
                untouched = all(np.array_equal(frameworks.to_numpy(given), copy) for given, copy in inputs)
                output = frameworks.numeric_array(output)
                dtype = str(output.dtype) if str(output.dtype) in ("float16", "float32", "bfloat16") else "float64"
                output = self._whole(np.asarray(output, "float64"), trial.query.ndim)
                found = (
                    None
                    if scores is None
                    else self._scores(np.asarray(frameworks.numeric_array(scores), "float64"), trial)
                )
        except CandidateError:
            raise
        except (Exception, SystemExit) as error:  # a stranger's code may raise anything
            return Answer(error=error_line(error))
        return Answer(output, found, untouched, dtype)

    def _whole(self, array: np.ndarray, axes: int) -> np.ndarray:
        """With the axes that the entry leaves out: one item, and in a core one head."""
        entry = self.convention.entry
        if array.ndim == axes and entry in SWAPPED:
            array = np.swapaxes(array, *SWAPPED[entry])
        elif self.core and entry != HEADS and array.ndim == axes - 1 - (entry == SINGLE):
            array = array[..., None, :, :]
        return array[None] if entry == SINGLE and array.ndim == axes - 1 else array

    def _scores(self, scores: np.ndarray, trial: Trial) -> np.ndarray | None:
        """As (B, H, T, S), where they are of every head."""
        if trial.chain != "attention":
            return None  # a block's are of its attentions, in an order of its own
        heads = trial.query.shape[1] if trial.core else trial.weights["query/kernel"].shape[0]
        single = self.convention.entry == SINGLE
        if heads == 1 and scores.ndim == 3 - single:
            scores = scores[..., None, :, :]
        if single and scores.ndim == 3:
            scores = scores[None]
        return np.asarray(scores, "float64") if scores.ndim == 4 else None

    def tensor(self, array: Any, trial: Trial) -> Any:
        """As the candidate's framework has it."""
        return frameworks.to_tensor(array, self.framework, self.dtype_of(trial))

    def dtype_of(self, trial: Trial) -> str:
        """What it computes in: a trial in float16 says so, any other leaves it to the candidate."""
        return trial.dtype if trial.dtype == "float16" else self.convention.dtype


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """What a stranger's code prints must not get into what we print, nor its warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield


def error_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {(error_lines(error) or [''])[0]}"
