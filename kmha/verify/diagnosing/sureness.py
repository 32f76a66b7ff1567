"""How sure the reading of a candidate is. A verdict that rests on a guess is lowered to "unjudged", with advice."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kmha.verify.diagnosing import guessing, naming
from kmha.verify.diagnosing.verdicts import UNKNOWN

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

BENIGN = re.compile("device|dtype|name|trainable|seed|initializer|regularizer|constraint|autocast|^wrong$")
ENOUGH = 0.5  # share of calls that must run for a verdict that something is wrong


def advice(found: "Diagnosis") -> tuple[str, ...]:
    """Return what would help to judge the candidate, or nothing if the verdict that it is wrong is sure enough."""
    ran = len(found.results) - len(found.errors)
    lines = list(_unknown_arguments(found))
    if ran < ENOUGH * len(found.results):
        error = next(iter(found.errors.values()))
        return (f"Most calls raise an error, the first: {error.rstrip('.')}.", *lines, *_remedies(found))
    if getattr(found.candidate, "rotates", False):
        return ("kmha only knows rotary embeddings that return their input turned by its positions.",)
    if found.candidate.chain != "attention":
        lines += (*_untold(found.candidate), *_without_memory(found.candidate)) if found.verdict == UNKNOWN else ()
        return (*lines, *_remedies(found)) if lines else ()
    if found.verdict == UNKNOWN or len(found.mistakes) > 1:
        lines += _weights(found)
    only_masked = all(result.trial.masked for result in found.results if result.wrong)
    if found.verdict == UNKNOWN and only_masked and found.candidate.said_meaning is None:
        lines.append("Only calls with masks differ. Say what True means in its mask: --mask attends, hides or adds.")
    return (*lines, *_remedies(found)) if lines else ()


def _unknown_arguments(found: "Diagnosis") -> Iterator[str]:
    """Yield what would help with arguments whose names tell nothing."""
    candidate = found.candidate
    parameters = {**getattr(candidate, "constructor_parameters", {}), **candidate.call_parameters}
    guessed = {**getattr(candidate, "made_guesses", {}), **dict(found.convention.guessed)}
    for name, text in guessed.items():
        if not guessing.guesses(name, parameters.get(name))[1]:
            yield f"kmha does not know the argument `{name}`, and passed {text}. Give its value: --set {name}=VALUE."
    for role, name in getattr(candidate, "by_place", {}).items():
        yield f"kmha took `{name}` for the {role}. Say what it is: --role {role}={name}."


def _untold(candidate: Any) -> Iterator[str]:
    """Yield arguments of the constructor that no role explains, which may be meant to change what it computes."""
    found = getattr(candidate, "constructor_parameters", {})
    given = getattr(candidate, "given", {})
    names = [n for n in found if naming.argument(n) is None and n not in given and not BENIGN.search(naming.plain(n))]
    if names:
        yield f"kmha does not know what these arguments of the constructor do: {', '.join(names[:6])}."


def _without_memory(candidate: Any) -> Iterator[str]:
    """Yield how to say that a layer that can be called without a memory is no decoder layer."""
    if getattr(candidate, "memory_is_optional", False):
        name = candidate.roles["memory"]
        yield f"If it is an encoder layer that gets no `{name}`, say so: --set {name}=None."


def _weights(found: "Diagnosis") -> Iterator[str]:
    """Yield what is unsure about the candidate's weights."""
    candidate: Any = found.candidate
    if found.verdict == UNKNOWN:
        yield from _untold(candidate)
    if getattr(candidate, "heads_are_guessed", False):
        yield "Nothing states its number of heads. Give it: --set num_heads=H."
    if found.convention.choices:
        yield "It makes design choices, and something else in it differs from the reference."
    extras = [extra.path for result in found.results[:1] for extra in result.trial.more.get("extras", ())]
    if extras:
        yield f"kmha does not know how it uses these weights: {', '.join(extras[:6])}."
    if getattr(candidate, "count", 1) > 1 and not all(naming.weight(path)[0] for path in candidate.matrix_paths()):
        yield "The names of its weights do not tell which is the query's, the key's and the value's."


def _remedies(found: "Diagnosis") -> list[str]:
    """Return the arguments that kmha left out, with the option that says what they are."""
    candidate = found.candidate
    used = {*candidate.roles.values(), *dict(found.convention.guessed)}
    left = [name for name in candidate.call_parameters if name not in used]
    if not left:
        return []
    names = ", ".join(f"`{name}`" for name in left[:4])
    return [f"kmha never passed {names}. If one is a mask, say so: --role mask={left[0]}."]
