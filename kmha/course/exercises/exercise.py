"""An exercise: its checks, each with its points, and its known wrong answers.

An exercise has two files. `assignments/aN_…/NAME.py` is the master (`kmha.course.exercises.master`), and
`assignments/aN_…/checks/NAME.py` defines `EXERCISE`:

>>> def draw(rng):
...     positions, features = sizes(rng, 2)
...     return {"array": rng.normal(size=(positions, features))}
>>> exercise = Exercise(
...     title="Rows that sum to one",
...     question="Which axis does a softmax go over?",
...     difficulty=1,
...     minutes=5,
...     checks=standard(draw, signature=1, shape=1, values=5, unchanged=1),
...     wrong=(Wrong("over-rows", "The softmax goes over the queries: columns sum to one.", {"axis=-1": "axis=0"}),),
... )
>>> exercise.points
8
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Inputs = dict[str, Any]
Draw = Callable[[np.random.Generator], Inputs]
# Function that the sandbox calls with the answer's module and the inputs.
Ask = Callable[[Any, Inputs], Any]
# Function of the inputs, the result and the solution's result. It returns a sentence on what is wrong, or `None`.
Judge = Callable[[Inputs, Any, Any], str | None]

LIBRARIES = {"numpy": "NumPy", "keras": "Keras", "tensorflow": "TensorFlow", "matplotlib": "matplotlib"}
LAYERS = (
    *("signature", "shape", "invariants", "values", "gradient", "edge", "unchanged", "unknown batch", "saving"),
    "named",
)
EXACT = 3e-7  # tolerance for a few steps: it finds 1e-6 in a sum, and allows 1e-8 there, or the root of O in float32
_SMALL: contextvars.ContextVar[tuple[int | None] | None] = contextvars.ContextVar("small", default=None)


@dataclasses.dataclass(frozen=True)
class Check:
    """A check, and its points.

    Attributes:
        layer: One of `LAYERS`. The layers "signature", "shape" and "unchanged" ignore `judge`. These, "named", "edge"
            and "invariants" give points only if a check of another layer passes. In an exercise without other layers,
            this does not hold for "invariants", and if there are none either, it does not hold for "edge".
        says: What is checked, for the learner: "a padded position gets no weight".
        points: Points of the check.
        draw: Function of a random generator that returns new inputs for every call: arguments, keyed by name, with
            arrays whose sizes are pairwise different.
        ask: Function that the sandbox calls with the answer's module and the inputs. kmha sends its source there, so it
            must use nothing outside its own body, except `np`, which is NumPy, and `worker_api`, which is
            `kmha.sandbox.worker_api`. Default: call the exercise's function with the inputs.
        judge: Function of the inputs, the result and the solution's result that returns a sentence on what is wrong, or
            `None`. Default: the result must equal the solution's, element by element.
        times: Number of times that inputs are drawn.
        tolerance: Tolerance, relative to the largest expected element.
        visible: Whether a released course (`kmha course release`) contains this check.
        apart: Name of an input that is a list. For each element, the call gets a process of its own, where the input is
            this element. The result is the list of their results. Without this, an answer could compare the elements
            with each other, and take what most of them agree on for right.
        ones: Whether a check of the layer "shape" makes one more call, for which `sizes` draws only 1. Without it,
            nobody sees that a result loses axes of size 1 (`np.squeeze`). False if `draw` needs larger sizes.
    """

    layer: str
    says: str
    points: int
    draw: Draw | None = None
    ask: Ask | None = None
    judge: Judge | None = None
    times: int = 3
    tolerance: float = 1e-5
    visible: bool = True
    apart: str = ""
    ones: bool = True

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise ValueError(f"layer must be one of {', '.join(LAYERS)}. Received: {self.layer!r}.")
        if self.points < 1:
            raise ValueError(f"points must be a positive integer. Received: {self.points!r} for {self.says!r}.")
        if self.draw is None and self.layer != "signature":
            raise ValueError(f"the check {self.says!r} needs a `draw` function for its inputs.")


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong:
    """A wrong answer that people give, and the message for learners who give it.

    Attributes:
        id: Id, such as "key-is-enc-output". A mistake that is also in the bank of `kmha.verify` has the same id there.
        says: One or two sentences that tell the learner what is wrong, but do not give the correct line.
        edits: Replacements in the solution's text, keyed by the piece to replace, which must occur exactly once.
            Alternatively, the whole text of the wrong answer.
        source: Where the mistake is known from: a seed, a thread with its number, a section of a paper.
    """

    id: str
    says: str
    edits: Mapping[str, str] | str
    source: str = ""

    def text(self, solution: str) -> str:
        """Return the whole text of the wrong answer.

        Raises:
            ValueError: A piece does not occur in the solution exactly once.
        """
        if isinstance(self.edits, str):
            return self.edits
        text = solution
        for old, new in self.edits.items():
            if text.count(old) != 1:
                raise ValueError(f"{self.id}: expected {old!r} once in the solution. Found it {text.count(old)} times.")
            text = text.replace(old, new)
        return text


@dataclasses.dataclass(frozen=True, eq=False)
class Exercise:
    """An exercise, as its checks file defines it.

    Attributes:
        title: Title of the exercise.
        question: Question from a forum or thread that the exercise answers, in our words, and where it was asked.
        difficulty: 1 (easy), 2 or 3 (hard).
        minutes: Expected number of minutes to solve it.
        checks: The checks, in order.
        wrong: Known wrong answers. A learner's answer is compared with them in this order.
        uses: Libraries that an answer may import: "numpy", "keras", "tensorflow", "matplotlib". The standard library is
            always allowed.
        needs: Names of exercises of the same assignment. An answer imports the learner's files for these exercises.
        forbids: Names of classes, methods and functions that do not exist for an answer, such as "MultiHeadAttention"
            in an exercise that implements it.
        bank: For an exercise that implements attention itself, a function that turns the exercise's inputs into a
            trial of `kmha.verify.chains.attention`. Every mistake of the bank is then compared too.
        bank_result: Function that converts the results of that chain to what the exercise returns.
        serve: Function that computes what the sandbox may call but not read (`kmha.sandbox.worker_api.remote`). It is
            called with the name and the arguments of the request.
        seconds: Time limit of all checks together in the sandbox, not counting imports.
    """

    title: str
    question: str
    difficulty: int
    minutes: int
    checks: tuple[Check, ...]
    wrong: tuple[Wrong, ...]
    uses: tuple[str, ...] = ("numpy",)
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    bank: Callable[[Inputs], Any] | None = None
    bank_result: Callable[[Mapping[str, Any]], Any] = lambda state: state["output"]
    serve: Callable[..., Any] | None = None
    seconds: float = 10.0

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)


def sizes(rng: np.random.Generator, count: int, least: int = 2, most: int | None = None) -> list[int]:
    """Draw pairwise different random sizes, so that no axis can pass for another. Inside `small`, they are small."""
    if (small := _SMALL.get()) is None:
        most = least + 2 * count + 1 if most is None else most
        return [int(size) for size in rng.permutation(np.arange(least, most + 1))[:count]]
    (largest,) = small
    if largest is None:
        return [int(size) for size in min(least, 2) + rng.permutation(count)]
    # An exercise that sets `least` to 3 or more needs that many. The default of 2 only helps to tell axes apart.
    return [max(int(size), min(least, largest) if least > 2 else 1) for size in rng.integers(1, largest + 1, count)]


@contextlib.contextmanager
def small(largest: int | None) -> Iterator[None]:
    """Make `sizes` draw from 1 to `largest`, or use the smallest different sizes if `largest` is `None`."""
    token = _SMALL.set((largest,))
    try:
        yield
    finally:
        _SMALL.reset(token)


def standard(
    draw: Draw, *, signature: int = 0, shape: int = 0, values: int = 0, unchanged: int = 0, **more: Any
) -> tuple[Check, ...]:
    """Return the standard checks that have points. `more` are further attributes of these checks."""
    found = (
        Check("signature", "it has the arguments of the starter", signature) if signature else None,
        Check("shape", "the result has the right structure, shapes and dtypes", shape, draw, **more) if shape else None,
        Check("values", "every element of the result is right", values, draw, **more) if values else None,
        Check("unchanged", "the inputs are unchanged", unchanged, draw, **more) if unchanged else None,
    )
    return tuple(check for check in found if check is not None)
