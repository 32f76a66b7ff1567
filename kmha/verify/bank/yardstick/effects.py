"""Name what a module does instead of what it did before a fault was injected."""

from collections.abc import Iterator

import numpy as np

from kmha.verify.bank.yardstick.localizing import Suspect, again
from kmha.verify.bank.yardstick.models import HEADS, component
from kmha.verify.chains import ImpossibleError, Trial
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.matching import Answer, TrialResult

CLOSE = 1e-4  # relative limit below which two float32 results are the same


def effect(suspect: Suspect) -> str:
    """Return what the module does, such as "weights zero", "result scaled" or the id of a mistake of the bank."""
    changed = dict(_changed_weights(suspect))
    if changed:
        kinds = set(changed.values())
        return f"weights {kinds.pop() if len(kinds) == 1 else 'replaced'}"
    attributes = _changed_attributes(suspect)
    if attributes:
        return attributes
    repeated = again(suspect.module, suspect.call)
    result, expected = suspect.call.results[0], suspect.expected[0]
    if component(suspect.path) == "attention" and suspect.inside:
        return next(iter(core_mistakes(suspect)), None) or _mask_effect(suspect)
    if not np.array_equal(repeated[0], result, equal_nan=True):
        share = float((np.asarray(result) == 0).mean())
        return "result dropped out" if share > 0.02 else "result noisy"
    return f"result {_changed(np.asarray(result), np.asarray(expected), suspect)}"


def _changed_weights(suspect: Suspect) -> Iterator[tuple[str, str]]:
    """Yield the name of each changed weight, and how it changed."""
    clean = {name: np.asarray(weight.detach(), "float64") for name, weight in suspect.clean.named_parameters()}
    for name, parameter in suspect.module.named_parameters():
        now, before = np.asarray(parameter.detach(), "float64"), clean[name]
        if not np.array_equal(now, before):
            yield name, _change_of_weight(now, before)


def _change_of_weight(now: np.ndarray, before: np.ndarray) -> str:
    """Return how a weight changed, in one word.

    >>> weight = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 7.0]])
    >>> [_change_of_weight(now, weight) for now in (weight * 0, weight * 2, weight + 1, weight[[1, 0, 2]])]
    ['zero', 'scaled', 'shifted', 'permuted']
    """
    if not now.any():
        return "zero"
    if _is_multiple(now, before):
        return "scaled"
    if np.allclose(now - before, (now - before).flat[0], atol=CLOSE):
        return "shifted"
    kept = [np.array_equal(a, b) for a, b in zip(now, before, strict=True)]
    if all(same or not np.any(row) for same, row in zip(kept, now, strict=True)):
        return "partly zero"
    if len(now) > 1 and np.allclose(now, now[:1]):
        return "constant" if np.allclose(now, now.flat[0]) else "tied"
    rows = {row.tobytes() for row in before}
    return "permuted" if all(row.tobytes() in rows for row in now) else "replaced"


def _is_multiple(now: np.ndarray, before: np.ndarray) -> bool:
    factor = float((now * before).sum() / (before * before).sum())
    return factor != 0 and bool(np.allclose(now, factor * before, rtol=CLOSE, atol=CLOSE * np.abs(now).max()))


def _changed_attributes(suspect: Suspect) -> str:
    """Return how an attribute of the module, its class or the class of a part changed, or "" if nothing did."""
    now, before = getattr(suspect.module, "eps", None), getattr(suspect.clean, "eps", None)
    if now != before:
        return "epsilon changed"
    parts = [(suspect.module, suspect.clean), *zip(suspect.module.children(), suspect.clean.children(), strict=True)]
    return "activation changed" if any(type(part) is not type(right) for part, right in parts) else ""


def _changed(now: np.ndarray, before: np.ndarray, suspect: Suspect) -> str:
    """Return how a result changed, in a few words."""
    if now.shape != before.shape:
        return "of another shape"
    if not now.any():
        return "zero"
    if _is_multiple(now.astype("float64"), before.astype("float64")):
        return "scaled"
    if np.array_equal(now, before.astype("float16").astype(now.dtype)) or _in_float16(suspect):
        return "rounded to float16"
    if any(np.array_equal(now, np.roll(before, shift, -1)) for shift in range(1, before.shape[-1])):
        return "with features exchanged"
    return _positions(now, suspect) if component(suspect.path) == "positional" else "changed"


def _in_float16(suspect: Suspect) -> bool:
    """Return whether all numbers of the result are float16 numbers."""
    result = np.asarray(suspect.call.results[0])
    return bool(np.array_equal(result, result.astype("float16").astype(result.dtype)))


def _positions(now: np.ndarray, suspect: Suspect) -> str:
    """Return which rows of a table of positions the result contains, instead of the rows of its own positions."""
    table = np.asarray(suspect.clean.weight.detach())
    found = [int(np.abs(table - row).sum(-1).argmin()) for row in now[-1]]
    steps = np.diff(found)
    return "at shifted positions" if (steps == 1).all() else "at truncated positions" if (steps >= 0).all() else "moved"


def core_mistakes(suspect: Suspect) -> list[str]:
    """Return the ids of the bank's mistakes that explain what an attention module does between its projections."""
    trial, answer = _core_trial(suspect)
    try:
        results = [TrialResult(trial, answer)]
        fitting, _ = matching.ranked(results, "attention")
    except ImpossibleError:
        return []
    return [match.ids[0] for match in fitting]


def _core_trial(suspect: Suspect) -> tuple[Trial, Answer]:
    """Return the module's attention without its projections, as a trial with the answer that the module gave."""
    query, key, value = _heads(suspect)
    context = next(
        (call.arguments[0] for path, call in suspect.inside.items() if component(f"attn.{path}") == "merge"),
        suspect.call.results[0],
    )
    trial = Trial(suspect.path, query, key, value, mask=_allowed(suspect))
    return trial, Answer(_into_heads(np.asarray(context)), None, True, "float32")


def _heads(suspect: Suspect) -> list[np.ndarray]:
    """Return query, key and value (B, H, T, O), as the projections inside the module returned them."""
    results = {path.rpartition(".")[2]: np.asarray(call.results[0]) for path, call in suspect.inside.items()}
    if "c_attn" in results:
        return [_into_heads(part) for part in np.split(results["c_attn"], 3, -1)]
    names = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"))
    return [_into_heads(next(results[name] for name in each if name in results)) for each in names]


def _into_heads(array: np.ndarray) -> np.ndarray:
    return array.reshape(*array.shape[:2], HEADS, -1).swapaxes(1, 2).astype("float64")


def _allowed(suspect: Suspect) -> np.ndarray:
    """Return the mask (B, T, S) that the module was given, True where t may attend to s."""
    mask = np.asarray(suspect.call.keywords["attention_mask"])
    return (mask if mask.dtype == bool else mask > -1.0)[:, 0]


def _mask_effect(suspect: Suspect) -> str:
    """Return how the keys that the module attends to differ from the keys that its mask allows."""
    allowed = _allowed(suspect)
    scores = next((np.asarray(each) for each in suspect.call.results[1:] if each.ndim == 4), None)
    if scores is None:
        return "attention changed"
    seen = (scores > 0).any(1)
    if seen.shape == allowed.shape and (seen >= allowed).all():
        return "mask partly removed"
    return "mask changed"
