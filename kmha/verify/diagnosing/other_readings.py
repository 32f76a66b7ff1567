"""Another reading of a candidate's arguments, for one that raises errors in every call or ignores its memory.

A layer that attends to a memory only on request, such as with `is_cross_attention=True`, is self-attention otherwise.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.verify.diagnosing import guessing, matching, naming
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.sureness import MASKS, MISSING
from kmha.verify.diagnosing.unknown_mistakes import returned_input
from kmha.verify.diagnosing.verdicts import KNOWN

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

OF_QUERY = re.compile("dec|tgt|target|trg|quer")
EXCHANGED = "inputs-query-from-encoder"
MASK_ROLES = ("mask", "look_ahead", "padding", "memory_mask", "target_padding", "query_padding")
OF_TARGET = {"mask": "look_ahead", "padding": "target_padding"}  # what a mask is if it is self-attention's


def optional_memory(candidate: Candidate) -> tuple[str, ...]:
    """Return the names of the arguments for a memory, or for keys and values, that an attention layer can do without.

    There are none if the layer needs one of them, or if the user said what it is.
    """
    names = tuple(candidate.roles[role] for role in ("memory", "key", "value") if role in candidate.roles)
    parameters = [candidate.call_parameters.get(name) for name in names]
    if None in parameters or not isinstance(candidate, LayerCandidate) or candidate.chain != "attention":
        return ()
    needed = any(each is not None and each.default is EMPTY for each in parameters)
    return () if needed or {*names} & {*candidate.said.values()} else names


def memory_is_ignored(candidate: Candidate) -> bool:
    """Return whether a flag such as `is_cross_attention` is False, and a memory then changes nothing."""
    if not (optional_memory(candidate) and isinstance(candidate, LayerCandidate) and _is_not_asked_to_cross(candidate)):
        return False
    candidate.use_layout(**candidate.input_layouts()[0])
    trial = next(candidate.iter_trials(0, candidate.sizes(np.random.default_rng(0))))
    other = trial.with_inputs(lambda array: array if array is trial.query else array[::-1] + 1.0)
    outputs = [candidate.evaluate(each).answer.output for each in (trial, other)]
    return outputs[0] is not None and outputs[1] is not None and bool(np.array_equal(*outputs))


def memory_raises(candidate: Candidate, results: Sequence[TrialResult]) -> bool:
    """Return whether every call raises an error, perhaps because of the memory."""
    return bool(optional_memory(candidate)) and all(result.answer.error for result in results)


def cannot_do_without_memory(candidate: Candidate, results: Sequence[TrialResult]) -> bool:
    """Return whether an encoder layer that did not get its optional memory raises an error or returns its input."""
    if not getattr(candidate, "may_cross", False):
        return False
    answered = [result for result in results if not result.answer.error]
    return not answered or bool(returned_input(answered))


def mask_by_place(candidate: Candidate, results: Sequence[TrialResult]) -> dict[str, str]:
    """Return the roles of inputs if one that was taken for a memory by its place may be a mask, or nothing.

    It may be a mask if every call raises an error.
    """
    places = getattr(candidate, "by_place", {})
    raises = bool(results) and all(result.answer.error for result in results)
    if "memory" not in places or not raises or candidate.said or candidate.core:
        return {}
    return {"mask" if role == "memory" else role: name for role, name in places.items()}


def unexplained_mask(candidate: Candidate, results: Sequence[TrialResult]) -> dict[str, str]:
    """Return the role and name of a decoder layer's only mask if it may be the one of its self-attention, or nothing.

    It is the one of the second attention if the answers are then right, or have a mistake besides a missing mask.
    """
    masks = [role for role in candidate.roles if role in MASK_ROLES]
    if candidate.chain != "decoder" or len(masks) != 1 or masks[0] not in OF_TARGET:
        return {}
    name = candidate.roles[masks[0]]
    answered = [result for result in results if not result.answer.error]
    if name in candidate.said.values() or (answered and matching.explains(answered)):
        return {}
    named = {id for match in matching.singles(answered, candidate.chain) for id in match.ids} if answered else set()
    return {} if named - MISSING else {OF_TARGET[masks[0]]: name}


def of_unknown_argument(candidate: Candidate, results: Sequence[TrialResult]) -> list[dict[str, str]]:
    """Return the roles to try for the only required argument whose name tells nothing, if every call raises an error.

    It may be a mask or the encoder's output, which code cannot do without.
    """
    found = candidate.call_parameters
    unknown = [name for name, _ in candidate.convention.guessed if not guessing.guesses(name, found.get(name))[1]]
    if len(unknown) != 1 or candidate.chain == "embedding" or not all(result.answer.error for result in results):
        return []
    taken = {*candidate.roles, *(["memory"] if "key" in candidate.roles else [])}
    return [{role: unknown[0]} for role in ("mask", "padding", "memory") if role not in taken]


def fits_unknown_argument(found: "Diagnosis") -> bool:
    """Return whether all calls of a reading ran, and are right or have one mistake that is not in the masks."""
    named = found.verdict == KNOWN and len(found.mistakes) == 1 and found.ids[0].partition("-")[0] not in MASKS
    return not found.errors and (found.right or named)


def explains_all(found: "Diagnosis") -> bool:
    """Return whether all calls of a reading ran, some of them with masks, and are right or have one mistake."""
    ran = not found.errors and any(result.trial.masked for result in found.results)
    return ran and (found.right or (found.verdict == KNOWN and len(found.mistakes) == 1))


def _is_not_asked_to_cross(candidate: LayerCandidate) -> bool:
    """Return whether a flag of the layer or of its constructor, such as `is_cross_attention`, is False.

    Or one such as `self_attention` is True.
    """
    flags: Mapping[str, Any] = {**getattr(candidate.thing, "__dict__", {})}
    if isinstance(candidate.thing, type):
        defaults = {name: each.default for name, each in candidate.constructor_parameters.items()}
        flags = {**defaults, **candidate.given}
    of_itself = re.compile("^(is_?)?self_?(attn|attention)$")
    return any(
        (value is False and re.search("cross|encdec", name.lower()))
        or (value is True and of_itself.search(name.lower()))
        for name, value in flags.items()
    )


@dataclasses.dataclass(frozen=True)
class Reading:
    """Another reading of a candidate's arguments, which its mistake suggests.

    Attributes:
        changes: What is told besides what the user told: names of arguments, keyed by role, as "said", or values of
            arguments, keyed by name, as "further".
        says: Sentences for the report.
    """

    changes: Mapping[str, Mapping[str, Any]]
    says: tuple[str, ...] = ()


def suggested_reading(candidate: Candidate, ids: Sequence[str]) -> Reading | None:
    """Return the reading that mistakes with these ids suggest, or `None`."""
    if temperature := _needs_temperature(candidate, ids):
        return Reading({"said": {"temperature": temperature}})
    if said := _exchanged_inputs(candidate, ids):
        says = f"The query is taken from `{said['query']}`, and keys and values from `{said['memory']}`."
        return Reading({"said": said}, (says,))
    if lengths := _ignored_lengths(candidate, ids):
        says = f"`{lengths}` has no effect beside its mask: taken as meant for a kernel that takes no mask."
        return Reading({"further": {lengths: None}}, (says,))
    return None


def _exchanged_inputs(candidate: Candidate, ids: Sequence[str]) -> dict[str, str]:
    """Return roles for two inputs whose names tell nothing, such as `x` and `y`, if they seem to be exchanged."""
    names = [candidate.roles.get(role, "") for role in ("self", "memory")]
    if EXCHANGED not in ids or candidate.said or not all(names) or naming.argument(names[1]):
        return {}
    return {} if OF_QUERY.search(names[0].lower()) else {"query": names[1], "memory": names[0]}


def _ignored_lengths(candidate: Candidate, ids: Sequence[str]) -> str:
    """Return the name of lengths that have no effect and may be `None`, beside a mask that has one, or ""."""
    name = candidate.roles.get("lengths", "")
    if "padding-ignored" not in ids or "mask" not in candidate.roles or name in ("", *candidate.said.values()):
        return ""
    return name if getattr(candidate.call_parameters.get(name), "default", EMPTY) is None else ""


def _needs_temperature(candidate: Candidate, ids: Sequence[str]) -> str:
    """Return the name of a temperature that was left out, if without it the logits are not scaled, or ""."""
    return getattr(candidate, "layer", candidate).neutral_temperature if "scale-missing" in ids else ""
