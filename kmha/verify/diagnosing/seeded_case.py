"""The smallest case of a layer, with weights that the script draws by seed, so that it need not list them."""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate, quietly
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.reproduction import SEED, script


def seeded_script(candidate: Candidate, smallest: TrialResult) -> str:
    """Return a script of the smallest case that draws the weights by seed.

    The script is "" if the candidate cannot have such weights, or is not wrong with them.
    """
    try:
        with quietly():
            trial = with_drawn_weights(candidate, smallest.trial)
            result = None if trial is None else candidate.evaluate(trial)
            if result is None or result.answer.error or not result.wrong:
                return ""
            lines = candidate.seeded_code(result.trial)
    except (Exception, SystemExit):  # untrusted code may raise anything, and the other script needs no such weights
        return ""
    return script(result, lines) if lines else ""


def with_drawn_weights(candidate: Any, trial: Trial) -> Trial | None:
    """Return the trial with the weights that the script draws, in the order in which the framework lists them.

    How a layer stores its weights is found by setting each weight to its own number and reading the numbers back.
    """
    if candidate.weights is not None or not getattr(getattr(candidate, "adapter", None), "seeded", None):
        return None
    sizes = {name: array.size for name, array in trial.weights.items()}
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    numbered = {
        name: starts[name] + np.arange(array.size, dtype=float).reshape(array.shape)
        for name, array in trial.weights.items()
    }
    layer, slots = candidate.make(dataclasses.replace(trial, weights=numbered))
    variables = candidate.adapter.variables(layer)
    if any(getattr(slot, "shared", False) for slot in slots):  # one array holds the weights of several heads
        return None
    if any(variable.frozen for variable in variables):  # it may be a table of sines, which is not drawn
        return None
    drawn = np.concatenate([array.ravel() for array in trial.weights.values()])
    rng = np.random.default_rng(SEED)
    for variable in variables:
        if variable.used:
            places = np.rint(np.asarray(variable.read(), "float64")).astype(int)
            drawn[places] = rng.normal(size=variable.shape).round(2)
    weights = {
        name: drawn[starts[name] : starts[name] + sizes[name]].reshape(array.shape)
        for name, array in trial.weights.items()
    }
    return dataclasses.replace(trial, weights=weights)
