"""The results of a benchmark, with medians, ratios to the built-in, and all numbers as a dict for JSON."""

import dataclasses
import datetime
import statistics
from typing import Any

from kmha.bench.cases import ALL_PEERS, BUILTIN, OURS, AttentionRow, ModelRow
from kmha.bench.timing import Round

CONTENDERS = (BUILTIN, OURS, *ALL_PEERS)


@dataclasses.dataclass
class Result:
    """The measurements of a row. The dicts are keyed by contender."""

    row: AttentionRow | ModelRow
    path: str | None = None  # path that kmha's layer takes
    flops: int | None = None  # FLOPs of one pass, without redundant work
    rounds: list[Round] = dataclasses.field(default_factory=list)
    gemm: list[float] = dataclasses.field(default_factory=list)  # FLOP/s of a matrix product, in turn with contenders
    memory: dict[str, int] = dataclasses.field(default_factory=dict)  # peak memory in bytes
    notes: dict[str, str] = dataclasses.field(default_factory=dict)  # reasons why measurements are missing

    def milliseconds(self, name: str) -> list[float]:
        """Return the milliseconds of all runs of a contender."""
        return [run for measured in self.rounds for run in measured.get(name, ())]

    def median(self, name: str) -> float | None:
        """Return the median of a contender's milliseconds."""
        runs = self.milliseconds(name)
        return statistics.median(runs) if runs else None

    def ratio(self, name: str) -> float | None:
        """Return the contender's median divided by the built-in's median.

        >>> result = Result(AttentionRow(1, 2), rounds=[{"builtin": [4.0, 2.0, 3.0], "kmha": [1.5]}])
        >>> result.ratio("kmha")
        0.5
        """
        mine, theirs = self.median(name), self.median(BUILTIN)
        return mine / theirs if mine is not None and theirs else None

    def quartiles(self, name: str) -> tuple[float, float] | None:
        """Return the outer quartiles of the rounds' ratios, as a measure of the noise."""
        if not self.milliseconds(name) or not self.milliseconds(BUILTIN):
            return None
        median = statistics.median
        ratios = [median(measured[name]) / median(measured[BUILTIN]) for measured in self.rounds]
        lower, _, upper = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
        return lower, upper

    def share(self, name: str) -> float | None:
        """Return the FLOPs of the row, divided by the FLOPs that one matrix product computes in the same time."""
        median = self.median(name)
        if not (self.flops and self.gemm and median):
            return None
        return self.flops / (statistics.median(self.gemm) * median / 1000)


@dataclasses.dataclass
class Report:
    """The results of all rows, and the machine that they were measured on."""

    machine: dict[str, Any]  # the result of `kmha.bench.machine.describe`
    results: list[Result] = dataclasses.field(default_factory=list)
    command: str = ""  # command that measured the rows
    interrupted: bool = False  # whether measuring ended before the last row

    @property
    def gemm_rate(self) -> float | None:
        """The median of the matrix product's FLOP/s over all rows."""
        rates = [statistics.median(result.gemm) for result in self.results if result.gemm]
        return statistics.median(rates) if rates else None

    @property
    def contenders(self) -> list[str]:
        """The contenders with at least one measurement."""
        return [name for name in CONTENDERS if any(r.milliseconds(name) or name in r.memory for r in self.results)]

    @property
    def notes(self) -> dict[tuple[str, str], list[AttentionRow | ModelRow]]:
        """The rows with a missing measurement, keyed by contender and reason."""
        found: dict[tuple[str, str], list[AttentionRow | ModelRow]] = {}
        for result in self.results:
            for named in result.notes.items():
                found.setdefault(named, []).append(result.row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers for JSON, including every run of every round."""
        return {
            "command": self.command,
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "machine": self.machine,
            "gemm_flops_per_second": self.gemm_rate,
            "interrupted": self.interrupted,
            "rows": [
                {
                    **dataclasses.asdict(result.row),
                    "path": result.path,
                    "flops": result.flops,
                    "gemm_flops_per_second": result.gemm,
                    "contenders": {name: _numbers(result, name) for name in CONTENDERS},
                }
                for result in self.results
            ],
        }


def _numbers(result: Result, name: str) -> dict[str, Any]:
    runs = result.milliseconds(name)
    return {
        "median_ms": result.median(name),
        "min_ms": min(runs, default=None),
        "max_ms": max(runs, default=None),
        "ratio": result.ratio(name),
        "ratio_quartiles": result.quartiles(name),
        "share_of_gemm_rate": result.share(name),
        "peak_bytes": result.memory.get(name),
        "note": result.notes.get(name),
        "rounds_ms": [measured[name] for measured in result.rounds if name in measured],
    }
