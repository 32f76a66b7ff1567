import importlib.util
import json
import os

import pytest
from click.testing import CliRunner

from kmha.bench import cases, machine, memory
from kmha.cli import benchmark, common, main

pytestmark = pytest.mark.tensorflow

TINY = ["--width", "16", "--heads", "2", "--rounds", "2", "--seconds", "0"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("sys.argv", ["/somewhere/kmha", "bench", "--size", "2x12"])
    monkeypatch.setattr(machine, "gemm", lambda dtype: int)
    monkeypatch.setattr(memory, "measure_peak", lambda name, row: 1_000_000 * row.length)


def _run(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


def _no(monkeypatch, package):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))


def _chosen(for_picture=False, **options):
    empty = dict.fromkeys(("sizes", "kinds", "passes", "modes", "against"), ())
    choice = benchmark.BenchmarkOptions(**{**empty, "width": 512, "heads": 8, "everything": False, **options})
    return choice.rows(for_picture)


def test_what_is_measured_unless_something_is_chosen():
    rows = _chosen()
    assert {(row.batch, row.length) for row in rows} == {size for sizes in cases.SIZES.values() for size in sizes}
    assert {row.mode for row in rows} == {"graph"}
    assert len(rows) == 4 * 2 + 2 * 5 * 2
    assert len(_chosen(everything=True)) == 6 * 5 * 2 * 3
    assert len(_chosen(everything=True, kinds=("plain",), sizes=("short",))) == 3 * 2 * 3
    picture = _chosen(for_picture=True)
    assert {row.length for row in picture} == {64, 128, 256, 512, 1024, 2048, 4096, 8192}
    assert {(row.batch, row.kind) for row in picture} == {(1, "causal")}
    assert {row.kind for row in _chosen(for_picture=True, kinds=("padded",))} == {"padded"}


def test_table_and_json(tmp_path):
    result = _run("--size", "2x12", "--size", "1x7", "--against", "addons", "--memory", "--json", "b.json", *TINY)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())  # where the line about the machine wraps depends on the machine
    for text in ("2 × 12", "1 × 7", "forward", "step", "ratio", "Addons", "12 MB → 12 MB", "float32 GEMM", "keras "):
        assert text in words
    assert "torch, ms" not in words
    assert "SDPA" not in words
    report = json.loads((tmp_path / "b.json").read_text())
    assert report["command"] == "kmha bench --size 2x12"
    assert [(row["batch"], row["length"], row["step"]) for row in report["rows"]] == [
        (2, 12, False),
        (2, 12, True),
        (1, 7, False),
        (1, 7, True),
    ]
    assert len(report["rows"][0]["contenders"]["kmha"]["rounds_ms"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.slow
def test_a_narrow_screen_has_fewer_columns_and_no_broken_ones(monkeypatch):
    wide = _run("--size", "2x12", "--against", "addons", "--memory", *TINY).stdout
    monkeypatch.setattr(benchmark, "WIDTH", 75)
    narrow = _run("--size", "2x12", "--against", "addons", "--memory", *TINY).stdout
    for title in benchmark.DISPENSABLE:
        assert title in wide.split("Float32")[0]
        assert title not in narrow.split("Float32")[0]
    assert all(len([line for line in out.splitlines() if "2 × 12" in line]) == 2 for out in (wide, narrow))
    assert "12 MB → 12 MB" in narrow


def test_markdown_alone_is_on_standard_output():
    result = _run("--size", "2x12", "--pass", "forward", "--against", "builtin", "--markdown", "-", *TINY)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("| B × T | kind | pass |")
    assert lines[2].startswith("| 2 × 12 | plain | forward |")
    assert lines[4].startswith("Measured by `kmha bench --size 2x12`, on ")
    assert len(lines) == 5
    assert "2 × 12" in result.stderr


@pytest.mark.slow
def test_markdown_into_a_file_and_a_picture(tmp_path):
    sizes = "--size", "1x7", "--size", "1x11"
    result = _run(*sizes, "--kind", "causal", "--against", "builtin", "--markdown", "b.md", "--plot", "b.png", *TINY)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "b.md").read_text().startswith("| B × T |")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    assert "11 MB → 11 MB" in result.stdout  # a picture has memory, unasked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "tall"], "'--size': expected short, medium, long or BxT with a batch and a length of at least 1"),
        (["--size", "2x0"], "Received: '2x0'"),
        (["--heads", "7"], "Received: width 512, 7 heads. Try width 511 or 518, or another number of heads."),
        (["--heads", "0"], "0 is not in the range x>=1"),
        (["--kind", "sparse"], "'sparse' is not one of"),
        (["--json", "no/b.json"], "'--json': the folder no does not exist"),
        (["--markdown", "no/b.md"], "'--markdown': the folder no does not exist"),
        (["--plot", "no/b.png"], "'--plot': the folder no does not exist"),
        (["--plot", "b.bmp"], "'--plot': b.bmp must end in one of .png, .svg, .pdf"),
        (["--plot", "b.png", "--size", "1x64"], "a picture against T needs at least two lengths. Received: [64]"),
        (["--plot", "b.png", "--kind", "plain", "--kind", "causal"], "a picture shows only one kind"),
        (["--plot", "b.png", "--all"], "a picture shows only one kind"),
        (["--backend", "torch", "--mode", "xla"], "mode on torch must be one of eager. Received: 'xla'."),
        (
            ["--backend", "jax", "--against", "addons"],
            "the attention layer on jax in float32 can be measured against builtin.",
        ),
        (["--dtype", "mixed_bfloat16", "--against", "addons"], "in mixed_bfloat16 can be measured against builtin."),
        (["--backend", "mxnet"], "'mxnet' is not one of 'tensorflow', 'jax', 'torch'"),
        (["--model", "--dtype", "mixed_bfloat16"], "--model measures models of one size. Leave out"),
    ],
)
def test_bad_options_are_explained_in_a_line(arguments, message, monkeypatch):
    monkeypatch.setattr("kmha.bench.measuring.measure", None)  # nothing is measured
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        ("torch", ["--against", "torch"], "--against torch needs torch, which is not installed"),
        ("torch", ["--against", "builtin", "--against", "sdpa"], "--against sdpa needs torch, which is not installed"),
        ("torch", ["--backend", "torch"], "the backend torch is not installed"),
        ("matplotlib", ["--plot", "b.png"], "--plot needs matplotlib, which is not installed"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_measured(package, arguments, message, monkeypatch):
    _no(monkeypatch, package)
    monkeypatch.setattr("kmha.bench.measuring.measure", None)
    result = _run(*arguments)
    assert result.exit_code == 1
    extra = {"torch": "torch", "matplotlib": "plot"}[package]
    assert result.output == f"Error: {message}. Run: pip install 'kmha[{extra}]'\n"


def test_without_torch_the_others_are_measured(monkeypatch):
    _no(monkeypatch, "torch")
    result = _run("--size", "2x12", "--pass", "forward", *TINY)
    assert result.exit_code == 0, result.output
    assert "Addons" in result.stdout
    assert "SDPA" not in result.stdout


def test_contenders_that_disagree_are_a_line(monkeypatch):
    monkeypatch.setattr("kmha.verify.tolerance.relative", lambda dtype: -1.0)
    result = _run("--size", "2x12", "--against", "builtin", *TINY)
    assert result.exit_code == 1
    assert result.output.strip().startswith(
        "Error: 2 × 12 plain forward graph: `output` of kmha differs from that of builtin"
    )


def test_ctrl_c_prints_and_writes_what_was_measured(monkeypatch, tmp_path):
    update = "rich.progress.Progress.update"
    monkeypatch.setattr(update, lambda *args, description, **kwargs: _interrupt("step" in description))
    result = _run(
        "--size", "2x12", "--against", "builtin", "--json", "b.json", "--plot", "b.png", "--size", "2x7", *TINY
    )
    assert result.exit_code == common.INTERRUPTED
    assert "2 × 12" in result.stdout
    assert "Interrupted: the last row may have few rounds" in result.stdout
    report = json.loads((tmp_path / "b.json").read_text())
    assert report["interrupted"] is True
    assert len(report["rows"]) == 1
    assert not (tmp_path / "b.png").exists()

    monkeypatch.setattr(update, lambda *args, **kwargs: _interrupt(True))
    result = _run("--size", "2x12", *TINY)
    assert result.exit_code == common.INTERRUPTED
    assert result.stdout == "Interrupted before anything was measured.\n"


def _interrupt(now):
    if now:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_whole_models(monkeypatch):
    from kmha.bench.cases import ModelRow

    sizes = {"source": 7, "width": 12, "heads": 3, "layers": 1, "feed_forward": 10, "vocabulary": 23}
    rows = ModelRow(6, 5, **sizes), ModelRow(2, 8, step=False, **sizes)
    monkeypatch.setattr(benchmark, "MODEL_ROWS", rows)
    result = _run("--model", "--against", "builtin", "--rounds", "2", "--seconds", "0")
    assert result.exit_code == 0, result.output
    for text in ("kmha.layers.Transformer", "6 × 5", "training step", "2 × 8", "greedy decoding", "ratio"):
        assert text in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "--size", "short"], "--model measures models of one size"),
        (["--model", "--plot", "x.png"], "--model measures models of one size"),
        (["--model", "--width", "128"], "--model measures models of one size"),
        (["--model", "--memory"], "--model measures models of one size"),
        (["--model", "--against", "sdpa"], "a whole model (--model) can be measured against builtin, keras_hub, torch"),
        (
            ["--against", "keras_hub"],
            "the attention layer on tensorflow in float32 can be measured against builtin, addons, torch, sdpa",
        ),
    ],
)
def test_what_does_not_go_together(arguments, message):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
