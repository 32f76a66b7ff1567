"""What an exercise is: its checks, each with its points, and the wrong answers that are known by name.

An exercise has two files. `assignments/aN_…/NAME.py` is the master that is read by learners
(`kmha.course.exercises.master`);
`assignments/aN_…/checks/NAME.py` holds `EXERCISE`, made of what stands here:

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
# What is computed in the sandbox: a function of the answer's module and of the inputs.
Ask = Callable[[Any, Inputs], Any]
# What is wrong with a result, in a sentence, or `None`: a function of the inputs, the result, and the solution's.
Judge = Callable[[Inputs, Any, Any], str | None]

LAYERS = (
    "signature",
    "shape",
    "invariants",
    "values",
    "gradient",
    "edge",
    "unchanged",
    "unknown batch",
    "saving",
)


_SMALL: contextvars.ContextVar[tuple[int | None] | None] = contextvars.ContextVar("small", default=None)


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that is checked, and what it is worth.

    Attributes:
        layer: one of `LAYERS`; "signature", "shape" and "unchanged" need no `judge`.
        says: what is checked, as a learner reads it: "a padded position gets no weight".
        points: what it is worth.
        draw: makes the inputs, anew in every check: by argument name, arrays with pairwise different sizes.
        ask: what the sandbox computes; by default the exercise's function is called with the inputs. It is sent there
            as text: what it imports it imports inside, and it uses nothing of its module. `np` is NumPy,
            `worker_api` is `kmha.sandbox.worker_api`.
        judge: what is wrong with a result; by default it must equal the solution's, element by element.
        times: how many draws.
        tolerance: relative to the largest expected element.
        visible: whether a learner of a released course (`kmha course release`) has this check too.
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

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise ValueError(f"layer must be one of {', '.join(LAYERS)}. Received: {self.layer!r}.")
        if self.points < 1:
            raise ValueError(f"points must be a positive integer. Received: {self.points!r}, for {self.says!r}.")
        if self.draw is None and self.layer != "signature":
            raise ValueError(f"the check {self.says!r} needs a `draw`, which makes its inputs.")


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong:
    """A wrong answer that people give, and what is said to them.

    Attributes:
        id: such as "key-is-enc-output"; where it is a mistake of `kmha.verify`'s bank, that one's id.
        says: one or two sentences to the learner: what is wrong, not how the right line looks.
        edits: pieces of the solution's text, each of which stands there once, and what stands in their place; or the
            whole text of the wrong answer.
        source: where people meet it: a seed, a thread with its number, a section of a paper.
    """

    id: str
    says: str
    edits: Mapping[str, str] | str
    source: str = ""

    def text(self, solution: str) -> str:
        """The wrong answer's whole text.

        Raises:
            ValueError: a piece does not stand in the solution, or more than once.
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
    """What the checks' file of an exercise defines as `EXERCISE`.

    Attributes:
        title: as learners see it.
        question: the question of a forum or thread that it answers, in our words, and where it was asked.
        difficulty: 1 to 3.
        minutes: that it is expected to take.
        checks: in the order in which they are made.
        wrong: wrong answers, in the order in which they are compared with a learner's.
        uses: what an answer may import, besides the standard library: "numpy", "keras", "tensorflow", "matplotlib".
        needs: exercises of the same assignment whose files an answer imports, as the learner wrote them.
        forbids: names that an answer may not use, such as "MultiHeadAttention" where it is to be written.
        bank: for an exercise that is attention itself: makes of the inputs a trial of `kmha.verify.chains.attention`,
            so that every mistake of that bank is compared too.
        bank_result: what the exercise returns, made of the chain's results.
        serve: computes what the sandbox may call but not read (`kmha.sandbox.worker_api.remote`): called with a name
            and with the arguments of the call.
        seconds: that all checks may take in the sandbox, the import of what it uses aside.
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
    """Pairwise different sizes, so that no axis can pass for another; equal and small ones for a smallest case."""
    if (small := _SMALL.get()) is not None:
        return _small_sizes(rng, count, least, *small)
    most = least + 2 * count + 1 if most is None else most
    return [int(size) for size in rng.permutation(np.arange(least, most + 1))[:count]]


@contextlib.contextmanager
def small(largest: int | None) -> Iterator[None]:
    """Within, `sizes` are from 1 to `largest`, or as small as they can be with all of them different."""
    token = _SMALL.set((largest,))
    try:
        yield
    finally:
        _SMALL.reset(token)


def _small_sizes(rng: np.random.Generator, count: int, least: int, largest: int | None) -> list[int]:
    first = min(least, 2)
    if largest is None:
        return [int(size) for size in first + rng.permutation(count)]
    # Where it must be three or more, an exercise needs that many; where two, that is for the sizes to tell axes apart.
    return [max(int(size), min(least, largest) if least > 2 else 1) for size in rng.integers(1, largest + 1, count)]


def standard(
    draw: Draw, *, signature: int = 0, shape: int = 0, values: int = 0, unchanged: int = 0, **more: Any
) -> tuple[Check, ...]:
    """The checks that most functions get, each if it has points; `more` are attributes of all of them."""
    found = (
        Check("signature", "it has the arguments of the starter", signature) if signature else None,
        Check("shape", "the result has the right structure, shapes and dtypes", shape, draw, **more) if shape else None,
        Check("values", "every element of the result is right", values, draw, **more) if values else None,
        Check("unchanged", "the inputs are as they were", unchanged, draw, **more) if unchanged else None,
    )
    return tuple(check for check in found if check is not None)
