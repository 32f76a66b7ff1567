"""Measure agreement, memory and times of all rows. An interruption keeps the rows that are done."""

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

import kmha
from kmha.bench import attention_contenders, contenders, machine, memory, passes, timing
from kmha.bench.cases import BACKENDS, BUILTIN, LONG, OURS, AttentionRow, ModelRow
from kmha.bench.contenders import Contender, ContendersDisagree
from kmha.bench.report import Report, Result

GEMM = "gemm"

Progress = Callable[[int, str], Any]  # called with the number of rows done and the current task


def measure(
    rows: Sequence[AttentionRow | ModelRow],
    against: Iterable[str] = (),
    rounds: int = 7,
    seconds: float = 2.0,
    with_memory: bool | None = None,
    progress: Progress = lambda done, doing: None,
    translation: Any = None,
) -> Report:
    """Return a report with the measurements of all rows.

    Args:
        rows: Rows to measure.
        against: Contenders besides the built-in and kmha.
        rounds: Number of rounds for each row.
        seconds: Approximate time for the rounds of a row.
        with_memory: Measure the memory of all rows and contenders. `None` measures only the built-in and kmha, in
            causal rows from `LONG` on in the backend's first mode, because each measurement starts a process.
        progress: Function to call with the number of rows done and the next task.
        translation: Parts of `kmha.translation`, which rows of whole models need (`kmha.bench.models.Translation`).

    Raises:
        ContendersDisagree: Two contenders give different results.
    """
    names = list(dict.fromkeys((BUILTIN, OURS, *against)))
    report = Report(machine.describe(passes.accelerator()))
    try:
        for done, row in enumerate(rows):
            result = Result(row)
            report.results.append(result)
            runnable = list(names)
            for name in names:
                if isinstance(row, AttentionRow) and _wants_memory(with_memory, row, name):
                    progress(done, f"{row}: memory of {name}")
                    if not _add_memory(result, row, name):
                        runnable.remove(name)
            progress(done, f"{row}: times")
            _add_times(result, runnable, rounds, seconds, translation)
        progress(len(rows), "done")
    except KeyboardInterrupt:
        report.interrupted = True
        report.results = [result for result in report.results if result.rounds or result.memory]
    return report


def _wants_memory(with_memory: bool | None, row: AttentionRow, name: str) -> bool:
    if with_memory is not None:
        return with_memory
    usual = row.kind == "causal" and row.mode == BACKENDS[row.backend][0]
    return usual and row.length >= LONG and name in (BUILTIN, OURS)


def _add_memory(result: Result, row: AttentionRow, name: str) -> bool:
    """Measure the peak memory. Return False if the process was killed, because this process would be killed too."""
    reason = attention_contenders.reason_against(name, row, machine.available_memory())
    if reason is None:
        try:
            result.memory[name] = memory.measure_peak(name, row)
        except memory.NotMeasured as error:
            result.notes[name] = f"memory: {error}"
            return not error.killed
    return True


def _add_times(result: Result, names: Iterable[str], rounds: int, seconds: float, translation: Any) -> None:
    keras.backend.clear_session()
    gc.collect()  # frees the memory of the previous row
    _explain(result)
    functions = {one.name: one.run for one in _agreeing(result, names, translation)}
    if not functions:
        return
    # The matrix product runs in turn with the contenders, so that other load on the machine slows all of them alike.
    for measured in timing.rounds({**functions, GEMM: machine.gemm(result.row.dtype)}, rounds, seconds):
        result.gemm += [machine.GEMM_FLOPS / (milliseconds / 1000) for milliseconds in measured.pop(GEMM)]
        result.rounds.append(measured)


def _agreeing(result: Result, names: Iterable[str], translation: Any) -> list[Contender]:
    """Return the contenders that can run, after checking that their results equal those of the first contender."""
    row = result.row
    room: Any = attention_contenders
    given: Any
    if isinstance(row, ModelRow):
        from kmha.bench import models  # needs TensorFlow

        room, given = models, models.draw_inputs(row, translation)
    else:
        given = contenders.draw_inputs(row)
    ready: list[Contender] = []
    expected: contenders.Arrays = {}
    for name in names:
        reason = room.reason_against(name, row, machine.available_memory())
        try:
            if reason is None:
                contender = room.build(name, row, given)
                results = contender.results(contender.run())
                if not ready:
                    expected = results
                elif row.comparable:
                    precision = passes.precision(row.dtype)
                    contenders.check_agreement(row, name, results, ready[0].name, expected, precision)
                ready.append(contender)
        except ContendersDisagree:
            raise
        except Exception as error:  # after any error, the other contenders can still be measured
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        if reason is not None:
            result.notes[name] = reason
    return ready


def _explain(result: Result) -> None:
    """Add the path that kmha's layer takes and the FLOPs of a pass, from the layer's own explanation."""
    row = result.row
    if isinstance(row, ModelRow):
        result.flops = row.flops
        return
    layer = attention_contenders.build_layer(kmha.MultiHeadAttention, row)
    flags = {"use_causal_mask": row.is_causal, "training": row.is_training, "eager": row.mode == "eager"}
    explained = layer.explain(row.shape, row.shape, **flags)
    result.path = explained.path
    result.flops = explained.step_flops if row.step else explained.forward_flops
