"""Say what the calls of a diagnosis tested, and what they could not test, for the verdict "right"."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kmha.verify.chains import caches
from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.guessing import WINDOWS
from kmha.verify.diagnosing.sureness import left_out
from kmha.verify.diagnosing.weights import NEUTRAL

if TYPE_CHECKING:
    from kmha.verify.diagnosing.candidate import Candidate
    from kmha.verify.diagnosing.diagnosis import Diagnosis

_FEATURES: dict[str, Callable[[Trial], bool]] = {
    "self-attention": lambda trial: trial.query is trial.key,
    "cross-attention": lambda trial: trial.query is not trial.key,
    "a value other than the key": lambda trial: trial.value is not trial.key,
    "masks": lambda trial: trial.mask is not None,
    "causal masks": lambda trial: trial.causal,
    "padding": lambda trial: trial.key_mask is not None,
    "positions that may attend to nothing": lambda trial: trial.masked and bool(trial.empty_rows().any()),
    "large numbers": lambda trial: "large" in trial.name,
    "dropout in training": lambda trial: trial.training,
    "float16": lambda trial: trial.dtype == "float16",
}
MANY = 3  # maximum number of unknown arguments to list
_BLOCK_FEATURES = ("masks", "causal masks", "padding", "large numbers")


def tested(found: "Diagnosis") -> list[str]:
    """Return what the calls that ran have tested, as phrases."""
    answered = [result.trial for result in found.results if not result.answer.error]
    if found.candidate.chain == caches.NAME:
        return [trial.name for trial in answered]
    features = list(_FEATURES) if found.candidate.chain == "attention" else list(_BLOCK_FEATURES)
    return [name for name in features if any(_FEATURES[name](trial) for trial in answered)]


def untested(found: "Diagnosis") -> list[tuple[str, bool]]:
    """Return what could not be tested, as phrases with the reason, and whether each is important."""
    candidate, covered = found.candidate, tested(found)
    if candidate.chain in ("embedding", caches.NAME) or not found.results:
        return []
    gaps = []
    if not {"masks", "causal masks", "padding"} & {*covered}:
        takes_none = not any(result.trial.masked for result in found.results)
        reason = _no_mask(found) if takes_none else "all such calls raise an error"
        gaps.append((f"masks ({reason})", True))
    elif unknown := _unknown(found):
        names = " and ".join(f"`{name}`" for name in unknown[:MANY])
        gaps.append((f"{names} (kmha does not know, and left out)", False))
    gaps += [(says, False) for says in _inputs(candidate)]
    accepts = getattr(candidate, "block_accepts", None)
    guesses = getattr(candidate, "made_guesses", {})
    if windows := [name for name in guesses if "window" in name.lower() and guesses[name] not in WINDOWS]:
        gaps.append((f"`{windows[0]}` (kmha passed one that is longer than all inputs)", True))
    extras = found.results[0].trial.more.get("extras", ()) if found.results else ()
    if tables := [extra.path for extra in extras if NEUTRAL.search(extra.path.lower()) and not extra.array.any()]:
        gaps.append((f"`{tables[0]}` (kmha set it to 0)", True))
    if candidate.returns_logits:
        gaps.append(("the logits that it returns as `qk`", False))
    if candidate.chain == "encoder" and accepts is not None:
        if accepts.causal and not any(each.trial.causal for each in found.results):
            gaps.append(("causal masks (its mask is for padding alone, or such calls raise an error)", True))
        if accepts.mask and "padding" not in covered and "causal masks" in covered:
            gaps.append(("padding (it takes masks (T, S) alone, or such calls raise an error)", True))
    made = getattr(candidate, "constructor_roles", {})
    if (cap := made.get("soft_cap")) is not None:
        gaps.append((f"the soft cap of the logits (kmha made `{cap}` large)", False))
    if (turned := made.get("rotary_size")) is not None:
        gaps.append((f"rotary positions in a part of each head (kmha made `{turned}` the size of a head)", False))
    if "dropout in training" not in covered:
        gaps.append(("dropout", False))
    return gaps


def _inputs(candidate: "Candidate") -> Iterator[str]:
    """Yield which inputs of attention could not be tested."""
    if candidate.chain != "attention":
        return
    if not candidate.accepts.cross:
        yield "cross-attention (it takes no separate key)"
    elif not candidate.accepts.value:
        yield "a value other than the key (it takes no separate value)"
    for role in ("key", "value"):
        parameter = candidate.call_parameters.get(candidate.roles.get(role, ""))
        if parameter is not None and parameter.default is not EMPTY:
            yield f"calls without `{parameter.name}`"


def _no_mask(found: "Diagnosis") -> str:
    """Return why no mask was passed, with the option that says which argument is a mask."""
    if flag := getattr(found.candidate, "mask_flag", ""):
        return f"its `{flag}` is False"
    unknown = _unknown(found)
    if not unknown:
        return "it takes no mask"
    names = " or ".join(f"`{name}`" for name in unknown[:MANY])
    return f"kmha does not know {names}; if one is a mask: --role mask={unknown[0]}"


def _unknown(found: "Diagnosis") -> list[str]:
    """Return the names of optional arguments of the call that kmha does not know."""
    parameters = found.candidate.call_parameters
    return [name for name in left_out(found) if parameters[name].default is None and naming.argument(name) is None]
