from kmha.bench import table
from kmha.bench.cases import BUILTIN, MODEL_ROWS, OURS
from kmha.bench.report import Result


def _titles(report, wide=False):
    return [column.title for column in table.shown(report, wide)]


def test_markdown(report):
    lines = table.markdown(report).splitlines()
    assert lines[0] == (
        "| B × T | kind | pass | built-in, ms | kmha, ms | ratio | quartiles | path | Addons | % of GEMM "
        "| peak memory |"
    )
    assert lines[1] == "| :-- | :-- | :-- | --: | --: | --: | --: | :-- | --: | --: | --: |"
    assert lines[2] == (
        "| 1 × 64 | causal | forward | 128 (128–128) | 80.0 (64.0–96.0) | 0.62 | 0.56–0.69 | blocked | 2.00 "
        "| 50 → 80 | 640 MB → 64 MB |"
    )
    assert lines[5].endswith("| 3.8 GB → 384 MB |")
    assert lines[6] == ""
    assert lines[7].startswith(
        "Measured by `kmha bench --plot series.png`, on A processor, 2 cores, 16.0 GB of memory, Linux-6, "
        "Python 3.11.7, tensorflow 2.21.0, kmha 0.1.0, float32 GEMM 1 GFLOP/s. "
        "Float32, width 512, 8 heads, graph mode (torch: eager). Times are medians"
    )
    assert len(lines) == 8


def test_an_interrupted_table_says_so(report):
    report.interrupted = True
    assert "Measured by `kmha bench --plot series.png`, interrupted, on A processor" in table.markdown(report)


def test_columns_without_anything_are_left_out(report):
    for result in report.results:
        result.memory, result.path, result.flops = {}, None, None
        for measured in result.rounds:
            del measured["addons"]
    assert _titles(report) == ["B × T", "kind", "pass", "built-in, ms", "kmha, ms", "ratio", "quartiles"]


def test_the_mode_is_a_column_if_there_are_two(report):
    import dataclasses

    report.results[0].row = dataclasses.replace(report.results[0].row, mode="xla")
    assert _titles(report)[3] == "mode"
    assert "modes as listed" in table.legend(report)


def test_what_is_missing_is_a_dash(report):
    for measured in report.results[0].rounds:
        del measured[BUILTIN]
    del report.results[0].memory[OURS]
    cells = {column.title: column.cell(report.results[0]) for column in table.shown(report, wide=False)}
    assert cells["built-in, ms"] == cells["ratio"] == cells["quartiles"] == cells["Addons"] == "–"
    assert cells["kmha, ms"] == "80.0"
    assert cells["% of GEMM"] == "– → 80"
    assert cells["peak memory"] == "640 MB → –"


def test_notes(report):
    for result in report.results[1:]:
        result.notes["torch"] = "not here"
    report.results[0].notes[BUILTIN] = "too large"
    assert table.notes(report) == [
        "– built-in: too large (1 × 64 causal forward graph).",
        "– torch: not here (1 × 64 causal step graph and 2 more).",
    ]


def test_the_features_of_the_processor_follow_its_name(report):
    report.machine = {**report.machine, "features": ["avx2", "avx512f"]}
    assert "on A processor (avx2, avx512f), 2 cores" in table.markdown(report)


def test_a_machine_that_tells_little(report):
    report.machine = {**report.machine, "memory": None, "versions": {}}
    for result in report.results:
        result.gemm = []
    assert table.where(report) == "A processor, 2 cores, Linux-6, Python 3.11.7"


def test_a_whole_model_has_words_of_its_own(report):
    rounds = [{"builtin": [4.0], "kmha": [2.0], "keras_hub": [3.0]}]
    report.results = [Result(row, rounds=rounds) for row in MODEL_ROWS]
    text = table.markdown(report)
    assert "| B × T | kind | built-in, ms | kmha, ms | ratio | quartiles | KerasHub |" in text
    assert "| 256 × 16 | training step | 4.00 (4.00–4.00) | 2.00 (2.00–2.00) | 0.50 | 0.50–0.50 | 0.75 |" in text
    assert "| 32 × 64 | greedy decoding |" in text
    assert "4+4 layers, width 128, 4 heads, feed-forward 256, vocabulary 6,000, 16 source positions, graph mode" in text
    assert "decodes by running its decoder over the whole prefix" in text
    assert "Peak memory" not in text
    assert report.to_dict()["rows"][1]["contenders"]["keras_hub"]["ratio"] == 0.75
