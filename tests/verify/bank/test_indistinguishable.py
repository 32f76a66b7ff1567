import dataclasses
import itertools

import numpy as np
import pytest

from kmha.verify.bank.indistinguishable import SAME, Configuration, expected, expected_in_block, holds
from kmha.verify.bank.self_test import random_configuration, with_dropout
from kmha.verify.chains.attention import ATTENTION, ImpossibleError, run
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.mistakes import BANK

pytestmark = pytest.mark.sampled(4)

APART = 1e-6  # relative to the largest element: answers that are closer are the same
RIGHT = "right"
EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
FLAGS = {field.name for field in dataclasses.fields(Accepts)} | {"core", "scores", "use_bias"}
SEVERAL_HEADS = "heads | -core"
# What a candidate must have or accept for a mistake to show: one of the conditions between the bars. Ids are prefixes.
NEEDS = {
    "heads-": SEVERAL_HEADS,
    "mask-first-head-only": "mask heads | mask -core | causal heads | causal -core | padding heads | padding -core",
    "scale-all-heads": SEVERAL_HEADS,
    "scale-size-over-heads": SEVERAL_HEADS,
    "softmax-over-heads-and-keys": SEVERAL_HEADS,
    "logits-query-query": "cross | -core",
    "logits-key-": "cross | -core",
    "logits-query-value": "cross value | -core",
    "mix-key": "cross value | -core",
    "inputs-all-": "cross",
    "inputs-query-from-encoder": "cross",
    "inputs-query-value-swapped": "cross",
    "inputs-value-from-query": "cross",
    "inputs-key-from-query": "cross",
    "inputs-key-value-swapped": "cross value",
    "inputs-value-is-key": "cross value",
    "inputs-key-is-value": "cross value",
    "causal-": "causal",
    "causal-always": "",
    "causal-wrong-corner": "causal cross",
    "causal-replaces-others": "causal mask | causal padding -query_padding",
    "masks-either": "mask causal | mask padding | causal padding",
    "mask-replaces-padding": "mask padding",
    "mask-replaces-causal": "mask causal",
    "padding-": "padding",
    "padding-replaces-mask": "mask padding",
    "padding-replaces-causal": "causal padding",
    "padding-of-query-for-keys": "cross padding query_padding",
    "mask-of-": "mask | padding",
    "mask-items-as-heads": "mask | padding",
    "mask-tiled": "mask heads | mask -core | padding heads | padding -core",
    "mask-repeated": "mask heads | mask -core | padding heads | padding -core",
    "mask-transposed": "mask",
    "mask-first-row-for-all": "mask",
    "mask-last-row-for-all": "mask",
    "mask-any-row-for-all": "mask",
    "mask-all-": "mask",
    "mask-argument-ignored": "mask",
    "mask-adds-10000": "mask",
    "mask-adds-100": "mask",
    "mask-fills-100": "mask",
    "mask-forbids-zeros": "mask",
    "mask-from-zero-keys": "mask",
    "mask-empty-row-nan": "mask",
    "scale-after-mask": "mask",
    "mask-after-softmax-renormalised": "mask",
    "mask-": "mask | causal | padding",
    "dropout-": "training",
    "returned-": "scores",
    "returned-unmasked": "scores mask | scores causal | scores padding",
    "returned-first-head": "scores heads | scores -core",
    "returned-dropped": "scores training",
    "half-": "half",
    "half-mask-times-infinity": "half mask | half causal | half padding",
    "half-mask-infinite": "half mask",
    "half-mask-twice": "half mask padding",
}


def _draw(configuration):
    """Return the trials of a configuration, with a draw of what dropout keeps."""
    rng = np.random.default_rng([configuration.seed, 1])
    return [with_dropout(trial, rng) for trial in configuration.draw(rng)]


def _needs(id):
    """Return what a candidate must accept for the mistake to show, or "" for nothing."""
    fitting = [prefix for prefix in NEEDS if id.startswith(prefix)]
    return NEEDS[max(fitting, key=len)] if fitting else ""


def _shows(condition, configuration):
    return any(holds(part, configuration) for part in condition.split("|"))


def same(configuration, only=None):
    """Return the groups of ids that are one function in this configuration, with "right" as one of the ids.

    A mistake that is impossible in some trials raises there, which is an answer too. One that is impossible in all
    trials was not made, and is left out. `only` are the ids to try; by default, all of attention.
    """
    chosen = [BANK[id] for id in only] if only is not None else matching.mistakes_of("attention")
    ids = [RIGHT, *(mistake.id for mistake in chosen)]
    possible = set()
    groups = [list(range(len(ids)))]
    for trial in sorted(_draw(configuration), key=_kinds_of_masks, reverse=True):
        # A mistake that differs from all others need not be run again.
        left = [index for group in groups for index in group if len(group) > 1]
        changes = {index: [chosen[index - 1].changes] if index else [] for index in left}
        found = {index: _answer(trial, changes[index], configuration.scores) for index in left}
        possible |= {index for index, one in found.items() if one is not None}
        groups = [part for group in groups for part in _parts(group, found)]
    alike = [tuple(ids[index] for index in group if index in possible) for group in groups if len(group) > 1]
    return [group for group in alike if len(group) > 1]


def _kinds_of_masks(trial):
    """Return the number of masks. Trials with more masks tell more mistakes apart."""
    return (trial.mask is not None) + trial.causal + (trial.key_mask is not None)


def _parts(group, found):
    """Divide a group into those with the same answers."""
    if len(group) == 1:
        return [group]
    parts = []
    for index in group:
        part = next((part for part in parts if _close(found[part[0]], found[index])), None)
        if part is None:
            parts.append([index])
        else:
            part.append(index)
    return parts


def _answer(trial, changes, scores=True):
    """Return everything that a caller can see, as one row of relative numbers; `None` if the chain raises.

    The first number is the sum of the others, which shows most differences.
    """
    try:
        state = run(trial, changes)
    except ImpossibleError:
        return None
    row = np.concatenate([[float(state["untouched"])], *(_seen(trial, array) for array in _arrays(state, scores))])
    return np.concatenate([[row.sum()], row])


def _arrays(state, scores):
    return [np.asarray(state["output"]), *([np.asarray(state["returned"])] if scores else [])]


def _seen(trial, array):
    """Return one array as a row: its shape, where it is not finite, and its numbers, without rows not compared."""
    finite = np.isfinite(array)
    empty = trial.empty_rows()
    rows = empty[:, :, None] if array.ndim == 3 else empty[:, None, :, None]
    fits = all(one in (1, other) for one, other in zip(rows.shape, array.shape, strict=array.ndim in (3, 4)))
    compared = finite & ~np.broadcast_to(rows, array.shape) if fits else finite
    largest = max(float(np.max(np.abs(array), where=compared, initial=0.0)), 1e-30)
    numbers = np.where(compared, array, 0.0) / largest
    return np.concatenate([array.shape, [np.log(largest)], ~finite.ravel(), numbers.ravel()])


def _close(one, other):
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or abs(one[0] - other[0]) > APART * len(one):
        return False
    return bool((np.abs(one[1:] - other[1:]) <= APART).all())


def _with(flags, seed=0):
    """Return a configuration that accepts everything, except for these flags."""
    values = {flag.removeprefix("-"): not flag.startswith("-") for flag in flags.split()}
    own = {name: values.pop(name) for name in ("core", "scores", "use_bias") if name in values}
    return Configuration(seed, dataclasses.replace(EVERYTHING, **values), **own)


def _unexpected(configuration):
    """Return the pairs that are one function, and the ids that are right, which `SAME` does not list."""
    listed = [set(ids) for ids in expected(configuration)]
    found = []
    for group in same(configuration):
        if RIGHT in group:
            unseen = [one for one in group[1:] if not _needs(one) or _shows(_needs(one), configuration)]
            found += [(RIGHT, one) for one in unseen]
        else:
            pairs = itertools.combinations(group, 2)
            found += [pair for pair in pairs if not any(set(pair) <= ids for ids in listed)]
    return found


@pytest.mark.parametrize("flags", ["", "core", "wide", "-use_bias"])
@pytest.mark.parametrize("seed", [101])
def test_candidate_that_accepts_everything_tells_all_apart(flags, seed):
    configuration = _with(flags, seed)
    assert _unexpected(configuration) == []
    if flags != "wide":
        assert same(configuration) == []


@pytest.mark.parametrize("seed", range(200, 215))
def test_no_unlisted_groups_in_a_random_configuration(seed):
    assert _unexpected(random_configuration(seed)) == []


@pytest.mark.parametrize("one", SAME, ids=lambda one: f"{one.ids[0]} {one.when}")
def test_listed_groups_are_the_same(one):
    """Where the condition does not hold, the mistakes differ."""
    assert set(one.ids) <= BANK.keys()
    assert one.why
    assert same(_with(one.when), one.ids) in ([one.ids], [one.ids[::-1]])
    assert same(_with(""), one.ids) == []


@pytest.mark.parametrize("prefix", NEEDS)
def test_needs(prefix):
    """A mistake shows if a candidate has the flags that it needs, and does not show if one is missing."""
    ids = [id for id in BANK if id.startswith(prefix) and _needs(id) == NEEDS[prefix] and _of_attention(id)]
    assert ids
    for part in NEEDS[prefix].split("|"):
        configuration = _with(part)
        shown = [id for group in same(configuration, ids) if RIGHT in group for id in group]
        assert shown == []
    for flag in set(NEEDS[prefix].replace("|", " ").split()):
        without = _with(flag.removeprefix("-") if flag.startswith("-") else f"-{flag}")
        if not _shows(NEEDS[prefix], without):
            group = next((group for group in same(without, ids) if RIGHT in group), (RIGHT,))
            assert set(ids) - set(group) <= _impossible(without, ids)


def _of_attention(id):
    return "attention" in BANK[id].chains()


def _impossible(configuration, ids):
    drawn = _draw(configuration)
    return {id for id in ids if all(_answer(trial, [BANK[id].changes]) is None for trial in drawn)}


def test_conditions_use_known_flags():
    for condition in (*(one.when for one in SAME), *NEEDS.values()):
        assert {flag.removeprefix("-") for flag in condition.replace("|", " ").split()} <= FLAGS


def test_the_bank_is_large():
    mistakes = matching.mistakes_of("attention")
    assert len(mistakes) >= 190
    for one in mistakes:
        assert one.changes.keys() <= ATTENTION.keys()
        assert one.says.endswith(".")
        assert one.says.startswith("You ")
        assert one.look
        assert one.source
    assert len({one.says for one in mistakes}) == len(mistakes)


def test_without_a_mask_a_missing_mask_is_right():
    plain = Configuration(0, Accepts(mask=False))
    assert same(plain, ["scale-missing", "mask-missing", "scale-keys"]) == [(RIGHT, "mask-missing")]


def test_raising_differs_from_answering():
    """The transposed mask raises if T ≠ S, and is right without a mask, so it equals neither."""
    configuration = Configuration(0, Accepts())
    assert same(configuration, ["mask-transposed", "mask-missing"]) == []
    assert same(Configuration(0, Accepts(mask=False)), ["mask-transposed", "mask-missing"]) == [
        (RIGHT, "mask-transposed", "mask-missing")
    ]
    # A mistake that is never possible is not listed.
    assert same(Configuration(0, Accepts(), core=True), ["bias-missing-query", "bias-missing-value"]) == []


def test_scores_count_only_where_they_are_returned():
    ids = ["returned-logits"]
    assert same(Configuration(0, Accepts()), ids) == []
    assert same(Configuration(0, Accepts(), scores=False), ids) == [(RIGHT, "returned-logits")]


def test_dropout_is_drawn():
    drawn = {trial.name: trial for trial in _draw(Configuration(0, EVERYTHING))}
    training, other = drawn["dropout, training"], drawn["dropout, not training"]
    for kept in (training.kept, other.more["kept"]):
        assert set(np.unique(kept)) == {0, 1 / (1 - training.rate)}
    assert other.kept is None


def _groups(trials, chain):
    """Return the mistakes that give the same numbers in all trials, without those that change nothing or raise."""
    bank = {one.id: [one.changes] for one in matching.mistakes_of(chain)}
    groups, made = [[RIGHT, *bank]], set()
    for trial in trials:
        finer = []
        for group in groups:  # a mistake that is alone need not be run again
            found = {identity: _answer(trial, bank.get(identity, []), scores=False) for identity in group}
            made |= {identity for identity, row in found.items() if row is not None}
            left = list(group)
            while left:
                together = [other for other in left if _alike(found[left[0]], found[other])]
                left = [other for other in left if other not in together]
                finer += [together] if len(together) > 1 or together[0] not in made else []
        groups = finer
    return [set(group) for group in groups if RIGHT not in group and len(group) > 1 and group[0] in made]


def _alike(one, other):
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and (np.abs(one - other) <= APART).all()


@pytest.mark.parametrize(
    ("accepts", "seed"),
    [
        (BlockAccepts("encoder"), 0),
        (BlockAccepts("encoder", norm_first=True), 1),
        (BlockAccepts("encoder", causal=False), 2),
        (BlockAccepts("decoder"), 3),
        (BlockAccepts("decoder", memory=True, norm_first=True), 4),
        (BlockAccepts("embedding"), 5),
    ],
)
def test_no_unlisted_groups_in_a_block(accepts, seed):
    groups = [set(group) for group in expected_in_block(accepts)]
    for found in _groups(draw_block(seed, accepts), accepts.chain):
        assert any(found <= group for group in groups), found
