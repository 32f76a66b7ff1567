"""Name the mistake of a key/value cache."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError, State, Trial, run
from kmha.verify.chains.caches import EMPTY, NAME, Entry, items_of
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.caches import cache_report
from kmha.verify.diagnosing.caches.cache_candidate import SEVERAL, CacheCandidate, influences
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.conventions import Convention
from kmha.verify.diagnosing.matching import Match, TrialResult
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.unknown_mistakes import Clue
from kmha.verify.diagnosing.verdicts import KNOWN, RAISES, RIGHT, UNJUDGED, UNKNOWN
from kmha.verify.mistakes import Mistake

Influences = frozenset[tuple[int, int, int]]  # (item, request, position) of tokens
DEEPEST = 3  # number of layers to try
PATTERN_TRIALS = ("a shorter request after another", "a longer request after another")


@dataclasses.dataclass(frozen=True, eq=False)
class CacheFindings:
    """The evidence about a cache.

    Attributes:
        candidate: Decoding under diagnosis.
        results: All trials with the candidate's answers, without `several`.
        several: The trial with several positions in each call, if it ran.
        matches: Mistakes that explain the answers. Empty if the cache is right or its mistake is unknown.
        nearest: Best explanation that does not explain all answers.
        by_pattern: Whether the matches explain only what influences each position, and not the numbers.
        sentences: Facts about an unknown mistake.
    """

    candidate: CacheCandidate
    results: tuple[TrialResult, ...]
    several: TrialResult | None
    matches: tuple[Match, ...] = ()
    nearest: Match | None = None
    by_pattern: bool = False
    sentences: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for the report beside the verdict."""
        if self.right and self.several is not None and self.several.wrong:
            return ("Its cache is wrong if a later call brings several positions at once: not taken as intended.",)
        return self.sentences if self.by_pattern else ()

    @property
    def answered(self) -> list[TrialResult]:
        return [result for result in self.results if not result.answer.error]

    @property
    def verdict(self) -> str:
        if not self.answered:
            return RAISES
        if self.right:
            return RIGHT
        # A cache that nothing is read from may be one that the caller has to prepare otherwise.
        withheld = self.matches and self.matches[0].ids == ("cache-withheld",)
        if self.matches and not (withheld and self.candidate.decoding.guessed):
            return KNOWN
        return UNJUDGED if self.candidate.decoding.guessed else UNKNOWN

    def fields(self, name: str, seed: int) -> dict[str, Any]:
        """Return the attributes of a `Diagnosis`."""
        verdict = self.verdict
        return {
            "name": name,
            "verdict": verdict,
            "matches": (matching.judge(self.answered),) if verdict == RIGHT else self.matches,
            "results": self.results,
            "sizes": self.candidate.sizes(np.random.default_rng(seed)),
            "convention": Convention(),
            "candidate": self.candidate,
            "seed": seed,
            "nearest": self.nearest,
            "clue": Clue("", self.sentences) if verdict == UNKNOWN else None,
            "advice": (cache_report.ADVICE,) if verdict in (UNJUDGED, UNKNOWN) else (),
            "further": self.remarks,
        }

    @property
    def right(self) -> bool:
        return not any(result.wrong for result in self.answered)


def examine(
    decoding: Decoding,
    name: str,
    seed: int,
    report: Callable[[str], None],
    on_call: Callable[[str], None] | None = None,
) -> CacheFindings:
    """Compare decoding with and without a cache, and look for the mistakes that explain the difference."""
    candidate = CacheCandidate(decoding, name)
    candidate.on_call = on_call
    sizes = candidate.sizes(np.random.default_rng(seed))
    report("decoding with and without the cache")
    results = [candidate.evaluate(trial) for trial in candidate.draw(seed, sizes)]
    several = next((r for r in results if r.trial.name == SEVERAL and not r.answer.error), None)
    found = CacheFindings(candidate, tuple(r for r in results if r.trial.name != SEVERAL), several)
    if found.right or not found.answered:
        return found
    report("comparing with every known mistake of a cache")
    fitting, nearest = matching.ranked(found.answered, NAME)
    if not fitting and decoding.weights is not None:  # calls of a candidate would take too long
        report("comparing with every pair of mistakes of a cache")
        fitting = find_pairs(found.answered, NAME)
    if fitting:
        return dataclasses.replace(found, matches=tuple(fitting), nearest=nearest)
    report("looking for what influences each position")
    return dataclasses.replace(found, nearest=nearest, **_by_pattern(found))


def _by_pattern(found: CacheFindings) -> dict[str, Any]:
    """Name mistakes with the same influences as the candidate, if these differ from the right ones."""
    decoding, item = found.candidate.decoding, 1 if found.candidate.decoding.batches else 0
    fitting: list[Mistake] | None = None
    sentences: list[str] = []
    for result in found.answered:
        if result.trial.name not in PATTERN_TRIALS:
            continue
        seen = influences(decoding, result.trial, item)
        right = expected_influences(result.trial, [], item)
        if seen != right and not sentences:
            sentences = _described(seen, right or [], item)
        mine = [one for one in matching.mistakes_of(NAME) if _fits(result.trial, one, item, seen)]
        fitting = mine if fitting is None else [one for one in fitting if one in mine]
    if not sentences:
        return {"sentences": ("each position depends on the right positions, so the mistake is in the numbers",)}
    matches = tuple(Match((one,), float("nan"), len(found.answered)) for one in fitting or [])
    return {"matches": matches, "by_pattern": bool(matches), "sentences": tuple(sentences)}


def _fits(trial: Trial, mistake: Mistake, item: int, seen: list[Influences]) -> bool:
    """Return whether a mistake in each of a few layers gives these influences."""
    return any(expected_influences(trial, [mistake], item, depth) == seen for depth in range(1, DEEPEST + 1))


def expected_influences(trial: Trial, mistakes: list[Mistake], item: int, depth: int = 1) -> list[Influences] | None:
    """Return for each decoded position of an item the tokens that its output depends on, or `None` if impossible.

    A position depends on itself and on every entry that it attends to. In a further layer it depends on everything
    that these entries depend on.
    """
    changes = [{**one.changes, "decoded": lambda state, right: _keep(state)} for one in mistakes]
    try:
        state = run(trial, changes or [{"decoded": lambda state, right: _keep(state)}])
    except ImpossibleError:
        return None
    batch = range(len(trial.query))
    order = [entry for own in state["appended"] for entry in own]
    found = {(other, entry): frozenset([(other, *entry)]) for other in batch for entry in order}
    for _ in range(depth):
        found = {(other, entry): _reached(state, found, other, entry) for other in batch for entry in order}
    return [found[item, entry] for entry in order]


def _reached(state: State, below: dict[tuple[int, Entry], Influences], item: int, entry: Entry) -> Influences:
    number = next(number for number, own in enumerate(state["appended"]) if entry in own)
    reached = {(item, *entry)}
    for seen in state["visible"][number][state["appended"][number].index(entry)]:
        if seen != EMPTY:
            items = items_of(state, number, seen)
            reached |= below[item if items is None else int(items[item]), seen]
    return frozenset(reached)


def _keep(state: State) -> Any:
    state["output"] = None
    return None


def _described(seen: list[Influences], right: list[Influences], item: int) -> list[str]:
    """Describe which influences are missing and which are too many, at the first position that differs."""
    first = next(index for index, (mine, theirs) in enumerate(zip(seen, right, strict=True)) if mine != theirs)
    missing, more = sorted(right[first] - seen[first]), sorted(seen[first] - right[first])
    found = []
    if missing:
        places = ", ".join(str(position) for _, _, position in missing)
        found.append(f"decoded output {first} does not depend on its request's positions {places}, as it must")
    if any(other != item for other, _, _ in more):
        found.append(f"decoded output {first} of item {item} depends on other items of the batch")
    if any(request != sorted(right[first])[0][1] for _, request, _ in more):
        found.append(f"decoded output {first} depends on another request")
    return found
