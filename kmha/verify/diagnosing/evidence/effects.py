"""Find out which inputs and which weights change the candidate's answer, by changing one at a time.

A key's bias cannot change anything, because it adds the same number to all logits of a row.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Trial, run
from kmha.verify.chains.blocks import NORMS
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import Answer, TrialResult, relative_difference
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.diagnosing.verdicts import Finding

OTHER = 15_485_863  # seed of what is added to inputs, which no trial is drawn with
NOTHING = 1e-9  # an answer that changes by less does not depend on what changed
PROJECTIONS = {
    "query/kernel": "projection-missing-query",
    "key/kernel": "projection-missing-key",
    "value/kernel": "projection-missing-value",
    "attention_output/kernel": "merge-projection-missing",
    "query/bias": "bias-missing-query",
    "value/bias": "bias-missing-value",
    "attention_output/bias": "bias-missing-output",
}


def ignored_inputs(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return the inputs that do not change the answer, or `None` if every input changes it."""
    result = _plainest(results)
    return None if result is None else _ignored_inputs(candidate, result)


def unused_weights(candidate: Candidate, results: Sequence[TrialResult]) -> list[Finding]:
    """Return the weights that do not change the answer, although they would in right code."""
    result = _plainest(results)
    return [] if result is None else list(_unused_weights(candidate, result))


def _plainest(results: Sequence[TrialResult]) -> TrialResult | None:
    """Return the plainest call, preferably cross-attention, which shows each input's effect."""
    usable = [result for result in results if not result.answer.error and not result.trial.rate]
    usable = [result for result in usable if "large" not in result.trial.name and result.trial.dtype == "float64"]
    return min(usable, key=lambda each: (each.trial.query is each.trial.key, plainness(each)), default=None)


def _ignored_inputs(candidate: Candidate, result: TrialResult) -> Finding | None:
    trial = result.trial
    if candidate.chain == "embedding":
        return None
    arrays = {id(getattr(trial, role)): getattr(trial, role) for role in ROLES}
    changed: dict[int, bool] = {}
    for key, array in arrays.items():
        other = _another(array)
        now = {role: getattr(trial, role) for role in ROLES}
        inputs: dict[str, Any] = {role: other if mine is array else mine for role, mine in now.items()}
        changed[key] = _changes(candidate, dataclasses.replace(trial, **inputs), result.answer)
    ignored = [role for role in ROLES if not changed[id(getattr(trial, role))]]
    if not np.isfinite(result.answer.output).all():
        return None
    if len(ignored) == len(ROLES):
        return Finding("Its output is the same whatever the inputs are.", ("output-constant",), conclusive=True)
    if not ignored or not candidate.accepts.cross:
        return None
    if set(ignored) == {"key", "value"}:
        return Finding("Its output does not depend on the key and the value.", ("context-ignored",), conclusive=True)
    if candidate.chain != "attention" or trial.key is trial.value:
        return None
    names = " and the ".join(ignored)
    return Finding(f"Its output does not depend on the {names}.", (f"{ignored[0]}-ignored",), conclusive=True)


def _another(array: np.ndarray) -> np.ndarray:
    return array + np.random.default_rng(OTHER).normal(size=array.shape)


def _changes(candidate: Candidate, trial: Trial, before: Answer) -> bool:
    """Return whether the trial's answer differs from the answer `before`. An error differs from any answer."""
    after = candidate.answer(trial)
    if after.error:
        return True
    far = relative_difference(after.output, before.output)
    if before.scores is not None:
        far = max(far, relative_difference(after.scores, before.scores))
    return far > NOTHING


def _unused_weights(candidate: Candidate, result: TrialResult) -> Iterator[Finding]:
    """Yield the weights of a layer or a function that do not change the answer, although right code's would."""
    trial = result.trial
    if candidate.weights is not None:
        return
    for name, array in trial.weights.items():
        other = dataclasses.replace(trial, weights={**trial.weights, name: _another(array)})
        if name.endswith("key/bias") or not _has_effect(other, result) or _changes(candidate, other, result.answer):
            continue
        if candidate.weights_present(trial) is not None and name not in (candidate.weights_present(trial) or ()):
            continue
        yield Finding(f"The weight {name} does not change its output.", (_mistake_of(name, candidate.chain),))


def _mistake_of(name: str, chain: str) -> str:
    """Return the id of the mistake that leaves a weight without effect."""
    layer, _, rest = name.partition("/")
    if layer == "ffn":
        return "residual-unused-feed-forward"
    if layer in NORMS.get(chain, ()):
        places = ("attention", "cross", "feed-forward")
        return f"norm-missing-{places[NORMS[chain].index(layer)]}"
    return PROJECTIONS.get(name, PROJECTIONS.get(rest, "weight-unused"))


def _has_effect(trial: Trial, result: TrialResult) -> bool:
    return relative_difference(run(trial)["output"], result.right["output"]) > NOTHING
