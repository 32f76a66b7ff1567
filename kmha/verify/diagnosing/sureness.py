"""How sure the reading of a candidate is. A verdict that rests on a guess is lowered to "unjudged", with advice."""

import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kmha.verify.chains.attention import ROLES
from kmha.verify.diagnosing import guessing, matching, naming
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.evidence.source_text import mentions
from kmha.verify.diagnosing.function_candidate import FunctionCandidate, held_by
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import ENOUGH, KNOWN, RAISES, UNKNOWN
from kmha.verify.wording import ended

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

BENIGN = re.compile(
    "device|dtype|name|trainable|seed|initializer|regularizer|constraint|autocast|^wrong$|^(theta|freq)?base$"
)
_INPUTS = {"self": "input", "memory": "encoder's output", "heads": "number of heads"}
MISSING = {"causal-missing", "mask-missing"}
MASKS = {"mask", "padding", "causal"}  # first words of the ids of mistakes in masks
SUFFICIENT = 3  # number of calls without masks for a verdict if all calls with masks raise an error
# Mistakes that raise an error with most sizes. Of others, a mask of another form would raise the same errors.
RAISING = re.compile("mask-items-as-heads|decoder-masks-")
NO_ARRAY = re.compile("(^|_)(fn|func|function|callback|size|pos)$")  # arguments that take no mask
# The base of rotary positions is a choice, as is the first position, and the direction in which positions are counted.
OF_TASTE = re.compile("^positions-(from-one|reversed|base-.*|exponent-halved)$")
EXCHANGED = {"mix-key-value-swapped", "logits-key-query", "heads-reshaped", "heads-reshaped-and-merged"}
DECODES = r"(?i)causal(?!\s*=\s*False)|triu|tril|future|look_?ahead|decode|\b(tgt|trg|target)"
IGNORED = {"mask-missing", "mask-argument-ignored", "padding-ignored"}


def advice(found: "Diagnosis") -> tuple[str, ...]:
    """Return what would help to judge the candidate, or nothing if the verdict is sure enough."""
    ran = _ran(found.results)
    slips = [result.answer.is_slip for result in found.results if not result.trial.masked]
    lines = [] if slips and all(slips) else [*_logits(found), *_unknown_arguments(found)]
    if found.verdict == RAISES and not lines:
        return ()
    if ran < len(found.results) and _explains_errors(found):
        return ()
    if ran < ENOUGH * len(found.results):
        share = "Most calls raise" if ran else "Every call raises"
        return (f"{share} an error, the first: {_first_error(found)}", *lines, *_remedies(found))
    turned = bool(found.mistakes) and any(id.startswith("rotates-") for id in found.convention.choices)
    if (turned or getattr(found.candidate, "rotates", False)) and all(
        OF_TASTE.search(each.id) for each in found.mistakes
    ):
        return (
            "kmha only knows rotary embeddings that return their input turned by its positions, or the angles, or "
            "their cosines and sines.",
        )
    masked = [result for result in found.results if result.trial.masked]
    if all(each.trial.masked for each in found.results if each.wrong) and _ran(masked) < ENOUGH * len(masked):
        return ("It is right without masks, and most calls with masks raise an error.", *lines, *_remedies(found))
    others = [name for name in left_out(found) if "mask" in name.lower()]
    known = {"mask", "padding"} <= found.candidate.roles.keys()
    if others and not known and {mistake.id for mistake in found.mistakes} & IGNORED:
        return (f"Its mask has no effect, and kmha never passed `{others[0]}`.", *lines, *_remedies(found))
    missing = {mistake.id for mistake in found.mistakes} & MISSING
    unmasked = missing and not {"mask", "look_ahead", "causal"} & found.candidate.roles.keys()
    if missing and any(result.answer.error for result in masked):  # perhaps its mask has another form
        return (f"A call with a mask raises an error: {_first_error(found)}", *_remedies(found))
    if found.candidate.chain != "attention":  # perhaps kmha has not passed the mask
        if found.verdict == UNKNOWN:
            lines += (*_untold(found.candidate), *_without_memory(found.candidate), *_of_one_layer(found))
        if unmasked and not (lines or _remedies(found) or _decodes(found.candidate)):
            lines = ["If its self-attention is not meant to be causal, say so: --set causal=false."]
        return (*lines, *_remedies(found)) if lines or unmasked else ()
    lines += _of_attention(found)
    return (*lines, *_remedies(found)) if lines else ()


def _decodes(candidate: Any) -> bool:
    """Return whether a name or the code means the decoder of a language model."""
    return bool(re.search("decode|causal", candidate.name.lower())) or bool(mentions(candidate, DECODES))


def _of_attention(found: "Diagnosis") -> Iterator[str]:
    """Yield what would help to judge an attention layer or function."""
    candidate = found.candidate
    is_function = isinstance(candidate, FunctionCandidate) and not hasattr(candidate, "layer")
    held = held_by(getattr(candidate, "function", None)) if found.verdict == UNKNOWN and is_function else ""
    if held:
        yield f"It keeps `{held}`, which may contain weights that kmha does not see."
    if found.verdict == UNKNOWN or len(found.mistakes) > 1:
        yield from _weights(found)
    elif {mistake.id for mistake in found.mistakes} & EXCHANGED:
        yield from _packing(found)
    only_masked = all(result.trial.masked for result in found.results if result.wrong)
    takes_masks = {"mask", "padding", "lengths", "look_ahead"} & candidate.roles.keys()
    if found.verdict == UNKNOWN and only_masked and takes_masks and candidate.said_meaning is None:
        yield "Only calls with masks differ. Say what True means in its mask: --mask attends, hides or adds."


def _of_one_layer(found: "Diagnosis") -> Iterator[str]:
    """Yield that a single layer was taken for a feed-forward network."""
    for result in found.results[:1]:
        present = found.candidate.weights_present(result.trial)
        if present is not None and "ffn/dense1/kernel" in present and "ffn/dense2/kernel" not in present:
            yield "kmha took a layer beside its attention for a feed-forward network of one layer, which may be wrong."


def _explains_errors(found: "Diagnosis") -> bool:
    """Return whether one mistake explains all calls that ran, and why the others raise an error.

    If all calls without masks ran, and all with masks raise an error, the mistake is not in the masks. If that error is
    a slip in the candidate's own code, two mistakes are enough too.
    """
    slips = all(result.answer.is_slip for result in found.results if result.answer.error)
    if len(found.mistakes) != 1 and not (slips and found.mistakes):
        return False
    masked = [bool(result.answer.error) for result in found.results if result.trial.masked]
    apart = all(masked) and _ran(found.results) == len(found.results) - len(masked) >= SUFFICIENT
    raises = bool(RAISING.match(found.mistakes[0].id))
    return apart or (raises and matching.explains_errors(found.matches[0], found.results))


def _first_error(found: "Diagnosis") -> str:
    return ended(next(iter(found.errors.values())))


def _ran(results: Sequence[TrialResult]) -> int:
    """Return the number of calls that raised no error."""
    return sum(not result.answer.error for result in results)


def _logits(found: "Diagnosis") -> Iterator[str]:
    """Yield a sentence if a function that returns the scores alone only lacks the softmax, which may be meant."""
    without_softmax = all(mistake.id.startswith("softmax-missing") for mistake in found.mistakes)
    if found.mistakes and without_softmax and any(result.answer.scores_alone for result in found.results):
        yield "It returns the logits, without a softmax. If that is meant, the rest is right."


def _unknown_arguments(found: "Diagnosis") -> Iterator[str]:
    """Yield what would help with arguments whose names tell nothing."""
    candidate = found.candidate
    parameters = {**getattr(candidate, "constructor_parameters", {}), **candidate.call_parameters}
    guessed = {**getattr(candidate, "made_guesses", {}), **dict(found.convention.guessed)}
    masks = any(mistake.id.partition("-")[0] in MASKS for mistake in found.mistakes)
    explained = found.verdict == KNOWN and not masks
    for name, text in guessed.items():
        switched_off = text == "None" and explained  # what is left out explains no numbers of a mistake elsewhere
        fits = found.verdict == KNOWN and text in guessing.NUMBERS  # with another size, the weights would not fit
        left_out_mask = masks and naming.is_mask(name)
        refused = text == "None" and found.verdict == RAISES and parameters[name].default is EMPTY
        if left_out_mask or refused or not (switched_off or fits or guessing.guesses(name, parameters.get(name))[1]):
            yield f"kmha does not know the argument `{name}`, and passed {text}. Give its value: --set {name}=VALUE."
    for name in left_out(found):
        if candidate.call_parameters[name].default is EMPTY:
            yield (
                f"kmha does not know the argument `{name}`. Say what it is, such as --role memory={name} or "
                f"--role mask={name}, or give its value: --set {name}=VALUE."
            )
    if getattr(candidate, "made_guesses", {}) and found.verdict == RAISES:
        module = candidate.source.partition(":")[0] or "MODULE"
        yield (
            f"If it takes layers, make an instance, such as layer = {candidate.name}(…), and diagnose that: "
            f"kmha diagnose {module}:layer."
        )
    is_object = not inspect.isfunction(getattr(candidate, "function", None))
    unread = found.verdict == RAISES or (found.verdict == UNKNOWN and is_object)
    if candidate.core and "heads" not in candidate.fixed and unread and mentions(candidate, "heads"):
        yield "If it splits features H·O into heads itself, say into how many: --set num_heads=H."
    yield from _places(found)


def _places(found: "Diagnosis") -> Iterator[str]:
    """Yield the options for inputs that kmha took by their places, unless one mistake with them explains all calls."""
    places = getattr(found.candidate, "by_place", {})
    order = _right_order(found) if {*ROLES} <= places.keys() else None
    if order and order != ROLES:
        options = " ".join(f"--role {role}={places[other]}" for role, other in zip(ROLES, order, strict=True))
        yield f"It is right with its arguments in another order: {options}."
        return
    constant = found.mistakes[:1] and found.mistakes[0].id == "output-constant"  # perhaps it is no input
    told = found.verdict == KNOWN and len(found.mistakes) == 1 and not constant
    for role, name in places.items():
        if role == "mask" or not told:
            yield f"kmha took `{name}` for the {_INPUTS.get(role, role)}. Say what it is: --role {role}={name}."


def _right_order(found: "Diagnosis") -> tuple[str, ...] | None:
    """Return the roles whose inputs are query, key and value, if the candidate is right with these, or `None`."""
    results = [each for each in found.results if not each.answer.error and each.trial.value is not each.trial.key]
    results = [each for each in results if len({each.trial.query.shape, *_shapes(each)}) == 1 and not each.trial.masked]
    for order in itertools.permutations(ROLES) if results else ():
        inputs = [
            {role: getattr(each.trial, other) for role, other in zip(ROLES, order, strict=True)} for each in results
        ]
        turned = [
            TrialResult(dataclasses.replace(each.trial, **mine), each.answer)
            for each, mine in zip(results, inputs, strict=True)
        ]
        if matching.explains(turned):
            return order
    return None


def _shapes(result: TrialResult) -> tuple[tuple[int, ...], ...]:
    return result.trial.key.shape, result.trial.value.shape


def _untold(candidate: Any) -> Iterator[str]:
    """Yield arguments of the constructor that no role explains, which may be meant to change what it computes."""
    found = getattr(candidate, "constructor_parameters", {})
    given = getattr(candidate, "given", {})
    told = {*given, *getattr(candidate, "constructor_roles", {}).values()}
    names = [n for n in found if naming.argument(n) is None and n not in told and not BENIGN.search(naming.plain(n))]
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
    yield from _packing(found)
    named = {naming.weight(path)[0] for path in candidate.matrix_paths()} if getattr(candidate, "count", 1) > 1 else {}
    if None in named and "packed" not in named:  # beside packed kernels, there is only the output's
        yield "The names of its weights do not tell which is the query's, the key's and the value's."


def _packing(found: "Diagnosis") -> Iterator[str]:
    """Yield that the order of heads in a packed kernel is a guess if keys and values have fewer heads than queries."""
    trial = next((result.trial for result in found.results if not result.answer.error), None)
    slots = [] if trial is None else [slot for _, slot in found.candidate.projections(trial)]
    for path in dict.fromkeys(slot.variable.part_of for slot in slots if not slot.is_bias):
        if path:
            yield f"kmha does not know in which order {path} holds the heads of query, key and value."


def _remedies(found: "Diagnosis") -> list[str]:
    """Return the arguments that kmha left out, with the option that says what they are."""
    parameters = found.candidate.call_parameters
    left = [name for name in left_out(found) if parameters[name].default is not EMPTY]
    left = [name for name in left if naming.argument(name) is None]
    if not left:
        return []
    names = ", ".join(f"`{name}`" for name in left[:4])
    roles = ("look_ahead", "mask") if found.candidate.chain == "decoder" and len(left) > 1 else ("mask",)
    options = " ".join(f"--role {role}={name}" for role, name in zip(roles, left, strict=False))
    return [f"kmha never passed {names}. If they are masks, say so: {options}."]


def left_out(found: "Diagnosis") -> list[str]:
    """Return the arguments of the call that no role and no guess explains, and that may be inputs or masks."""
    candidate = found.candidate
    used = {*candidate.roles.values(), *candidate.given, *dict(found.convention.guessed)}
    used |= {*getattr(candidate, "weight_names", ())}
    names = [name for name in candidate.call_parameters if name not in used]
    return [n for n in names if candidate.call_parameters[n].default is EMPTY or not NO_ARRAY.search(n.lower())]
