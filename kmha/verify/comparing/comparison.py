"""Compares a layer with `keras.layers.MultiHeadAttention` and with the reference, over many cases and all modes."""

import contextlib
import dataclasses
import difflib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from kmha.verify import tolerance
from kmha.verify.comparing import draw, expected
from kmha.verify.comparing.cases import Case
from kmha.verify.comparing.report import Measurement, Report
from kmha.verify.comparing.running import MODES, WIDEST, Candidate, Results
from kmha.verify.comparing.shrink import shrunk
from kmha.verify.wording import error_text

Progress = Callable[[int, int], None]


def compare(
    layer_class: Any,
    cases: int | Sequence[Case] = 200,
    *,
    seed: int = 0,
    dtype: str | None = None,
    xla: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Runs a layer, the built-in layer and the float64 reference on the same cases, forward and gradients.

    Each case is a random configuration with its own shapes, masks and weights (`kmha.verify.comparing.draw`); it is run
    eagerly and traced, and every tenth is compiled by XLA too.
    Ctrl-C ends the run early: the report covers what was done.

    Args:
        layer_class: a Keras layer with the built-in layer's constructor and call arguments, whose weights stand in the
            built-in's order, kernels shaped (I, H, O) or (H, I, O).
        cases: how many random cases, or the cases themselves.
        seed: of the random cases.
        dtype: a dtype or dtype policy for all cases; `None` takes float64 (float32 on torch) for most, the others for
            some.
        xla: whether every case is compiled by XLA too.
        progress: called with the number of cases done and of all, after each case.

    Returns:
        The report: a row for each feature, and the smallest failing case if there is one.

    Raises:
        ValueError: there are no cases, `layer_class` is no class, or the dtype is unknown or not to be had.
    """
    if not isinstance(layer_class, type):
        raise ValueError(f"layer_class must be a class, which is built anew for each case. Received: {layer_class!r}.")
    check_dtype(dtype)
    if not cases or (isinstance(cases, int) and cases < 1):
        raise ValueError(f"cases must be a positive number, or a list that is not empty. Received: {cases}.")
    backend = keras.backend.backend()
    widest = WIDEST[backend]
    if isinstance(cases, int):
        drawn = range(cases)
        cases = [draw.case(seed, index, dtype or draw.dtype_of(index, widest)) for index in drawn]
    report = Report(f"{layer_class.__module__}.{layer_class.__qualname__}", backend, seed, dtype or widest)
    try:
        for index, case in enumerate(cases):
            report.add(case, measured(layer_class, case, modes(index, xla)))
            if progress:
                progress(index + 1, len(cases))
        if report.failures:
            _shrink(layer_class, report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def check_dtype(dtype: str | None) -> None:
    """Raises a ValueError if nothing can be compared in `dtype` on Keras' backend."""
    if dtype is not None and dtype.removeprefix("mixed_") not in tolerance.RELATIVE:
        known = ", ".join(tolerance.RELATIVE)
        raise ValueError(f"dtype must be one of {known}, or mixed_ and a half type. Received: {dtype!r}.")
    backend = keras.backend.backend()
    if dtype == "float64" != WIDEST[backend]:
        raise ValueError(f"Keras on {backend} multiplies float64 in {WIDEST[backend]}; choose {WIDEST[backend]}.")


def modes(index: int, xla: bool) -> tuple[str, ...]:
    """The modes that case number `index` is run in."""
    available = MODES[keras.backend.backend()]
    return available if xla or index % 10 == 0 else tuple(mode for mode in available if mode != "xla")


def run(layer_class: Any, case: Case, mode: str = "eager") -> dict[str, np.ndarray]:
    """One layer on one case: "output", "scores" if asked for, and the gradients as "d query", "d key/kernel", …"""
    return Candidate(layer_class, case).run(mode, case.upstream())


def expect(case: Case, mode: str = "eager") -> dict[str, np.ndarray]:
    """What `run` should give, by the reference."""
    return expected.of(case, expected.kept_by_dropout(case, mode)).results


def _shrink(layer_class: Any, report: Report) -> None:
    """Puts the smallest case that fails as the first failure does into the report; the first case itself at first."""
    first = report.failures[0]
    report.smallest, report.smallest_failures = first.case, [first]

    def failures(case: Case) -> Iterator[Measurement]:
        return (found for found in _quietly(layer_class, case, (first.mode,)) if not found.agrees)

    report.smallest = shrunk(first.case, lambda case: any(True for _ in failures(case)))
    report.smallest_failures = list(failures(report.smallest))


def measured(layer_class: Any, case: Case, modes: Iterable[str]) -> list[Measurement]:
    """The differences of one case: against the reference, and against the built-in where it is right."""
    return list(_quietly(layer_class, case, tuple(modes)))


def _quietly(layer_class: Any, case: Case, modes: tuple[str, ...]) -> Iterator[Measurement]:
    """The measurements one by one, without the built-in's warning of a softmax over a single key."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You are using a softmax over axis")
        yield from _measurements(layer_class, case, modes)


def _measurements(layer_class: Any, case: Case, modes: tuple[str, ...]) -> Iterator[Measurement]:
    gap = builtin_gap(case)
    fused = builtin_is_fused(case)
    candidate = _built(layer_class, case)
    theirs = _built(keras.layers.MultiHeadAttention, case)
    if not isinstance(candidate, str):
        yield from _broken_promises(candidate)
    for mode in modes:
        wanted = expected.of(case, expected.kept_by_dropout(case, mode), spare_empty_rows=fused and not gap)
        ours = _run(candidate, mode, wanted.upstream)
        found = list(_differences(case, mode, "reference", ours, wanted.results))
        if not gap:
            rows = wanted.attending if fused else np.ones_like(wanted.attending)
            found += _differences(case, mode, "built-in", ours, _run(theirs, mode, wanted.upstream), rows)
        elif not all(one.agrees for one in found):  # then it may do what the built-in does
            same = list(_differences(case, mode, "built-in", ours, _run(theirs, mode, wanted.upstream)))
            if all(one.agrees for one in same):
                found = [dataclasses.replace(one, explained=gap) for one in same]
        yield from found


def _broken_promises(candidate: Candidate) -> Iterator[Measurement]:
    """What the layer says of its output and is not so; a call that fails is reported when it is measured."""
    with contextlib.suppress(Exception):
        for name, (is_so, should_be) in candidate.promises().items():
            if is_so != should_be:
                said = f"{name} of the output: {is_so}, expected {should_be}"
                yield Measurement(candidate.case, "eager", "built-in", name, math.inf, math.inf, said)


def _built(layer_class: Any, case: Case) -> Candidate | str:
    """The layer, or what its error said: the layer is a stranger's, and whatever it raises is a finding."""
    try:
        return Candidate(layer_class, case)
    except Exception as error:
        return error_text(error)


def _run(candidate: Candidate | str, mode: str, upstream: np.ndarray) -> Results | str:
    """The layer's results, or what its error said."""
    if isinstance(candidate, str):
        return candidate
    try:
        return candidate.run(mode, upstream)
    except Exception as error:
        return error_text(error)


def _differences(
    case: Case, mode: str, against: str, ours: Results | str, theirs: Results | str, rows: Any = None
) -> Iterator[Measurement]:
    """One measurement for each result; a gradient is relative to the largest of all gradients, for some are zero."""
    if isinstance(ours, str) or isinstance(theirs, str):
        # Both failing in the same way is agreement too; the messages differ in the layer's name.
        same = difflib.SequenceMatcher(None, str(ours), str(theirs)).ratio() > 0.8
        off = 0.0 if same else math.inf
        yield Measurement(case, mode, against, "all", off, off, ours if isinstance(ours, str) else f"they: {theirs}")
        return
    gradients = [np.max(np.abs(theirs[name]), initial=0.0) for name in theirs if name.startswith("d ")]
    for name, array in theirs.items():
        if name not in ours:
            yield Measurement(case, mode, against, name, math.inf, math.inf, f"no {name} was returned")
            continue
        mine = ours[name]
        if name == "output" and rows is not None and mine.shape == array.shape:
            mine, array = mine[rows], array[rows]
        largest = float(max(gradients)) if name.startswith("d ") else None
        absolute, relative = tolerance.difference(mine, array, largest)
        said = "" if mine.shape == array.shape else f"shape {mine.shape}, expected {array.shape}"
        yield Measurement(case, mode, against, name, absolute, relative, said)


def builtin_is_fused(case: Case) -> bool:
    """Whether the built-in takes its fused path, on which a row with nothing to attend to is not zero."""
    return not case.dropout and not case.return_scores and case.rank == 3


def builtin_gap(case: Case) -> str | None:
    """The row of "Where kmha differs" for which the built-in cannot be compared in this case, if there is one."""
    odd_axes = len(case.rows) > 1 or (case.between and case.axis == 2)
    if odd_axes and (case.use_causal_mask or case.sliding_window is not None):
        return "causal mask along the attention axes"
    if case.paddings and (len(case.rows) > 1 or (case.between and case.axis == 1)):
        return "padding masks with attention_axes"
    if case.paddings and case.mask and not _same_rank_as_padding(case):
        return "masks of different ranks"
    if "query_mask" in case.paddings:
        return "an explicit query_mask"
    backend, exact = keras.backend.backend(), 1 / math.sqrt(case.key_dim)
    if case.dtype == "float64" and backend == "tensorflow" and float(np.float32(exact)) != exact:
        return "scale in float64"
    if (
        backend == "jax"
        and builtin_is_fused(case)
        and (case.value_dim is not None or case.dtype not in ("float32", "mixed_bfloat16", "bfloat16"))
    ):
        return "JAX's fused kernel, where it is inexact or fails"
    return None


def _same_rank_as_padding(case: Case) -> bool:
    """Whether the built-in, which joins masks by their last axes, joins this one with a padding mask rightly."""
    front = case.mask[:-2]  # what stands before the positions
    return front in ("", "B", "1") if not case.between else front in ("", "BX", "1X")
