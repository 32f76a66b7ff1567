"""Compare a layer with `keras.layers.MultiHeadAttention` and with the reference, over many cases and all modes."""

import contextlib
import dataclasses
import difflib
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from kmha.layers.builtin import BUILTIN
from kmha.verify import tolerance
from kmha.verify.comparing import expected
from kmha.verify.comparing.cases import Case, draw_case, dtype_of
from kmha.verify.comparing.report import Measurement, Report
from kmha.verify.comparing.running import MODES, WIDEST, BuiltLayer, Results, WeightsDoNotFit
from kmha.verify.comparing.shrinking import shrink
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
    mapping: Callable[..., Iterable[Any]] = map,
) -> Report:
    """Run a layer, the built-in layer and the float64 reference on the same cases, forward and backward.

    Each case is a random configuration with its own shapes, masks and weights (`kmha.verify.comparing.cases`). The
    layer runs eagerly and traced, and is compiled by XLA too in every tenth case. Ctrl-C ends the run early, and the
    report then covers the cases that are done.

    Args:
        layer_class: Keras layer class with the built-in layer's constructor and call arguments. The layer's weights
            must have the built-in's order, with kernels (I, H, O) or (H, I, O).
        cases: Number of random cases, or the cases themselves.
        seed: Seed of the random cases.
        dtype: Dtype or dtype policy of all cases. `None` selects float64 (float32 on torch) for most cases, and other
            dtypes for the rest.
        xla: Whether to compile every case by XLA.
        progress: Function called after each case with the number of cases done and the total.
        mapping: Function like `map` that runs the cases and shrinks the first that fails, such as that of an executor
            with several processes.

    Returns:
        A report with a row for each feature, and the smallest failing case if there is one.

    Raises:
        ValueError: `cases` is empty, `layer_class` is not a class, or the dtype is unknown or not available.
    """
    if not isinstance(layer_class, type):
        raise ValueError(
            f"layer_class must be a class, because each case builds a new layer. Received: {layer_class!r}."
        )
    check_dtype(dtype)
    if not cases or (isinstance(cases, int) and cases < 1):
        raise ValueError(f"cases must be a positive number or a list that is not empty. Received: {cases}.")
    backend = keras.backend.backend()
    widest = WIDEST[backend]
    if isinstance(cases, int):
        drawn = range(cases)
        cases = [draw_case(seed, index, dtype or dtype_of(index, widest)) for index in drawn]
    report = Report(f"{layer_class.__module__}.{layer_class.__qualname__}", backend, seed, dtype or widest)
    try:
        in_modes = [modes(index, xla) for index in range(len(cases))]
        found = mapping(functools.partial(measured, layer_class), cases, in_modes)
        for number, (case, measurements) in enumerate(zip(cases, found, strict=True), 1):
            report.add(case, measurements)
            if progress:
                progress(number, len(cases))
        if report.failures:
            first = report.failures[0]
            report.smallest, report.smallest_failures = first.case, [first]  # if Ctrl-C interrupts what follows
            [(report.smallest, report.smallest_failures)] = mapping(functools.partial(_shrunk, layer_class), [first])
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def check_dtype(dtype: str | None) -> None:
    """Raise a `ValueError` if `dtype` is unknown or cannot be compared on Keras' backend."""
    if dtype is not None and dtype.removeprefix("mixed_") not in tolerance.RELATIVE:
        known = ", ".join(tolerance.RELATIVE)
        raise ValueError(f"dtype must be one of {known}, or mixed_ and a half type. Received: {dtype!r}.")
    backend = keras.backend.backend()
    if dtype == "float64" != WIDEST[backend]:
        raise ValueError(f"Keras on {backend} multiplies float64 in {WIDEST[backend]}. Choose {WIDEST[backend]}.")


def modes(index: int, xla: bool) -> tuple[str, ...]:
    """Return the modes in which to run case number `index`."""
    available = MODES[keras.backend.backend()]
    return available if xla or index % 10 == 0 else tuple(mode for mode in available if mode != "xla")


def run(layer_class: Any, case: Case, mode: str = "eager") -> dict[str, np.ndarray]:
    """Run one case. Return "output", "scores" if the case returns them, and gradients ("d query", "d key/kernel")."""
    return BuiltLayer(layer_class, case).run(mode, case.upstream())


def expect(case: Case, mode: str = "eager") -> dict[str, np.ndarray]:
    """Return the results that `run` should give, computed by the reference."""
    return expected.compute(case, expected.kept_by_dropout(case, mode)).results


def _shrunk(layer_class: Any, first: Measurement) -> tuple[Case, list[Measurement]]:
    """Return the smallest case that fails in the mode of a failure, and what differs in it."""

    def failures(case: Case) -> Iterator[Measurement]:
        return (found for found in _quietly(layer_class, case, (first.mode,)) if not found.agrees)

    smallest = shrink(first.case, lambda case: any(True for _ in failures(case)))
    return smallest, list(failures(smallest))


def measured(layer_class: Any, case: Case, modes: Iterable[str]) -> list[Measurement]:
    """Return the differences of one case from the reference, and from the built-in where the built-in is right."""
    return list(_quietly(layer_class, case, tuple(modes)))


def _quietly(layer_class: Any, case: Case, modes: tuple[str, ...]) -> Iterator[Measurement]:
    """Yield the measurements, without the built-in's warning about a softmax over a single key."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="You are using a softmax over axis")
        yield from _measurements(layer_class, case, modes)


def _measurements(layer_class: Any, case: Case, modes: tuple[str, ...]) -> Iterator[Measurement]:
    gap = builtin_gap(case)
    fused = builtin_is_fused(case)
    ours_built = _built(layer_class, case)
    if not isinstance(ours_built, str):
        yield from _wrong_metadata(ours_built)
    builtin = _BuiltIn(case)
    for mode in modes:
        wanted = expected.compute(case, expected.kept_by_dropout(case, mode), spare_empty_rows=fused and not gap)
        ours = _run(ours_built, mode, wanted.upstream)
        found = list(_differences(case, mode, "reference", ours, wanted.results))
        if not gap:
            rows = wanted.attending if fused else np.ones_like(wanted.attending)
            found += builtin.differences(mode, ours, wanted.upstream, rows)
        elif not all(one.agrees for one in found):  # then the layer may share the built-in's fault
            same = builtin.differences(mode, ours, wanted.upstream)
            if all(one.agrees for one in same):
                found = [dataclasses.replace(one, explained=gap) for one in same]
        yield from found


class _BuiltIn:
    """The built-in layer, built for a case and run when its results are first needed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._layer: BuiltLayer | str | None = None
        self._results: dict[str, Results | str] = {}

    def differences(self, mode: str, ours: Results | str, upstream: np.ndarray, rows: Any = None) -> list[Measurement]:
        """Return how `ours`, which a layer gave in `mode`, differs from the built-in's results.

        To trace and compile the built-in takes as long as the layer, and its numbers are the same to rounding. So its
        eager results are what `ours` is held against. Only where those differ, for instance because both layers fail
        to be traced, is the built-in run in `mode`, and what it gives there counts.
        """
        found: list[Measurement] = []
        for tried in dict.fromkeys(("eager", mode)):
            found = list(_differences(self.case, mode, "built-in", ours, self._run(tried, upstream), rows))
            if all(one.agrees for one in found):
                break
        return found

    def _run(self, mode: str, upstream: np.ndarray) -> Results | str:
        if mode not in self._results:  # the upstream of a case is the same in all modes
            self._layer = _built(BUILTIN, self.case) if self._layer is None else self._layer
            self._results[mode] = _run(self._layer, mode, upstream)
        return self._results[mode]


def _wrong_metadata(layer: BuiltLayer) -> Iterator[Measurement]:
    """Yield a measurement for each wrong report about the output's dtype, shape or mask. `_run` finds failing calls."""
    with contextlib.suppress(Exception):
        for name, (is_so, should_be) in layer.metadata().items():
            if is_so != should_be:
                said = f"{name} is {is_so}, expected {should_be}"
                yield Measurement(layer.case, "eager", "built-in", name, math.inf, math.inf, said)


class NotBuilt(str):
    """The text of an error that the constructor or `build` raised."""


def _built(layer_class: Any, case: Case) -> BuiltLayer | str:
    """Build the layer, or return the error's text. The layer is untrusted, so any error is a finding."""
    try:
        return BuiltLayer(layer_class, case)
    except WeightsDoNotFit as error:
        return error_text(error)
    except Exception as error:
        return NotBuilt(error_text(error))


def _run(layer: BuiltLayer | str, mode: str, upstream: np.ndarray) -> Results | str:
    """Return the layer's results, or the error's text."""
    if isinstance(layer, str):
        return layer
    try:
        return layer.run(mode, upstream)
    except Exception as error:
        return error_text(error)


def _differences(
    case: Case, mode: str, against: str, ours: Results | str, theirs: Results | str, rows: Any = None
) -> Iterator[Measurement]:
    """Yield one measurement per result. Some gradients are zero, so all are relative to the largest gradient."""
    if isinstance(ours, str) or isinstance(theirs, str):
        # Two layers that fail in the same way agree too. Their messages differ in the layer's name.
        same = difflib.SequenceMatcher(None, str(ours), str(theirs)).ratio() > 0.8
        off = 0.0 if same else math.inf
        said = str(ours) if isinstance(ours, str) else f"the other raised {theirs}"
        if isinstance(ours, NotBuilt):
            said = f"it could not be built with the built-in's arguments: {ours}"
        yield Measurement(case, mode, against, "all", off, off, said)
        return
    gradients = [np.max(np.abs(theirs[name]), initial=0.0) for name in theirs if name.startswith("d ")]
    for name, array in theirs.items():
        if name not in ours:
            yield Measurement(case, mode, against, name, math.inf, math.inf, f"it returned no {name}")
            continue
        mine = ours[name]
        if name == "output" and rows is not None and mine.shape == array.shape:
            mine, array = mine[rows], array[rows]
        largest = float(max(gradients)) if name.startswith("d ") else None
        absolute, relative = tolerance.difference(mine, array, largest)
        said = "" if mine.shape == array.shape else f"its shape is {mine.shape}, expected {array.shape}"
        yield Measurement(case, mode, against, name, absolute, relative, said)


def builtin_is_fused(case: Case) -> bool:
    """Return whether the built-in takes its fused path, in which a row with nothing to attend to is not zero."""
    return not case.dropout and not case.return_scores and case.rank == 3


def builtin_gap(case: Case) -> str | None:
    """Return the known fault of the built-in that rules out a comparison in this case, or `None`."""
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
    """Return whether the mask has the rank of a padding mask. The built-in combines masks of other ranks wrongly."""
    front = case.mask[:-2]  # the axes before the positions
    return front in ("", "B", "1") if not case.between else front in ("", "BX", "1X")
