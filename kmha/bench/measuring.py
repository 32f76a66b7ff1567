"""The whole measurement: for every row memory, agreement and times; what is interrupted keeps what is done."""

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

import kmha
from kmha.bench import attention_contenders, contenders, machine, memory, models, timing
from kmha.bench.cases import BUILTIN, LONG, OURS, AttentionRow, ModelRow
from kmha.bench.contenders import Contender, ContendersDisagree
from kmha.bench.report import Report, Result

GEMM = "gemm"

Progress = Callable[[int, str], Any]  # rows done, and what is being done


def measure(
    rows: Sequence[AttentionRow | ModelRow],
    against: Iterable[str] = (),
    rounds: int = 7,
    seconds: float = 2.0,
    with_memory: bool | None = None,
    progress: Progress = lambda done, doing: None,
    translation: models.Translation | None = None,
) -> Report:
    """Measures all rows.

    Args:
        rows: what to measure.
        against: contenders besides the built-in and ours.
        rounds: how many for each row.
        seconds: about how long the rounds of a row may take.
        with_memory: of every row and contender, or of none; `None` means of causal rows from `LONG` on, in graph mode,
            the built-in's and ours, for a process takes seconds to start.
        progress: is told how many rows are done, and what comes next.
        translation: what rows of whole models need.

    Raises:
        ContendersDisagree: two contenders give different results.
    """
    names = list(dict.fromkeys((BUILTIN, OURS, *against)))
    report = Report(machine.describe())
    try:
        for done, row in enumerate(rows):
            result = Result(row)
            report.results.append(result)
            able = list(names)
            for name in names:
                if not isinstance(row, ModelRow) and _remembers(with_memory, row, name):
                    progress(done, f"{row}: memory of {name}")
                    if not _add_memory(result, row, name):
                        able.remove(name)
            progress(done, f"{row}: times")
            _add_times(result, able, rounds, seconds, translation)
        progress(len(rows), "done")
    except KeyboardInterrupt:
        report.interrupted = True
        report.results = [result for result in report.results if result.rounds or result.memory]
    return report


def _remembers(with_memory: bool | None, row: AttentionRow, name: str) -> bool:
    if with_memory is not None:
        return with_memory
    return row.length >= LONG and row.kind == "causal" and row.mode == "graph" and name in (BUILTIN, OURS)


def _add_memory(result: Result, row: AttentionRow, name: str) -> bool:
    """Whether it may run in this process too: what was killed for its memory would take us with it."""
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
    gc.collect()  # the row before this one
    _explain(result)
    functions = {one.name: one.run for one in _agreeing(result, names, translation)}
    if not functions:
        return
    # In turn with the others, for what else the machine does slows them all alike.
    for measured in timing.rounds({**functions, GEMM: machine.gemm()}, rounds, seconds):
        result.gemm += [machine.GEMM_FLOPS / (milliseconds / 1000) for milliseconds in measured.pop(GEMM)]
        result.rounds.append(measured)


def _agreeing(result: Result, names: Iterable[str], translation: Any) -> list[Contender]:
    """Those that can run, each of which gives what the first does, where that can be compared."""
    row = result.row
    kind: Any = models if isinstance(row, ModelRow) else attention_contenders
    given = models.draw_inputs(row, translation) if isinstance(row, ModelRow) else contenders.draw_inputs(row)
    ready: list[Contender] = []
    expected: contenders.Arrays = {}
    for name in names:
        reason = kind.reason_against(name, row, machine.available_memory())
        try:
            if reason is None:
                contender = kind.build(name, row, given)
                results = contender.results(contender.run())
                if not ready:
                    expected = results
                elif row.comparable:
                    contenders.check_agreement(row, name, results, ready[0].name, expected)
                ready.append(contender)
        except ContendersDisagree:
            raise
        except Exception as error:  # whatever it is, the other contenders can be measured without this one
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        if reason is not None:
            result.notes[name] = reason
    return ready


def _explain(result: Result) -> None:
    """The path that our layer takes and what a pass is worth, from the layer itself."""
    row = result.row
    if isinstance(row, ModelRow):
        result.flops = row.flops
        return
    layer = attention_contenders.build_layer(kmha.MultiHeadAttention, row)
    explained = layer.explain(row.shape, row.shape, use_causal_mask=row.is_causal, training=row.is_training)
    result.path = explained.path
    result.flops = explained.step_flops if row.step else explained.forward_flops
