"""The results of a benchmark: medians, ratios to the built-in, and all numbers as a dict for JSON."""

import dataclasses
import datetime
import statistics
from typing import Any

from kmha.bench.cases import ALL_PEERS, BUILTIN, OURS, AttentionRow, ModelRow
from kmha.bench.timing import Round

CONTENDERS = (BUILTIN, OURS, *ALL_PEERS)


@dataclasses.dataclass
class Result:
    """The measurements of a row.

    Args:
        row: The row.
        path: Path that kmha's layer takes.
        flops: FLOPs of one pass, without redundant work.
        rounds: Milliseconds of each run by contender, for each round.
        gemm: FLOP/s of `tf.matmul`, run in turn with the contenders.
        memory: Bytes at the peak, by contender.
        notes: Reason why a measurement is missing, by contender.
    """

    row: AttentionRow | ModelRow
    path: str | None = None
    flops: int | None = None
    rounds: list[Round] = dataclasses.field(default_factory=list)
    gemm: list[float] = dataclasses.field(default_factory=list)
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    notes: dict[str, str] = dataclasses.field(default_factory=dict)

    def milliseconds(self, name: str) -> list[float]:
        """Return the milliseconds of all runs of a contender."""
        return [run for measured in self.rounds for run in measured.get(name, ())]

    def median(self, name: str) -> float | None:
        """Return the median of the milliseconds."""
        runs = self.milliseconds(name)
        return statistics.median(runs) if runs else None

    def ratio(self, name: str) -> float | None:
        """Return the ratio of the medians of a contender and the built-in.

        >>> result = Result(AttentionRow(1, 2), rounds=[{"builtin": [4.0, 2.0, 3.0], "kmha": [1.5]}])
        >>> result.ratio("kmha")
        0.5
        """
        mine, theirs = self.median(name), self.median(BUILTIN)
        return mine / theirs if mine is not None and theirs else None

    def quartiles(self, name: str) -> tuple[float, float] | None:
        """Return the outer quartiles of the ratios in each round, a measure of the noise."""
        if not self.milliseconds(name) or not self.milliseconds(BUILTIN):
            return None
        median = statistics.median
        ratios = [median(measured[name]) / median(measured[BUILTIN]) for measured in self.rounds]
        lower, _, upper = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
        return lower, upper

    def share(self, name: str) -> float | None:
        """Return the FLOPs of the row, divided by those that `tf.matmul` computes in the same time."""
        median = self.median(name)
        return (
            self.flops / (statistics.median(self.gemm) * median / 1000) if self.flops and self.gemm and median else None
        )


@dataclasses.dataclass
class Report:
    """The results of all rows, and the machine that they were measured on.

    Args:
        machine: Description of the machine; see `kmha.bench.machine.describe`.
        results: Results of each row.
        command: Command that measured them.
        interrupted: True if the benchmark was interrupted before the last row.
    """

    machine: dict[str, Any]
    results: list[Result] = dataclasses.field(default_factory=list)
    command: str = ""
    interrupted: bool = False

    @property
    def gemm_rate(self) -> float | None:
        """FLOP/s of `tf.matmul`, the median over all rows."""
        rates = [statistics.median(result.gemm) for result in self.results if result.gemm]
        return statistics.median(rates) if rates else None

    @property
    def contenders(self) -> list[str]:
        """Contenders with at least one measurement."""
        return [name for name in CONTENDERS if any(r.milliseconds(name) or name in r.memory for r in self.results)]

    @property
    def notes(self) -> dict[tuple[str, str], list[AttentionRow | ModelRow]]:
        """Rows with a missing measurement, by contender and reason."""
        found: dict[tuple[str, str], list[AttentionRow | ModelRow]] = {}
        for result in self.results:
            for named in result.notes.items():
                found.setdefault(named, []).append(result.row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything, every run of every round included, for JSON."""
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
