"""What was measured: medians, ratios to the built-in, and everything as a dict for JSON."""

import dataclasses
import datetime
import statistics
from typing import Any

from kmha.bench.cases import ALL_PEERS, BUILTIN, OURS, AttentionRow, ModelRow
from kmha.bench.timing import Round

CONTENDERS = (BUILTIN, OURS, *ALL_PEERS)


@dataclasses.dataclass
class Result:
    """What was measured of a row.

    Args:
        row: the row.
        path: that our layer takes.
        flops: of one pass, the useful ones alone.
        rounds: each with the milliseconds of each run, by contender.
        gemm: FLOP/s of the machine's own product of matrices, run in turn with the contenders.
        memory: bytes at the peak, by contender.
        notes: why something of a contender is missing.
    """

    row: AttentionRow | ModelRow
    path: str | None = None
    flops: int | None = None
    rounds: list[Round] = dataclasses.field(default_factory=list)
    gemm: list[float] = dataclasses.field(default_factory=list)
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    notes: dict[str, str] = dataclasses.field(default_factory=dict)

    def milliseconds(self, name: str) -> list[float]:
        """Of all runs of a contender."""
        return [run for measured in self.rounds for run in measured.get(name, ())]

    def median(self, name: str) -> float | None:
        """Milliseconds."""
        runs = self.milliseconds(name)
        return statistics.median(runs) if runs else None

    def ratio(self, name: str) -> float | None:
        """Of the medians, to the built-in's.

        >>> result = Result(AttentionRow(1, 2), rounds=[{"builtin": [4.0, 2.0, 3.0], "kmha": [1.5]}])
        >>> result.ratio("kmha")
        0.5
        """
        mine, theirs = self.median(name), self.median(BUILTIN)
        return mine / theirs if mine is not None and theirs else None

    def quartiles(self, name: str) -> tuple[float, float] | None:
        """The outer quartiles of the rounds' own ratios, which say how far to trust the ratio."""
        if not self.milliseconds(name) or not self.milliseconds(BUILTIN):
            return None
        median = statistics.median
        ratios = [median(measured[name]) / median(measured[BUILTIN]) for measured in self.rounds]
        lower, _, upper = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
        return lower, upper

    def share(self, name: str) -> float | None:
        """How much of the arithmetic limit is reached: useful FLOPs over the GEMM rate times the time."""
        median = self.median(name)
        return (
            self.flops / (statistics.median(self.gemm) * median / 1000) if self.flops and self.gemm and median else None
        )


@dataclasses.dataclass
class Report:
    """All rows, and the machine that they were measured on.

    Args:
        machine: see `kmha.bench.machine.describe`.
        results: one for each row.
        command: that measured it.
        interrupted: whether it was stopped before the last row.
    """

    machine: dict[str, Any]
    results: list[Result] = dataclasses.field(default_factory=list)
    command: str = ""
    interrupted: bool = False

    @property
    def gemm_rate(self) -> float | None:
        """FLOP/s; the median of all rows."""
        rates = [statistics.median(result.gemm) for result in self.results if result.gemm]
        return statistics.median(rates) if rates else None

    @property
    def contenders(self) -> list[str]:
        """Those of whom anything was measured."""
        return [name for name in CONTENDERS if any(r.milliseconds(name) or name in r.memory for r in self.results)]

    @property
    def notes(self) -> dict[tuple[str, str], list[AttentionRow | ModelRow]]:
        """Why something is missing, (contender, reason), each with the rows that it holds for."""
        found: dict[tuple[str, str], list[AttentionRow | ModelRow]] = {}
        for result in self.results:
            for named in result.notes.items():
                found.setdefault(named, []).append(result.row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything, every run of every round too, for JSON."""
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
