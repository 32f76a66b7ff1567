"""The properties. Each function changes one thing in the inputs, calls again, and measures how the outputs change."""

import dataclasses

import numpy as np

from kmha.verify.probing.baseline import Baseline, Effect, keep_positions, keep_tokens
from kmha.verify.probing.calls import Outputs
from kmha.verify.probing.inputs import CannotTry, Inputs
from kmha.verify.probing.report import Property
from kmha.verify.probing.sublayers import is_functional, is_keras, parameters_of

MAX_CUTS = 8  # maximum number of positions from which the future is changed
MAX_ALONE = 4  # maximum number of items that are run alone
EXTRA = 3  # number of additional padded positions


def finite(baseline: Baseline) -> list[Property]:
    """Check that the output has no NaN or infinity, except at padding."""
    keep = keep_tokens(baseline.inputs)
    for name, x in baseline.base.items():
        kept = np.expand_dims(keep(x), tuple(range(np.ndim(keep(x)), x.ndim)))
        bad = np.argwhere(~np.isfinite(x.astype("float64")) & kept)
        if len(bad):
            found = f"{name}[{', '.join(map(str, bad[0]))}] is {x[tuple(bad[0])]}"
            return [Property("finite", False, None, found)]
    return [Property("finite", True)]


def repeats(baseline: Baseline) -> list[Property]:
    """Check that two calls with training=False agree, and report whether training=True differs."""
    baseline.callee.restore()
    first = baseline.run(baseline.inputs, again=True)
    effect = baseline.effect(baseline.run(baseline.inputs, again=True), first)
    baseline.repeats = effect.size <= baseline.tolerance
    where = f"{effect.where} changes with a second call"
    if baseline.repeats:
        where = _training(baseline) if baseline.callee.trains else ""
    return [Property("repeats", baseline.repeats, effect.size, where)]


def _training(baseline: Baseline) -> str:
    try:
        effect = baseline.effect(baseline.run(baseline.inputs, training=True), baseline.base)
    except Exception as error:
        return f"training=True raises {type(error).__name__}"
    finally:
        baseline.callee.restore()
    differs = effect.size > baseline.tolerance
    return f"training=True changes it by {effect.size:.2g}" if differs else "the same with training=True"


def causal(baseline: Baseline) -> list[Property]:
    """Check that changes from a position on leave the outputs before it unchanged. Return one row per sequence."""
    inputs, lengths = baseline.inputs, baseline.inputs.lengths()
    named = set(baseline.causal) if isinstance(baseline.causal, tuple) else set()
    outputs = {x.shape[1] for x in baseline.base.values() if x.ndim > 2}
    fitting = [i for i, length in lengths.items() if length in outputs or named & set(inputs.slots[i].names)]
    if not fitting:
        sequences = ", ".join(f"{inputs.slots[i].name} {inputs.arrays[i].shape}" for i in lengths) or "a sequence"
        shapes = ", ".join(f"{name} {x.shape}" for name, x in baseline.base.items())
        why = f"{shapes} has no axis for the positions of {sequences}"
        return [Property("causal", None, None, why, True if baseline.causal else None)]
    rows = []
    for index in fitting:
        names = inputs.slots[index].names
        name = "causal" if len(lengths) == 1 else f"causal: {names[0]}"
        expected = True if baseline.causal is True or named & set(names) else None
        rows.append(baseline.row(name, lambda index=index: _causal(baseline, index), expected))  # type: ignore[misc]
    return rows


def _causal(baseline: Baseline, index: int) -> tuple[Effect, str]:
    inputs, name = baseline.inputs, baseline.inputs.slots[index].name
    length, tokens = inputs.lengths()[index], inputs.tokens(index)
    if length < 2:
        raise CannotTry(f"{name} has one position; give two or more")
    tokens = np.ones((inputs.batch, length), bool) if tokens is None else tokens
    worst, after = (Effect(), ""), 0.0
    for cut in sorted({round(x) for x in np.linspace(1, length - 1, MAX_CUTS)}):
        changed = baseline.run(inputs.changed(index, tokens & (np.arange(length) >= cut), baseline.rng))
        future = baseline.effect(changed, baseline.base, keep_positions(inputs, lambda t, cut=cut: t >= cut))  # type: ignore[misc]
        past = baseline.effect(changed, baseline.base, keep_positions(inputs, lambda t, cut=cut: t < cut))  # type: ignore[misc]
        after = max(after, future.size, past.size)
        if past.where or not worst[1]:  # the last cut shows most: how far back a single future token has an effect
            size = max(past.size, worst[0].size)
            worst = Effect(size, past.where), f"with {name}[:, {cut}:]" if past.where else ""
    if after == 0:
        raise CannotTry(f"no output depends on {name}")
    return worst


def padding(baseline: Baseline) -> list[Property]:
    """Check that other numbers, or other embeddings, at padded positions leave the outputs at tokens unchanged."""
    return [baseline.row("padding", lambda: _padding(baseline), _should_ignore(baseline))]


def _padding(baseline: Baseline) -> tuple[Effect, str]:
    inputs, note = baseline.inputs, ""
    if not any((tokens := inputs.tokens(i)) is not None and not tokens.all() for i in inputs.lengths()):
        inputs, which, note = _markable(baseline)
        if max(inputs.lengths()[i] for i in which) < 2:
            raise CannotTry("a single position cannot be padding; give two or more")
        inputs = inputs.padded(which)
    base = baseline.run(inputs)
    changed, embedded, names = inputs, False, []
    for index in inputs.lengths():
        tokens, slot = inputs.tokens(index), inputs.slots[index]
        if tokens is None or tokens.all():
            continue
        if slot.pad is not None and not (slot.assumed and _hidden_by_masks(inputs, index)):
            embedded = True
        else:
            changed = changed.changed(index, ~tokens, baseline.rng)
            names.append(slot.name)
    effect = baseline.effect(baseline.run(changed), base, keep_tokens(inputs)) if names else Effect()
    because = f"with padded positions of {', '.join(names)}"
    if embedded:
        outputs, count = baseline.callee.with_other_padding(changed, baseline.rng)
        if not count:
            raise CannotTry("no Embedding receives these ids, so only the id of the padding could be changed")
        effect = baseline.effect(baseline.outputs(outputs, inputs), base, keep_tokens(inputs))
        because = "with the embedding of padding"
    return effect, because if effect.where else note


def _hidden_by_masks(inputs: Inputs, index: int) -> bool:
    """Return whether masks hide the padded positions, which may also be marked by the id of padding alone."""
    pad = inputs.arrays[index] != inputs.slots[index].pad
    slots = list(inputs.slots)
    slots[index] = dataclasses.replace(slots[index], pad=None)
    rest = dataclasses.replace(inputs, slots=tuple(slots)).tokens(index)
    return rest is not None and bool((rest <= pad).all())


def padding_length(baseline: Baseline) -> list[Property]:
    """Check that more padding after the same tokens leaves the outputs unchanged."""
    return [baseline.row("padding_length", lambda: _padding_length(baseline), _should_ignore(baseline), varied=True)]


def _padding_length(baseline: Baseline) -> tuple[Effect, str]:
    inputs = baseline.inputs
    which, note = [i for i in inputs.lengths() if inputs.tokens(i) is not None], ""
    if not which:
        inputs, which, note = _markable(baseline)
    base = baseline.run(inputs)
    grown = {inputs.lengths()[i] for i in which}
    longer = inputs.lengthened(which, EXTRA, baseline.rng)
    try:
        baseline.callee.run(longer)
    except Exception:  # sequences that belong together, such as token ids and segment ids, must have the same length
        side_by_side = [i for i, length in inputs.lengths().items() if length in grown]
        longer = inputs.lengthened(side_by_side, EXTRA, baseline.rng)
    changed = {
        name: x[:, : base[name].shape[1]] if base[name].ndim > 1 and base[name].shape[1] in grown else x
        for name, x in baseline.outputs(baseline.callee.run(longer), longer).items()
    }
    effect = baseline.effect(changed, base, keep_tokens(inputs))
    return effect, f"with {EXTRA} more padded positions" if effect.where else note


def _markable(baseline: Baseline) -> tuple[Inputs, list[int], str]:
    """Return (inputs, sequences, remark), with a mask for each sequence. A missing mask is made here."""
    inputs = baseline.inputs
    which = [i for i in inputs.lengths() if inputs.carried[i] is not None or inputs.slots[i].pad is not None]
    if which:
        assumed = any(inputs.slots[i].assumed for i in which)
        return inputs, which, "id 0 is assumed to be padding" if assumed else ""
    if not inputs.lengths():
        raise CannotTry("there is no sequence: (B, T, I), or token ids (B, T)")
    if _takes_mask(baseline) is False:
        raise CannotTry("nothing marks the padding: give mask=…, boolean (B, T), True at tokens")
    which = list(inputs.lengths())
    return inputs.carrying(which), which, "with a mask made by probe"


def _takes_mask(baseline: Baseline) -> bool | None:
    """Return whether a mask that the tensors carry reaches the layer, or `None` if this is unknown."""
    thing, parameters = baseline.callee.thing, parameters_of(baseline.callee.thing)
    if not is_keras(thing):
        return False
    tensors = [slot for slot in baseline.inputs.slots if slot.role == "input"]
    if not is_functional(thing):
        if "mask" in parameters and len(tensors) == 1:
            return True
        if any(f"{name}_mask" in parameters for slot in tensors for name in slot.names):
            return True
    return None if is_functional(thing) or thing.supports_masking else False


def _should_ignore(baseline: Baseline) -> bool | None:
    """Return `True` if padding should change nothing, because it is known or the layer takes a mask, else `None`."""
    inputs = baseline.inputs
    tokens = {i: found for i in inputs.lengths() if (found := inputs.tokens(i)) is not None}
    declared = [i for i in tokens if inputs.carried[i] is not None or inputs.slots[i].pad is not None]
    marked = {*declared, *(i for i, found in tokens.items() if not found.all())}
    if marked:
        return True if any(not inputs.slots[i].assumed for i in marked) else None
    return _takes_mask(baseline) or None


def batch_order(baseline: Baseline) -> list[Property]:
    """Check that reordering the items of the batch reorders the outputs in the same way."""

    def attempt() -> tuple[Effect, str]:
        batch, worst = _several(baseline), Effect()
        for order in (list(range(batch))[::-1], [*range(1, batch), 0]):
            effect = _items(baseline, order, baseline.run(baseline.inputs.reordered(order)))
            worst = effect if effect.size > worst.size else worst
        return worst, "with another order" if worst.where else ""

    return [baseline.row("batch_order", attempt, varied=True)]


def batch_size(baseline: Baseline) -> list[Property]:
    """Check that an item has the same outputs alone as in the batch."""

    def attempt() -> tuple[Effect, str]:
        worst, because = Effect(), ""
        for item in range(min(MAX_ALONE, _several(baseline))):
            alone = baseline.inputs.reordered([item])
            effect = _items(baseline, [item], baseline.outputs(baseline.callee.run(alone), alone))
            if effect.size > worst.size:
                worst, because = effect, f"when item {item} is alone" if effect.where else ""
        return worst, because

    return [baseline.row("batch_size", attempt, varied=True)]


def _several(baseline: Baseline) -> int:
    if baseline.inputs.batch < 2:
        raise CannotTry("the batch has one item; give two or more")
    return baseline.inputs.batch


def _items(baseline: Baseline, order: list[int], changed: Outputs) -> Effect:
    """Return the difference of `changed` from the unchanged outputs of the batch's items `order`."""
    inputs = baseline.inputs.reordered(order)
    return baseline.effect(changed, {name: x[order] for name, x in baseline.base.items()}, keep_tokens(inputs))
