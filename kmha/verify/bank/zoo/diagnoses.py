"""The part of the measurement that runs in a worker process: diagnose entries and mutants, one after another.

A task is a dictionary of plain data, and so is every result.

| task | results |
| --- | --- |
| {"do": "list", "entry": 3} | the ids of the entry's mutants |
| {"do": "right", "entry": 3, "seed": 0} | one result |
| {"do": "mutants", "entry": 3, "ids": [...], "seed": 0} | one result for each mutant, {"kept": False} if it is none |
"""

import contextlib
import dataclasses
import importlib
import signal
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kmha.verify.bank.zoo import mutants, replay
from kmha.verify.bank.zoo.entry import Entry

RIGHT, ACCUSED, UNJUDGED, REFUSED = "right", "accused", "unjudged", "refused"
NAMED, WRONG_ID, UNKNOWN, SLOW, CRASHED = "named", "wrong id", "unknown", "too slow", "crashed"


class TooSlowError(BaseException):
    """A diagnosis took longer than its limit. Not an `Exception`, because the diagnosis catches those."""


def entries(table: str) -> tuple[Entry, ...]:
    """Import the entries at MODULE:NAME."""
    module, _, name = table.partition(":")
    return tuple(getattr(importlib.import_module(module), name))


def run(table: str, task: Mapping[str, Any], limit: float) -> Iterator[dict[str, Any]]:
    """Run a task, and yield its results. Before each diagnosis, yield {"begins": its name}."""
    entry = entries(table)[task["entry"]]
    warnings.simplefilter("ignore")
    with contextlib.suppress(*replay.ERRORS):  # a time limit would leave a package half imported
        entry.load()
    if task["do"] == "list":
        yield {"ids": [mutant.id for mutant in mutants.mutants(entry)]}
    elif task["do"] == "right":
        yield {"begins": ""}
        yield _diagnosed(lambda: entry.made(), entry, task["seed"], limit)
    else:
        yield from _mutants(entry, task, limit)


def _mutants(entry: Entry, task: Mapping[str, Any], limit: float) -> Iterator[dict[str, Any]]:
    yield {"begins": ""}
    with _limited(limit):
        calls = replay.recorded(entry, task["seed"])
        replay.seed_everything(0)  # some layers hide their weights, which are drawn alike
        original = replay.Replay(entry.made())
        expected = [original.answer(call) for call in calls]
    if all(each is None for each in expected):  # such calls cannot be repeated, so what the diagnosis saw is compared
        calls, expected = [], _seen(entry, task["seed"], limit)
    for mutant in mutants.mutants(entry):
        if mutant.id not in task["ids"]:
            continue
        yield {"begins": mutant.id}
        about = {"id": mutant.id, "operator": mutant.operator, "right_ids": list(mutant.ids), "line": mutant.line}
        yield {**about, **_diagnosed_mutant(mutant, task["seed"], limit, calls, expected)}


def _diagnosed_mutant(
    mutant: mutants.Mutant, seed: int, limit: float, calls: list[replay.Call], expected: list[Any]
) -> dict[str, Any]:
    """Return the diagnosis of a mutant, or {"kept": False} if it does not run or computes the same."""
    try:
        replay.seed_everything(0)
        with _limited(limit), mutant.made() as made:
            found = replay.compared(made, calls, expected) if calls else replay.OTHER
    except (*replay.ERRORS, TooSlowError) as error:
        return {"kept": False, "reason": type(error).__name__}
    if found != replay.OTHER:
        return {"kept": False, "reason": found}
    with contextlib.ExitStack() as stack:
        answers: list[Any] = []
        entry = mutant.entry
        if entry.mask and "mask-inverted" in mutant.ids:  # otherwise, it is right, if True means the opposite
            entry = dataclasses.replace(entry, options={"mask": entry.mask, **entry.options})
        result = _diagnosed(lambda: stack.enter_context(mutant.made()), entry, seed, limit, answers)
    if not calls and answers and _same(answers, expected):
        return {"kept": False, "reason": replay.SAME}
    return {"kept": True, **judged(result, mutant.ids)}


def judged(result: dict[str, Any], right_ids: Sequence[str]) -> dict[str, Any]:
    """Return a mutant's result with what its outcome means: whether its mistake is named."""
    ids = result["ids"]
    named = bool(ids) and set(ids) <= {*right_ids}
    if result["outcome"] == ACCUSED:
        return result | {"outcome": UNKNOWN if not ids else NAMED if named else WRONG_ID}
    if result["outcome"] == RIGHT and named:  # a harmless mistake, which a remark names
        return result | {"outcome": NAMED}
    return result


def _seen(entry: Entry, seed: int, limit: float) -> list[Any]:
    """Return what the diagnosis of an entry saw: the answers to its calls, with their names."""
    answers: list[Any] = []
    _diagnosed(lambda: entry.made(), entry, seed, limit, answers)
    return answers


def _same(answers: list[Any], expected: list[Any]) -> bool:
    pairs = list(zip(answers, expected, strict=False))
    return len(answers) == len(expected) and all(
        one[0] == other[0] and replay.same(one[1], other[1]) for one, other in pairs
    )


def _diagnosed(make: Any, entry: Entry, seed: int, limit: float, answers: list[Any] | None = None) -> dict[str, Any]:
    """Diagnose what `make` makes as a user would, and return the outcome as plain data.

    The arrays that the candidate answered are appended to `answers`, each with the name of its call.
    """
    from kmha.verify import diagnose

    began = time.monotonic()
    result: dict[str, Any] = {"ids": [], "says": ""}
    try:
        with _limited(limit):
            replay.seed_everything(0)
            found = diagnose(make(), seed=seed, **entry.options)
        result |= {"outcome": _outcome(found), "ids": list(found.ids), "rivals": _rivals(found)}
        result["says"] = next(iter(found.errors.values()), "")[:200]
        for each in found.results if answers is not None else ():
            arrays = [each.answer.output] if each.answer.scores is None else [each.answer.output, each.answer.scores]
            answers.append((each.trial.name, [array for array in arrays if array is not None]))  # type: ignore[union-attr]
    except TooSlowError:
        result["outcome"] = SLOW
    except replay.ERRORS as error:
        result |= {"outcome": REFUSED, "says": f"{type(error).__name__}: {error}"[:300]}
    return result | {"seconds": round(time.monotonic() - began, 2)}


def _outcome(found: Any) -> str:
    if found.accused:
        return ACCUSED
    return {"right": RIGHT, "unknown": UNKNOWN, "raises": REFUSED}.get(found.verdict, UNJUDGED)


def _rivals(found: Any) -> list[str]:
    """Return the other explanations that match as well."""
    return [" + ".join(match.ids) for match in found.matches[1:6]]


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `TooSlowError` after some seconds."""

    def stop(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
