import pytest

from kmha.bench import machine, memory
from kmha.bench.cases import BUILTIN, OURS, PEERS, AttentionRow
from kmha.bench.contenders import ContendersDisagree
from kmha.bench.measuring import measure

pytestmark = pytest.mark.tensorflow

ROWS = [
    AttentionRow(2, 12, width=16, heads=2, kind=kind, step=step)
    for kind in ("plain", "dropout")
    for step in (False, True)
]


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """Replace the memory measurements by numbers, and the machine's matrix product by nothing."""
    asked = []
    monkeypatch.setattr(machine, "gemm", lambda dtype: int)

    def measure(name, row):
        asked.append((name, row))
        return 1000 * len(name)

    monkeypatch.setattr(memory, "measure_peak", measure)
    return asked


def _run(rows=ROWS[:1], **options):
    return measure(rows, **{"rounds": 2, "seconds": 0, **options})


@pytest.mark.slow
def test_everything_is_measured(measured):
    seen = []
    report = _run(ROWS, against=["addons"], progress=lambda done, doing: seen.append((done, doing)))
    assert [result.row for result in report.results] == ROWS
    for result in report.results:
        assert [sorted(one) for one in result.rounds] == [["addons", BUILTIN, OURS]] * 2
        assert all(milliseconds > 0 for one in result.rounds for milliseconds in one[OURS])
        assert result.memory == result.notes == {}
        assert result.path == "direct"
    plain, step = report.results[:2]
    assert step.flops == 3 * plain.flops
    assert plain.flops == 2 * (4 * 2 * 12 * 16 * 16 + 2 * 2 * 12 * 12 * 16)
    assert all(len(result.gemm) == 2 for result in report.results)
    assert report.gemm_rate > 0
    assert not report.interrupted
    assert seen[0] == (0, "2 × 12 plain forward graph: times")
    assert seen[-2:] == [(3, "2 × 12 dropout step graph: times"), (4, "done")]
    assert measured == []


def test_memory_of_all_if_asked_for(measured):
    report = _run(with_memory=True, against=["addons"])
    assert report.results[0].memory == {BUILTIN: 7000, OURS: 4000, "addons": 6000}
    assert measured == [(name, ROWS[0]) for name in (BUILTIN, OURS, "addons")]


def test_memory_that_cannot_be_measured_is_a_note(monkeypatch):
    def killed(name, row):
        raise memory.NotMeasured("no such thing", killed=name == BUILTIN)

    monkeypatch.setattr(memory, "measure_peak", killed)
    result = _run(with_memory=True).results[0]
    assert result.notes == dict.fromkeys((BUILTIN, OURS), "memory: no such thing")
    assert [*result.rounds[0]] == [OURS]  # what was killed is not run again, in our process


def test_a_contender_that_fails_leaves_the_others(monkeypatch):
    def fail(*args):
        raise RuntimeError("no such kernel\nand a long story")

    monkeypatch.setattr("kmha.bench.attention_contenders._addons", fail)
    result = _run(against=["addons"]).results[0]
    assert result.notes == {"addons": "RuntimeError: no such kernel"}
    assert result.ratio(OURS) > 0
    assert result.ratio("addons") is None


def test_torch_under_xla_is_a_note():
    row = AttentionRow(2, 12, width=16, heads=2, mode="xla")
    result = _run([row], against=PEERS).results[0]
    assert sorted(result.notes) == ["sdpa", "torch"]
    assert sorted(result.rounds[0]) == ["addons", BUILTIN, OURS]


def test_what_needs_more_than_there_is_does_not_run(monkeypatch, measured):
    monkeypatch.setattr("kmha.bench.machine.available_memory", lambda: 5000)
    result = _run(with_memory=True).results[0]
    assert result.notes[BUILTIN].startswith("would take about ")
    assert [name for name, _ in measured] == [OURS]
    assert [*result.rounds[0]] == [OURS]


def test_wrong_numbers_are_not_measured(monkeypatch):
    from kmha.bench import attention_contenders

    right = attention_contenders._addons

    def wrong(row, weights):
        return right(row, {**weights, "query/kernel": 2 * weights["query/kernel"]})

    monkeypatch.setattr(attention_contenders, "_addons", wrong)
    with pytest.raises(ContendersDisagree, match="`output` of addons differs from that of builtin"):
        _run(against=["addons"])
    assert _run(ROWS[2:3], against=["addons"]).results[0].ratio("addons") > 0  # of dropout nobody can tell


def test_an_interruption_keeps_what_is_done(monkeypatch):
    def interrupt(done, doing):
        if "plain step" in doing:
            raise KeyboardInterrupt

    report = _run(ROWS, progress=interrupt)
    assert report.interrupted
    assert [result.row for result in report.results] == ROWS[:1]


@pytest.mark.slow
def test_whole_models_are_measured(model_row, translation, measured):
    report = _run([model_row], with_memory=True, translation=translation, against=["torch"])
    result = report.results[0]
    assert {BUILTIN, OURS} <= result.rounds[0].keys()
    assert result.flops == model_row.flops
    assert result.path is None
    assert measured == []
    if not model_row.step:
        assert result.notes["torch"] == "torch.nn has no decoder with a cache"


@pytest.mark.slow
def test_whole_models_that_differ_are_not_measured(model_row, translation):
    wrong = translation._replace(
        task=lambda model, smoothing: translation.task(model, 0.5),
        greedy=lambda model, length: lambda source: translation.greedy(model, length)(source[:, ::-1]),
    )
    with pytest.raises(ContendersDisagree, match="of kmha differs from that of builtin"):
        _run([model_row], translation=wrong)
