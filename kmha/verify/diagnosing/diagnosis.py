"""Name the mistake of an attention layer, by comparing its numbers with the numbers that known mistakes would give.

>>> import numpy as np
>>> def attention(query, key, value, mask=None):
...     logits = query @ np.swapaxes(key, -1, -2)
...     logits = logits if mask is None else np.where(mask, logits, -1e9)
...     scores = np.exp(logits - logits.max(-1, keepdims=True))
...     scores = scores / scores.sum(-1, keepdims=True)
...     return scores @ value, scores
>>> found = diagnose(attention)
>>> found.ids, found.mistakes[0].says
(('scale-missing',), 'You did not scale the logits. Divide them by √O before the softmax.')
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains import caches
from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.choices import checked, makes
from kmha.verify.diagnosing import additive, evidence, frameworks, matching, patches, rendering, report, sureness
from kmha.verify.diagnosing.block_candidate import CROSSING, BlockCandidate, chain_of
from kmha.verify.diagnosing.block_kind import chain_of_made, kind_of, kind_of_made
from kmha.verify.diagnosing.caches import cache_report
from kmha.verify.diagnosing.caches.cache_diagnosis import examine
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.caches.one_token import as_sequence
from kmha.verify.diagnosing.caches.protocols import find_decoding
from kmha.verify.diagnosing.calling import CandidateError, NoWeightsError, parameters
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.closures import as_object, is_compiled, is_method, is_plain_object, is_weightless, stand_in
from kmha.verify.diagnosing.convention_search import ChosenConvention, find_convention, use
from kmha.verify.diagnosing.conventions import MASK_MEANINGS, SINGLES, Convention
from kmha.verify.diagnosing.core_layer import CoreLayerCandidate, is_core
from kmha.verify.diagnosing.embedding_candidate import EmbeddingCandidate, EncodingFunction, encoding_roles
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.layer_adapters import adapter_of, is_layer
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import Match, TrialResult
from kmha.verify.diagnosing.other_readings import (
    cannot_do_without_memory,
    explains_all,
    fits_unknown_argument,
    mask_by_place,
    memory_is_ignored,
    memory_raises,
    of_unknown_argument,
    optional_memory,
    suggested_reading,
    unexplained_mask,
)
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.plain_adapter import keeps_results
from kmha.verify.diagnosing.reproduction import script
from kmha.verify.diagnosing.rotary_functions import as_rotary
from kmha.verify.diagnosing.seeded_case import seeded_script
from kmha.verify.diagnosing.trials import SQUARE, Sizes
from kmha.verify.diagnosing.unknown_mistakes import Clue, find_clue, returned_input, smallest_case
from kmha.verify.diagnosing.verdicts import ENOUGH, KNOWN, RAISES, RIGHT, UNJUDGED, UNKNOWN, SourceLine
from kmha.verify.diagnosing.whole_model import (
    WholeModelError,
    check_does_not_attend,
    check_takes_no_images,
    check_takes_vectors,
    check_takes_vectors_by_trial,
    judged,
    shown_by_calls,
)
from kmha.verify.diagnosing.with_parameters import WithParameters
from kmha.verify.mistakes import Mistake
from kmha.verify.tolerance import is_close

NOTHING: Mapping[str, Any] = MappingProxyType({})
NO_SIZES = Sizes(0, 0, 0, 0, 0, 0, 0, 0)  # of a whole model, whose calls take token ids


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The verdict on a candidate, and the evidence for it. `print` shows the report.

    Attributes:
        name: Name of the candidate.
        verdict: "right", "known" (mistakes of the bank give the same wrong numbers), "unknown" (no mistakes of the bank
            give the same wrong numbers), "raises" (the candidate cannot be run) or "unjudged" (the calls that ran do
            not suffice for a verdict).
        matches: All explanations that match the answers equally well, the simplest first.
        results: All trials with the candidate's answers.
        sizes: Sizes of the trials.
        convention: Calling convention that was found by trying.
        candidate: Candidate that was diagnosed.
        seed: Seed of everything that was drawn at random.
        nearest: Best explanation that does not match. Its distance shows how certain the verdict is.
        clue: First wrong step and pattern of the difference, for an unknown mistake.
        smallest: Smallest case that shows the candidate's mistake.
        wrong_layout: Another input layout that a right candidate runs with, making a known mistake.
        in_float16: Diagnosis in float16 of a candidate that is right in other dtypes and need not be right in float16.
        line: Line of the candidate's code to look at, if the numbers support one.
        evidence: Sentences about evidence besides the numbers of known mistakes.
        advice: Sentences that say what would help to reach a verdict.
        further: Further sentences for the report, such as on the cache of a layer that is right.
    """

    name: str
    verdict: str
    matches: tuple[Match, ...]
    results: tuple[TrialResult, ...]
    sizes: Sizes
    convention: Convention
    candidate: Candidate
    seed: int
    nearest: Match | None = None
    clue: Clue | None = None
    smallest: TrialResult | None = None
    wrong_layout: str | None = None
    in_float16: "Diagnosis | None" = None
    line: SourceLine | None = None
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.verdict == RIGHT

    @property
    def accused(self) -> bool:
        """True if the candidate is called wrong. A cache is compared with decoding without it, not with a reference."""
        return self.verdict == KNOWN or (self.verdict == UNKNOWN and self.candidate.chain == caches.NAME)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        return self.matches[0].mistakes if self.matches else ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the mistakes in the simplest explanation."""
        return tuple(mistake.id for mistake in self.mistakes)

    def code(self) -> str:
        """Return a script that shows the smallest case, or "" if there is no wrong case."""
        return script(self.smallest, self.candidate.code(self.smallest.trial)) if self.smallest else ""

    def short_code(self) -> str:
        """Return the script of `code`, with weights drawn by seed if the mistake shows with them."""
        return (seeded_script(self.candidate, self.smallest) if self.smallest else "") or self.code()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole diagnosis as plain data, for JSON."""
        return report.to_dict(self)

    def __str__(self) -> str:
        return rendering.text(self.to_dict())

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.name}: {self.verdict}{''.join(f' {id}' for id in self.ids)}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return what a notebook shows."""
        return {"text/plain": str(self)}

    @property
    def errors(self) -> dict[str, str]:
        """The candidate's errors, keyed by trial name."""
        return {result.trial.name: result.answer.error for result in self.results if result.answer.error}

    @property
    def wrong(self) -> dict[str, float]:
        """The distances from the right answer for the trials that are wrong, keyed by trial name."""
        wrong = (result for result in self.results if result.wrong and not result.answer.error)
        return {result.trial.name: result.distance for result in wrong}


def diagnose(
    candidate: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    mask: str | None = None,
    roles: Mapping[str, str] | None = None,
    expect: Sequence[str] = (),
    float16: bool = False,
    seed: int = 0,
    source: str = "",
    progress: Callable[[str], None] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Run a candidate on inputs that tell mistakes apart, and name its mistake.

    Args:
        candidate: Keras layer, torch module, or module of flax, Haiku or Equinox, as a class or an instance, or a
            function of NumPy, TensorFlow, torch or JAX arrays, with or without weights among its arguments. A function
            may call a layer, and may be a method of one: the weights are those of the layer. If one
            argument takes all weights, a function of the same module must make them, or their names, such as
            `params["W_q"]`, must tell what they are. If it has a key/value cache, decoding with the cache is compared
            with decoding without it. A `Decoding` says how to decode, if kmha cannot work it out.
        arguments: Arguments of the constructor or the function whose meaning does not follow from their names.
        mask: "attends" if True (or 1) in the candidate's mask means *attend*, "hides" if True means *hide*, "adds" if
            the mask is added to the logits, with 0 where attending is allowed. By default, the meaning with which the
            candidate is right, or else the custom of the mask's name.
        roles: Names of arguments that kmha does not know, keyed by role, such as {"query": "entree"}. For a mask, the
            meaning of True may come first: {"mask": "hides:masque"}.
        expect: Ids of the design choices in `kmha.verify.choices` that a block must make, such as "post-norm". Another
            choice in their places is then a mistake.
        float16: Whether the candidate must be right in float16 too. If not, mistakes in float16 are reported
            separately, as `in_float16`, because code that is right in other dtypes easily overflows in float16.
        seed: Seed of the sizes, weights and inputs.
        source: MODULE:NAME from which the printed script imports the candidate.
        progress: Function called with a line of text when a new stage begins.
        on_call: Function called with the name of each call of the candidate when the call begins, and with "" when it
            ends.

    Raises:
        ValueError: The candidate cannot be called, because kmha does not understand an argument or a weight.
    """
    tell = progress or (lambda _: None)

    decoding = find_decoding(candidate, arguments or {})
    called, always_given = _called(candidate, decoding, arguments or {})

    def read(chain: str = "", further: Mapping[str, Any] = NOTHING, said: Mapping[str, str] = NOTHING) -> Candidate:
        found = candidate_of(called, {**always_given, **further}, mask, {**(roles or {}), **said}, chain)
        always = ("always-causal",) if found.said_causal and found.chain == "encoder" else ()
        found.expected = tuple(id for id in checked((*expect, *always)) if makes(found.chain, id))
        return found

    asked: dict[str, Any] = {"mask": mask, "expect": expect, "float16": float16, "seed": seed}
    without_cache = functools.partial(_without_cache, read, name_of(candidate), asked, source, tell, on_call)
    if decoding is None:
        return without_cache() if called is candidate else _of_sequence(without_cache())
    found, unread = None, ""
    if decoding is not candidate and decoding.width:  # ids mean a whole model, which has no reference
        try:
            found = without_cache()
        except CandidateError as error:
            unread = str(error)
    of_cache = functools.partial(_of_cache, decoding, name_of(candidate), seed, tell, on_call)
    if decoding.alone is not None and found is not None:
        return _one_by_one(found, decoding, of_cache)
    judged = _with_cache(found, decoding, of_cache)
    if unread and judged.right:
        return dataclasses.replace(judged, verdict=UNJUDGED, advice=(unread,), further=())
    return judged


def _called(candidate: Any, decoding: Decoding | None, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return what is diagnosed as attention, and its arguments. Calls of one position each are one that is causal."""
    whole = as_sequence(candidate) if decoding is None else decoding.alone
    if whole is None:
        return candidate, dict(arguments)
    if decoding is not None:
        whole.__qualname__ = name_of(candidate)
    return whole, {"causal": True, **arguments}


def _told_additive(found: Diagnosis) -> Diagnosis:
    """Say what additive attention was taken for. What differs otherwise may be another design, as may its scale."""
    if not isinstance(found.candidate, additive.AdditiveCandidate):
        return found
    scales = any(id.startswith("scale") for id in found.ids)
    if found.verdict in (UNKNOWN, UNJUDGED) or scales:
        return dataclasses.replace(found, verdict=UNJUDGED, matches=(), advice=(found.candidate.otherwise,), line=None)
    return dataclasses.replace(found, further=(found.candidate.design, *found.further))


def _without_cache(
    read: Callable[..., Candidate],
    name: str,
    asked: Mapping[str, Any],
    source: str,
    tell: Callable[[str], None],
    on_call: Callable[[str], None] | None,
) -> Diagnosis:
    """Diagnose a candidate, which `read` makes, without its cache, or by its parts if it takes token ids or images."""
    try:
        found = _of_vectors(read, asked, source, tell, on_call)
    except WholeModelError as error:
        return _by_parts(error, asked, source, tell, on_call)
    except ImpossibleError as error:
        raise CandidateError(
            f"{name}: kmha made inputs that do not go together ({error}). "
            "Diagnose a function around it, such as lambda query, key, value: layer(query, key, value)."
        ) from None
    checked(asked["expect"], found.candidate.chain)  # which chain it is, is certain only now
    return found


def _of_vectors(read: Callable[..., Candidate], asked: Mapping[str, Any], *told: Any) -> Diagnosis:
    """Diagnose a candidate that takes vectors.

    Raises:
        WholeModelError: It takes token ids, or it runs with images alone.
    """
    try:
        found = _told_additive(_diagnose(read, asked["float16"], asked["seed"], *told))
    except (WholeModelError, NoWeightsError):  # the first call would make the weights, whatever it gets
        raise
    except CandidateError as error:
        unread = error.candidate
        with contextlib.suppress(CandidateError):
            unread = unread or read()
        of_images = _of_images(unread, asked["seed"])
        if of_images is None:
            raise
        return of_images
    if len(found.errors) == len(found.results) > 0:
        return _of_images(found.candidate, asked["seed"]) or found
    return found


def _of_images(layer: Candidate | None, seed: int) -> Diagnosis | None:
    """Diagnose a layer that cuts images into patches. Return `None` if the layer runs with vectors.

    Raises:
        WholeModelError: It runs with images alone, but does not cut them.
    """
    if not isinstance(layer, LayerCandidate):
        return None
    shown = patches.examine(layer)
    if shown is None:
        check_takes_no_images(layer)
        return None
    return _of_model(layer, shown, seed)


def _by_parts(
    error: WholeModelError,
    asked: Mapping[str, Any],
    source: str,
    tell: Callable[[str], None],
    on_call: Callable[[str], None] | None,
) -> Diagnosis:
    """Diagnose a model of token ids or images by its layers, and by what calls of the whole model show.

    `asked` are the options of `diagnose` that hold for each part, too.
    """
    checked(asked["expect"])

    def diagnose_part(kind: type) -> Diagnosis:
        tell(f"{kind.__name__} in {error.model.name}")
        place = source and f"{source.partition(':')[0]}:{kind.__name__}"
        diagnose_as = functools.partial(diagnose, kind, source=place, progress=tell, on_call=on_call)
        try:
            return diagnose_as(**asked)
        except CandidateError:
            raise
        except ValueError:  # such a part does not make the choices that are asked for, but another one may
            return diagnose_as(**{**asked, "expect": ()})

    found = judged(error.model, error.takes, diagnose_part)
    tell(f"calling {error.model.name} with other tokens")
    shown = shown_by_calls(error.model) if error.takes == "token ids" else None
    if shown is not None and (found is None or found[0].verdict != KNOWN):
        return _of_model(error.model, shown, asked["seed"], found[1] if found else "")
    if found is None:
        raise error
    first, says = found
    return dataclasses.replace(first, name=f"{first.name} in {error.model.name}", further=(*first.further, says))


def _of_model(model: LayerCandidate, shown: Match, seed: int, says: str = "") -> Diagnosis:
    """Return the diagnosis of a layer by what its calls show without a reference. `says` is a text on its parts."""
    known: dict[str, Any] = {"convention": model.convention, "candidate": model, "seed": seed}
    verdict = KNOWN if shown.mistakes else RIGHT
    return Diagnosis(model.name, verdict, (shown,), (), NO_SIZES, **known, further=(says,) if says else ())


def _of_cache(decoding: Decoding, name: str, seed: int, *tell: Any) -> Diagnosis:
    return Diagnosis(**examine(decoding, name, seed, *tell).fields(name, seed))


def _with_cache(found: Diagnosis | None, decoding: Decoding, of_cache: Callable[[], Diagnosis]) -> Diagnosis:
    """Diagnose a cache. `found` is the diagnosis of the candidate without it, or `None` if kmha cannot call it so."""
    is_right = decoding.weights is not None or (found is not None and found.right)
    if found is not None and found.verdict == KNOWN and (not is_right or _needs_other_inputs(found)):
        return found
    cached = of_cache()
    if found is not None and found.verdict in (UNKNOWN, UNJUDGED) and not is_right and cached.verdict != KNOWN:
        return found
    if found is None or not found.right or cached.verdict in (KNOWN, UNKNOWN):
        judged = cache_report.RIGHT_ALONE if is_right else cache_report.ALONE
        return dataclasses.replace(cached, further=(*cached.further, judged))
    return dataclasses.replace(found, further=(cache_report.remark(cached), *cached.further))


def _one_by_one(found: Diagnosis, decoding: Decoding, of_cache: Callable[[], Diagnosis]) -> Diagnosis:
    """Diagnose a cache that takes one position in each call. `found` is the diagnosis of all calls as one attention."""
    judged = found
    if decoding.weights is not None and (cached := of_cache()).verdict == KNOWN:
        judged = cached
    return _told_one_by_one(judged)


def _of_sequence(found: Diagnosis) -> Diagnosis:
    """Return the diagnosis of a class of one position, which is not said to differ: it may do more than attend."""
    if found.verdict == UNKNOWN:
        found = dataclasses.replace(found, verdict=UNJUDGED, advice=(cache_report.ONLY_THESE,), line=None)
    return _told_one_by_one(found)


def _told_one_by_one(judged: Diagnosis) -> Diagnosis:
    """Say that calls take one position, without the script of the smallest case, which has all positions at once."""
    return dataclasses.replace(judged, smallest=None, further=(*judged.further, cache_report.ONE_BY_ONE))


def _needs_other_inputs(found: Diagnosis) -> bool:
    """Return whether mistakes change the output, but not where query, key and value are one array, as in decoding."""
    trial = next(result.trial for result in found.results if not result.answer.error)
    alone = dataclasses.replace(trial, key=trial.query, value=trial.query, mask=None, key_mask=None)
    changes = [mistake.changes for mistake in found.mistakes]
    try:
        same = [is_close(run(each, changes)["output"], run(each)["output"], "float64") for each in (trial, alone)]
    except ImpossibleError:
        return False
    return same == [False, True]


@frameworks.with_whole_tracebacks()
def _diagnose(
    read: Callable[..., Candidate],
    float16: bool,
    seed: int,
    source: str,
    tell: Callable[[str], None],
    on_call: Callable[[str], None] | None,
    chain: str = "",
) -> Diagnosis:
    """Diagnose a candidate without a cache, which `read` makes, as `chain` if that is known."""
    candidate = read(chain)
    if memory_is_ignored(candidate):
        read = functools.partial(read, further=dict.fromkeys(optional_memory(candidate)))
        candidate = read(chain)
    candidate.source, candidate.on_call = source, on_call
    chosen, results = _run(candidate, seed, tell)
    half = () if float16 else tuple(result for result in results if result.trial.dtype == "float16")
    results = tuple(result for result in results if result not in half)
    diagnose_as = functools.partial(_diagnose, float16=float16, seed=seed, source=source, tell=tell, on_call=on_call)
    if other := _other_reading(read, candidate, results, diagnose_as, chain):
        return other
    sizes = chosen.sizes
    if chosen.convention.entry in SINGLES:
        sizes = dataclasses.replace(sizes, batch=1)
    known: dict[str, Any] = {
        "name": candidate.name,
        "seed": seed,
        "results": results,
        "sizes": sizes,
        "convention": candidate.convention,
        "candidate": candidate,
    }
    found = _judge(known, tell)
    if reading := suggested_reading(candidate, found.ids):
        other = diagnose_as(functools.partial(read, **reading.changes), chain=chain)
        return dataclasses.replace(other, further=(*reading.says, *other.further))
    if not found.right:
        doubts = sureness.advice(found)
        return dataclasses.replace(found, verdict=UNJUDGED, advice=doubts, line=None) if doubts else found
    return dataclasses.replace(found, wrong_layout=chosen.wrong_layout, in_float16=_diagnose_float16(found, half))


def _other_reading(
    read: Callable[..., Candidate],
    candidate: Candidate,
    results: tuple[TrialResult, ...],
    diagnose_as: Callable[..., Diagnosis],
    chain: str,
) -> Diagnosis | None:
    """Return the diagnosis of another reading of a candidate if it suits better, or `None`.

    Raises:
        CandidateError: The candidate's weights fit no known form.
    """
    unfit = candidate.weights_error is not None and all(result.answer.error for result in results)
    made = kind_of_made(candidate) if unfit and isinstance(candidate, LayerCandidate) else "attention"
    if made == "decoder":
        return diagnose_as(read, chain=made)
    if memory_raises(candidate, results):
        return diagnose_as(functools.partial(read, further=dict.fromkeys(optional_memory(candidate))), chain=chain)
    if cannot_do_without_memory(candidate, results):
        crossed = diagnose_as(read, chain=CROSSING)
        if crossed.verdict != RAISES:
            return crossed
    if unfit:
        if made != "attention":
            return diagnose_as(read, chain=made)
        raise CandidateError(f"{candidate.name}: {str(candidate.weights_error).removeprefix(f'{candidate.name}: ')}")
    if said := mask_by_place(candidate, results):
        with contextlib.suppress(CandidateError):
            other = diagnose_as(functools.partial(read, said=said))
            if not other.errors and (other.right or other.verdict == KNOWN):
                return other
    if said := unexplained_mask(candidate, results):
        with contextlib.suppress(CandidateError):
            other = diagnose_as(functools.partial(read, said=said), chain=candidate.chain)
            if explains_all(other):
                return other
    for said in of_unknown_argument(candidate, results):
        with contextlib.suppress(CandidateError):
            other = diagnose_as(functools.partial(read, said=said), chain=chain)
            if fits_unknown_argument(other):
                (role, name), *_ = said.items()
                return dataclasses.replace(other, further=(f"`{name}` is taken for its {role}.", *other.further))
    return None


def _run(
    candidate: Candidate, seed: int, tell: Callable[[str], None]
) -> tuple[ChosenConvention, tuple[TrialResult, ...]]:
    """Run the trials under the best convention. If most of them raise errors, try sizes with T = S too."""
    tell("trying calling conventions")
    chosen = find_convention(candidate, seed)
    tell("running the trials")
    results = tuple(candidate.evaluate(trial) for trial in chosen.drawn)
    is_square = candidate.chain != "attention" or chosen.convention.sizes == SQUARE
    if is_square or not 0.0 < _share(results) < ENOUGH:
        return chosen, results
    tell("trying square sizes")
    square = find_convention(candidate, seed, (SQUARE,))
    again = tuple(candidate.evaluate(trial) for trial in square.drawn)
    if _share(again) > ENOUGH:
        return square, again
    use(candidate, chosen)
    return chosen, results


def _share(results: Sequence[TrialResult]) -> float:
    """Return the share of the trials that ran."""
    return sum(not result.answer.error for result in results) / max(len(results), 1)


def name_of(thing: Any) -> str:
    """Return the name of a class, a function or an instance, for messages."""
    thing = thing.func if isinstance(thing, functools.partial) else thing
    name = getattr(thing, "__qualname__", None) or getattr(thing, "name", None) or type(thing).__qualname__
    return "candidate" if "<lambda>" in str(name) else str(name).split("<locals>.")[-1]


def candidate_of(
    thing: Any,
    arguments: Mapping[str, Any],
    mask: str | None = None,
    roles: Mapping[str, str] = NOTHING,
    chain: str = "",
) -> Candidate:
    """Wrap a layer or a function as a candidate. If its chain is unknown, its names and weights tell the chain.

    Raises:
        ValueError: A meaning of a mask, a role or an argument does not exist, or is missing.
    """
    meanings = [name.partition(":")[0] for name in roles.values() if ":" in name]
    mask = meanings[0] if meanings else mask
    roles = {role: name.rpartition(":")[2] for role, name in roles.items()}
    if mask is not None and mask not in MASK_MEANINGS:
        raise ValueError(
            "expected mask='attends' or mask='hides', for what True (or 1) in a mask means, or mask='adds' for a mask "
            f"that is added to the logits. Received: mask={mask!r}."
        )
    name = name_of(thing)
    thing = inspect.unwrap(thing) if is_layer(thing) and is_compiled(thing) else thing
    thing = (as_object(thing) if is_method(thing) else None) or thing
    is_module = not isinstance(thing, type) and is_layer(thing)
    fields = adapter_of(type(thing)).configured(thing) if is_module else None
    if fields is not None:  # the object is only a description of a layer, whose weights are set as for a class
        thing, arguments = type(thing), {**fields, **arguments}
    if isinstance(thing, type) or is_module:
        if not chain and (adds := additive.additive_candidate(thing, name, arguments, mask, roles)) is not None:
            return adds
        return _layer_candidate(thing, name, arguments, mask, roles, chain)
    held = stand_in(thing) or (thing if is_plain_object(thing) else None)
    if held is not None:
        more = held.roles if isinstance(held, type) and issubclass(held, WithParameters) else {}
        try:
            return _layer_candidate(held, name, arguments, mask, {**more, **roles}, chain)
        except NoWeightsError:
            if held is thing or not is_weightless(held):
                raise
    if (turning := as_rotary(thing)) is not None:
        return EmbeddingCandidate(turning, name, arguments, mask, roles)
    if callable(thing):
        if encoding_roles(parameters(thing), roles):
            return EncodingFunction(thing, name, arguments, roles)
        return FunctionCandidate(thing, name, arguments, mask, roles)
    raise CandidateError(f"expected a layer or a function. Received: {thing!r}.")


def _layer_candidate(
    thing: Any, name: str, arguments: Mapping[str, Any], mask: str | None, roles: Mapping[str, str], chain: str
) -> Candidate:
    """Wrap a layer, or the class of a layer, as a candidate."""
    layer = None
    chain = chain or kind_of(thing, arguments, roles)
    if chain == "attention":
        layer = LayerCandidate(thing, name, arguments, mask, roles)
        check_takes_vectors(layer)
        chain = chain_of(layer.constructor_roles, layer.roles)
        chain = chain_of_made(layer) if chain == "attention" else chain
        if chain != "embedding":
            check_takes_vectors_by_trial(layer)
    if layer is not None and chain == "attention":
        return CoreLayerCandidate(layer) if is_core(layer) else layer
    if chain == "embedding":
        if not (isinstance(thing, type) or is_layer(thing)) and keeps_results(thing):
            raise CandidateError(f"{name}: it was called and keeps its result. Give kmha its class, or a new object.")
        embedding = EmbeddingCandidate(thing, name, arguments, mask, roles)
        check_does_not_attend(embedding)
        return embedding
    block = BlockCandidate(thing, name, arguments, mask, roles, chain=chain)
    check_takes_vectors(block)
    if block.chain == "decoder" and chain_of_made(block) == "encoder":
        return BlockCandidate(thing, name, arguments, mask, roles, chain="encoder")
    return block


def _judge(found: dict[str, Any], tell: Callable[[str], None]) -> Diagnosis:
    """Return the verdict. `found` has what is known before the answers are judged, keyed by attribute."""
    candidate, sizes = found["candidate"], found["sizes"]
    answered = [result for result in found["results"] if not result.answer.error]
    if not answered:
        return Diagnosis(verdict=RAISES, matches=(), line=found["results"][0].answer.line, **found)
    right = matching.judge(answered)
    if right.trials == len(answered):
        findings = evidence.of_right(candidate, answered)
        found["evidence"] = tuple(finding.says for finding in findings)
        if wrong := evidence.named(findings, answered):
            return Diagnosis(verdict=KNOWN, matches=tuple(wrong), **found)
        return Diagnosis(verdict=RIGHT, matches=(right,), **found)
    tell("comparing with every known mistake")
    fitting, found["nearest"] = matching.ranked(answered, candidate.chain)
    fitting = matching.raising_first(_plausible(fitting, sizes, answered), found["results"])
    fitting = evidence.with_low_fill(candidate, answered, fitting)
    findings = [] if fitting else evidence.before_pairs(candidate, answered)
    fitting = fitting or _plausible(evidence.named(findings, answered), sizes, answered)
    if not fitting and any(_is_informative(result) for result in answered):
        tell("comparing with every pair of mistakes")
        fitting = _plausible(find_pairs(answered, candidate.chain), sizes, answered)
        fitting = _but_for_training(fitting, candidate, sizes, answered)
    if not fitting:
        tell("calling it again with other inputs and weights")
        findings += evidence.after_pairs(candidate, answered, found["nearest"])
        fitting = _plausible(evidence.named(findings, answered), sizes, answered)
    found["evidence"] = tuple(finding.says for finding in findings)
    fitting = evidence.fitting_text_first(candidate, fitting)
    if fitting and fitting[0].harmless:
        return Diagnosis(verdict=RIGHT, matches=tuple(fitting), **found)
    tell("looking for the smallest case")
    found["smallest"] = smallest_case(candidate, sizes, answered)
    if fitting:
        line = evidence.line_of(candidate, fitting[0].mistakes[0])
        return Diagnosis(verdict=KNOWN, matches=tuple(fitting), line=line, **found)
    tell("describing the difference")
    clue = find_clue(candidate, sizes, answered)
    return Diagnosis(verdict=UNKNOWN, matches=(), clue=clue, **found)


def _plausible(fitting: list[Match], sizes: Sizes, results: Sequence[TrialResult]) -> list[Match]:
    """Leave out mistakes that give the candidate's numbers only because it returns its input, or because H is 1.

    A single head has no order and no axis to confuse. A mistake in the axis of heads then gives each position its own
    value, or a plain sum, as much simpler code does.
    """
    if returned_input(results):
        return []
    heads = ("heads-", "softmax-over-heads")
    return [match for match in fitting if sizes.heads > 1 or not any(id.startswith(heads) for id in match.ids)]


def _but_for_training(
    fitting: list[Match], candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult]
) -> list[Match]:
    """Return the single mistakes that explain all calls but those in training, or else the pairs that explain all.

    How a layer drops numbers may hide another mistake, unless a pair has a mistake in the dropout itself.
    """
    without = [result for result in results if not result.trial.training]
    dropped = any(id.startswith("dropout") for match in fitting for id in match.ids)
    if dropped or len(without) == len(results) or not any(result.wrong for result in without):
        return fitting
    return _plausible(matching.singles(without, candidate.chain), sizes, without) or fitting


def _is_informative(result: TrialResult) -> bool:
    """Return whether the answer is wrong with numbers that differ from each other.

    An answer that is all zeros or all NaN is not informative, because some pair of mistakes always explains it.
    """
    finite = np.unique(result.answer.output[np.isfinite(result.answer.output)])
    return finite.size > 1 and result.wrong


def _diagnose_float16(found: Diagnosis, half: tuple[TrialResult, ...]) -> Diagnosis | None:
    """Diagnose the float16 trials of a candidate that is right in all other trials."""
    answered = [result for result in half if not result.answer.error]
    if not any(result.wrong for result in answered):
        return None
    fitting, nearest = matching.ranked(answered, found.candidate.chain)
    verdict = KNOWN if fitting else UNKNOWN
    return dataclasses.replace(found, verdict=verdict, matches=tuple(fitting), nearest=nearest, results=half)


__all__ = ["KNOWN", "RAISES", "RIGHT", "UNJUDGED", "UNKNOWN", "Diagnosis", "SourceLine", "candidate_of", "diagnose"]
