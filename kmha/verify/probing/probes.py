"""Properties that any layer or model can be checked for without a reference, such as causality and padding."""

from typing import Any

import keras
import numpy as np

from kmha.verify import tolerance
from kmha.verify.probing import internals, properties
from kmha.verify.probing.baseline import Baseline
from kmha.verify.probing.calls import Callee, NotCalled
from kmha.verify.probing.inputs import Inputs
from kmha.verify.probing.reading import read
from kmha.verify.probing.report import Probes, Property
from kmha.verify.probing.sublayers import describe
from kmha.verify.wording import ended, error_text


def probe(
    layer_or_model: Any,
    *inputs: Any,
    mask: Any = None,
    layer: Any = None,
    causal: bool | str | tuple[str, ...] | None = None,
    pad_id: int | None = None,
    seed: int = 0,
    **call: Any,
) -> Probes:
    """Check which properties a layer, a model or a function has, by changing its inputs.

    | name | property | how it is tried |
    | --- | --- | --- |
    | finite | the output is finite | look at the output, except at padding |
    | repeats | two calls with training=False agree | call twice, and report whether training=True differs |
    | causal | the future does not change the past | change all tokens from a position on, for several positions |
    | padding | padded tokens change nothing | change the numbers at padding, or the embedding of its id |
    | padding_length | more padding changes nothing | add three padded positions |
    | batch_order | the order of the batch changes nothing | call with the items in another order |
    | batch_size | the other items of the batch change nothing | call with one item alone |
    | rows | rows of scores sum to one | get the scores of each innermost layer that can return scores |
    | gradient | gradient reaches every weight | compute the gradient of Σ output · random numbers |

    A property holds, does not hold, or could not be tried. Its row gives the size of the effect, relative to the
    output's largest element, and the first place that shows the effect. All properties should hold, with two
    exceptions. The future may change the past unless `causal` rules this out. Padding may change the output if its
    token id means padding by convention only.
    A key bias has a gradient of zero, because adding the same number to all logits of a row changes no softmax. The row
    says so. `probe` restores weights and random states at the end.

    Args:
        layer_or_model: Keras layer or model, or a function of arrays. The gradient of a function is not tried.
        *inputs: Inputs of the call: arrays (B, T, I) or token ids (B, T), lists and dicts of arrays, shapes for random
            numbers, or `keras.Input`. An array passed twice stays one array. A model of `keras.Input` needs no inputs.
        mask: Boolean mask (B, T), True at tokens, for every sequence with these axes, or a dict of masks, keyed by
            input. Tensors carry the mask, as after `Embedding(mask_zero=True)`. A mask with axes of size 1 in between
            is passed as `mask=`. Without a mask, token ids show the padding, or a layer that takes a mask gets one.
        layer: Name or path of a layer within the model, or the layer itself. The layer's outputs, scores and weights
            are examined instead of the model's. The inputs remain the model's.
        causal: `True` if the future must not change the past, or the names of the inputs whose future must not, such as
            a decoder's target but not its source. `None` reports without judging, unless `use_causal_mask=True`.
        pad_id: Token id of padding. `None` uses what the layers state (`mask_zero`, `pad_id`), or else 0.
        seed: Seed of the random numbers.
        **call: Further arguments of the call, such as `use_causal_mask=True` or `attention_mask=…`.

    Returns:
        A row for each property. `print` shows the rows as a table, and `passed` is True if every property that should
        hold does hold.

    Raises:
        ValueError: The inputs are missing or invalid, `layer` does not exist, or a mask has a wrong shape.

    >>> import keras, kmha, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
    >>> found = probe(kmha.MultiHeadAttention(2, 4), x, x, use_causal_mask=True)
    >>> found.passed, found["causal"].holds, found["rows"].holds
    (True, True, True)
    >>> probe(kmha.MultiHeadAttention(2, 4), x, x)["causal"].where
    'output[0, 0] changes with query[:, 6:]'
    """
    rng = np.random.default_rng(seed)
    callee = Callee(layer_or_model, layer)
    given = read(layer_or_model, inputs, call, mask, pad_id, rng)
    causal = call.get("use_causal_mask") is True or None if causal is None else causal
    names = _names(causal, given)
    _first_call(callee, given)
    baseline = Baseline(callee, given, _tolerance(callee, given), rng, names)
    rows: list[Property] = []
    for check in (
        properties.finite,
        properties.repeats,
        properties.causal,
        properties.padding,
        properties.padding_length,
        properties.batch_order,
        properties.batch_size,
        internals.rows,
        internals.gradient,
    ):
        rows += check(baseline)
    callee.restore()
    return Probes(_head(callee, given), keras.backend.backend(), baseline.tolerance, tuple(rows))


def _names(causal: Any, given: Inputs) -> Any:
    """Return `causal` as `None`, a bool or a tuple of input names."""
    if causal is None or isinstance(causal, bool):
        return causal
    wanted = (causal,) if isinstance(causal, str) else tuple(causal)
    known = [name for index in given.lengths() for name in given.slots[index].names]
    for name in wanted:
        if name not in known:
            raise ValueError(f"causal: there is no sequence {name!r}. The sequences are: {', '.join(known) or 'none'}.")
    return wanted


def _first_call(callee: Callee, given: Inputs) -> None:
    """Build the layers that are not built yet. Every further call starts from the state after this call."""
    try:
        outputs = callee.run(given)
    except NotCalled:
        raise
    except Exception as error:
        raise ValueError(
            f"{describe(callee.thing)} cannot be called with {_shapes(given)}: {ended(error_text(error))} "
            "Give all inputs of its call, in order or by name, such as probe(layer, query, value, attention_mask=…)."
        ) from error
    if not any(x.ndim and x.shape[0] == given.batch for x in outputs.values()):
        shapes = ", ".join(f"{name} {x.shape}" for name, x in outputs.items()) or "nothing with a shape"
        raise ValueError(
            f"{describe(callee.thing)} must return an array (B, …), with B={given.batch} as in {_shapes(given)}. "
            f"Received: {shapes}."
        )
    callee.remember()


def _tolerance(callee: Callee, given: Inputs) -> float:
    """Return the tolerance of the coarsest dtype that a layer computes in."""
    dtypes = callee.dtypes or {str(x.dtype) for x in [*given.arrays, *callee.run(given).values()]}
    return max(
        [tolerance.relative(x) for x in dtypes if x in tolerance.RELATIVE], default=tolerance.relative("float32")
    )


def _head(callee: Callee, given: Inputs) -> str:
    inner = "" if callee.layer is None else f", its {describe(callee.layer)}"
    return f"{describe(callee.thing)}{inner} on {_shapes(given)}"


def _shapes(given: Inputs) -> str:
    return ", ".join(f"{' = '.join(slot.names)} {x.shape} {x.dtype}" for slot, x in given.pairs()) or "no arrays"
