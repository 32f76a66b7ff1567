"""Checks of constructor arguments; each error says the rule, what was received, and how to mend it."""

import contextlib
import difflib
import inspect
import math
import numbers
from collections.abc import Iterable, Iterator
from typing import Any

# Names of torch.nn.MultiheadAttention whose meaning is the opposite of what is nearest here.
OF_TORCH = {
    "key_padding_mask": "True means ignore: pass `key_mask=~key_padding_mask` (True means attend).",
    "attn_mask": "True means ignore: pass `attention_mask=~attn_mask` (True means attend).",
}


def invalid(layer: str, argument: str, expected: str, received: Any, fix: str) -> ValueError:
    """The one form of our constructors' errors."""
    return ValueError(
        f"{layer} received an invalid value for argument `{argument}`, expected {expected}. "
        f"Received: {argument}={received!r}. {fix}"
    )


def size(layer: str, argument: str, value: Any, letter: str, fix: str) -> int:
    """`value` as a positive `int`: the size of the axis that `letter` names."""
    if not _is_size(value):
        raise invalid(layer, argument, f"a positive integer ({letter})", value, fix)
    return int(value)


def rate(layer: str, argument: str, value: Any) -> float:
    """`value` as a probability that leaves something: 0 ≤ value < 1, or 1 as Keras allows."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or math.isnan(value) or not 0 <= value <= 1:
        fix = "It is the probability with which a score is dropped; 0.1 is usual, 0 drops nothing."
        raise invalid(layer, argument, "a number between 0 and 1", value, fix)
    return value


def flag(layer: str, argument: str, value: Any, *, optional: bool = False) -> Any:
    """`value` if it is a boolean, or `None` where that is allowed."""
    if isinstance(value, bool) or (optional and value is None):
        return value
    allowed = "True, False or None" if optional else "True or False"
    raise invalid(layer, argument, allowed, value, "Pass the boolean itself, not a string or a number.")


def choice(layer: str, argument: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """`value`, which must be one of `allowed`."""
    if value not in allowed:
        names = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
        raise invalid(layer, argument, names, value, "Choose one of them.")
    return value


def seed(layer: str, value: Any) -> int | None:
    """`value` as the seed of the dropout."""
    if value is None or (isinstance(value, numbers.Integral) and not isinstance(value, bool)):
        return None if value is None else int(value)
    raise invalid(layer, "seed", "an integer or None", value, "It seeds the dropout; leave it out for a random one.")


def output_shape(layer: str, value: Any) -> tuple[int, ...] | None:
    """`value` as the sizes of the output's feature axes, `None` for the query's own."""
    if value is None:
        return None
    sizes = (value,) if isinstance(value, numbers.Integral) else value
    if isinstance(sizes, (tuple, list)) and sizes and all(map(_is_size, sizes)):
        return tuple(int(item) for item in sizes)
    raise ValueError(
        f"Invalid `output_shape` for {layer}: {value!r}. Expected a positive integer (E), or a tuple or list of them, "
        f"without the batch and position axes. Received: output_shape={value!r}. Leave it out to get the query's width."
    )


def attention_axes(layer: str, value: Any) -> tuple[int, ...] | None:
    """`value` as a tuple of axes, `None` for all of them."""
    if value is None:
        return None
    axes = (value,) if isinstance(value, numbers.Integral) else value
    if isinstance(axes, (tuple, list)) and axes and all(isinstance(axis, numbers.Integral) for axis in axes):
        return tuple(int(axis) for axis in axes)
    fix = "Name the axes of the query to attend over, counting the batch axis as 0, such as attention_axes=(1, 2)."
    raise invalid(layer, "attention_axes", "an integer, or a tuple or list of them", value, fix)


def _is_size(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


@contextlib.contextmanager
def naming_unknown(layer_class: type, *more: str) -> Iterator[None]:
    """While Keras' own constructor runs: has its complaint of an unknown argument name the nearest known one.

    Known are those of the class, and `more`.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        names = tuple(inspect.signature(layer_class.__init__).parameters)[1:-1]  # type: ignore[misc]
        raise explain_unknown(error, (*names, *more, "name", "dtype", "trainable")) from None


def explain_unknown(error: Exception, known: Iterable[str]) -> Exception:
    """`error`, with the nearest known name added where Keras (or Python) complains of an unknown argument."""
    message = str(error)
    if "nrecognized keyword argument" not in message and "unexpected keyword argument" not in message:
        return error
    quoted = message.split("'")[1::2]
    for name in quoted:
        if name in OF_TORCH:
            return type(error)(f"{message}. In torch, {OF_TORCH[name]}")
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        near = ["attention_mask"] if name == "mask" and "attention_mask" in known else near
        if near:
            return type(error)(f"{message}. Did you mean `{near[0]}`?")
    return type(error)(f"{message}. Known arguments: {', '.join(known)}.")
