import pytest

from kmha.bench.cases import BUILTIN, OURS, AttentionRow
from kmha.bench.report import Report, Result

MACHINE = {
    "processor": "A processor",
    "cores": 2,
    "memory": 16_000_000_000,
    "system": "Linux-6",
    "python": "3.11.7",
    "versions": {"tensorflow": "2.21.0", "kmha": "0.1.0"},
}


@pytest.fixture
def report():
    """A made-up report of a forward pass and a step at two lengths."""
    results = []
    for length in (64, 128):
        for step in (False, True):
            unit = length * (1.0 + 2 * step)
            results.append(
                Result(
                    AttentionRow(1, length, kind="causal", step=step),
                    path="blocked",
                    flops=int(unit * 1e6),
                    rounds=[
                        {BUILTIN: [2 * unit], OURS: [unit], "addons": [3 * unit]},
                        {OURS: [1.5 * unit], BUILTIN: [2 * unit], "addons": [5 * unit]},
                    ],
                    gemm=[0.5e9, 1e9, 2e9],
                    memory={BUILTIN: int(unit * 1e7), OURS: int(unit * 1e6)},
                )
            )
    return Report(MACHINE, results, "kmha bench --plot series.png")


@pytest.fixture(scope="session")
def translation():
    """The parts of `kmha.translation` that the command line passes to measure whole models."""
    from kmha.bench.models import Translation
    from kmha.translation.search import Greedy
    from kmha.translation.task import TranslationTask

    return Translation(
        task=lambda model, smoothing: TranslationTask(model, label_smoothing=smoothing),
        greedy=lambda model, length: Greedy(model, max_length=length),
    )


@pytest.fixture(scope="module", params=["training", "decoding"])
def model_row(request):
    """A small model whose sizes all differ."""
    from kmha.bench.cases import ModelRow

    sizes = {"source": 7, "width": 12, "heads": 3, "layers": 2, "feed_forward": 10, "vocabulary": 23}
    return ModelRow(6, 5, **sizes) if request.param == "training" else ModelRow(2, 8, step=False, **sizes)
