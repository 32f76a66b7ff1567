"""Asks any layer, in any model, what no reference is needed for: does it see the future, does padding change it, …"""

from typing import Any

import keras
import numpy as np

from kmha.verify import tolerance
from kmha.verify.probing import internals, properties
from kmha.verify.probing.baseline import Baseline
from kmha.verify.probing.calls import NotCalled, Subject
from kmha.verify.probing.inputs import Inputs
from kmha.verify.probing.reading import read
from kmha.verify.probing.report import Probes, Property
from kmha.verify.probing.sublayers import describe
from kmha.verify.wording import error_text


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
    """Tries, by changing the inputs, which properties a layer, a model or a function has.

    | name | property | tried by |
    | --- | --- | --- |
    | finite | the output is finite | looking, but not at padding |
    | repeats | training=False repeats | calling twice; what training=True does is said, and is no fault |
    | causal | the future does not change the past | changing all tokens from a position on, for several positions |
    | padding | padded tokens change nothing | changing their numbers, or what their id is embedded as |
    | padding_length | more padding changes nothing | padding by three positions more |
    | batch_order | the batch's order changes nothing | calling with the items in another order |
    | batch_size | the batch's other items change nothing | calling with one item alone |
    | rows | rows of scores sum to one | asking each innermost layer that can for its scores |
    | gradient | gradient reaches every weight | the gradient of Σ output · random numbers |

    Each property holds, or not, or could not be tried; with the size of the effect, relative to the output's largest
    element, and the first place that shows it. All of them should hold, but that the future may be seen where `causal`
    does not say otherwise, and that nothing need come of padding where only the custom says that it is padding. A key
    bias has a gradient of zero, since adding the same to all keys changes no softmax; that is said, and is no fault.
    Weights and random states are as before afterwards.

    Args:
        layer_or_model: a Keras layer or model; or a function of arrays, whose gradient is not tried.
        *inputs: what it is called with: arrays, (B, T, I) or token ids (B, T); lists and dicts of them; shapes to make
            random numbers of; or `keras.Input`. One array given twice stays one. None for a model of `keras.Input`.
        mask: boolean (B, T), True at tokens, of every sequence that has these axes, or a dict of masks by the name of
            an input. Tensors carry it, as from `Embedding(mask_zero=True)`. With axes of size 1 in between it is
            passed as `mask=`. Without it, token ids say what is padding, or a mask is made where the layer takes one.
        layer: the name or path of a layer within the model, or the layer: its outputs are looked at in place of the
            model's, its scores and its weights. The inputs are still the model's.
        causal: `True`: the future must not change the past; or of which inputs, by name: the target of a decoder, but
            not the source. `None` says no more than what is, but with `use_causal_mask=True`.
        pad_id: the token id that is padding; `None`: what the layers say (`mask_zero`, `pad_id`), or else 0.
        seed: of the random numbers.
        **call: further arguments of the call, such as `use_causal_mask=True` or `attention_mask=…`.

    Returns:
        The rows; `print` shows them as a table, `passed` says whether every property holds that should.

    Raises:
        ValueError: the inputs are unknown or do not fit, there is no such `layer`, or a mask has a wrong shape.

    >>> import keras, kmha, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
    >>> found = probe(kmha.MultiHeadAttention(2, 4), x, x, use_causal_mask=True)
    >>> found.passed, found["causal"].holds, found["rows"].holds
    (True, True, True)
    >>> probe(kmha.MultiHeadAttention(2, 4), x, x)["causal"].where
    'output[0, 0] changes with query[:, 6:]'
    """
    rng = np.random.default_rng(seed)
    subject = Subject(layer_or_model, layer)
    given = read(layer_or_model, inputs, call, mask, pad_id, rng)
    causal = call.get("use_causal_mask") is True or None if causal is None else causal
    names = _names(causal, given)
    _first_call(subject, given)
    baseline = Baseline(subject, given, _tolerance(subject, given), rng, names)
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
    subject.restore()
    return Probes(_head(subject, given), keras.backend.backend(), baseline.tolerance, tuple(rows))


def _names(causal: Any, given: Inputs) -> Any:
    """`causal` as `None`, a bool or a tuple of names."""
    if causal is None or isinstance(causal, bool):
        return causal
    wanted = (causal,) if isinstance(causal, str) else tuple(causal)
    known = [name for index in given.lengths() for name in given.slots[index].names]
    for name in wanted:
        if name not in known:
            raise ValueError(f"causal: there is no sequence {name!r}. There are: {', '.join(known) or 'none'}.")
    return wanted


def _first_call(subject: Subject, given: Inputs) -> None:
    """Builds what is not built yet; the state afterwards is the one that every call starts from."""
    try:
        outputs = subject.run(given)
    except NotCalled:
        raise
    except Exception as error:
        raise ValueError(
            f"{describe(subject.thing)} cannot be called with {_shapes(given)}: {error_text(error).rstrip('.')}. "
            "Give all inputs of its call, in order or by name, such as probe(layer, query, value, attention_mask=…)."
        ) from error
    if not any(x.ndim and x.shape[0] == given.batch for x in outputs.values()):
        shapes = ", ".join(f"{name} {x.shape}" for name, x in outputs.items()) or "nothing that is an array"
        raise ValueError(
            f"{describe(subject.thing)} must return an array (B, …), with B={given.batch} as in {_shapes(given)}. "
            f"Received: {shapes}."
        )
    subject.remember()


def _tolerance(subject: Subject, given: Inputs) -> float:
    """Of the coarsest dtype that something is computed in."""
    dtypes = subject.dtypes or {str(x.dtype) for x in [*given.arrays, *subject.run(given).values()]}
    return max(
        [tolerance.relative(x) for x in dtypes if x in tolerance.RELATIVE], default=tolerance.relative("float32")
    )


def _head(subject: Subject, given: Inputs) -> str:
    inner = "" if subject.layer is None else f", its {describe(subject.layer)}"
    return f"{describe(subject.thing)}{inner} on {_shapes(given)}"


def _shapes(given: Inputs) -> str:
    return ", ".join(f"{' = '.join(slot.names)} {x.shape} {x.dtype}" for slot, x in given.pairs()) or "no arrays"
