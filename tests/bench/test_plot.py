import pytest

from kmha.bench import plot
from kmha.bench.cases import BUILTIN, OURS


def _texts(axes):
    return [text.get_text() for text in axes.texts]


def test_two_panels_with_a_line_for_each_contender_and_pass(report):
    time, memory = plot.figure(report).axes
    colours = [line.get_color() for line in time.lines]
    for name in (BUILTIN, OURS, "addons"):
        assert colours.count(plot.COLOURS[name]) == 2
    step, forward = (line for line in time.lines if line.get_color() == plot.COLOURS[OURS])
    assert step.get_xydata().tolist() == [[64, 240], [128, 480]]
    assert forward.get_xydata().tolist() == [[64, 80], [128, 160]]
    assert step.get_linestyle() != forward.get_linestyle()
    step, forward = (line for line in memory.lines if line.get_color() == plot.COLOURS[OURS])
    assert step.get_xydata().tolist() == [[64, 192_000_000], [128, 384_000_000]]


def test_ticks_title_and_legend_can_be_read(report):
    figure = plot.figure(report)
    figure.draw_without_rendering()
    time, memory = figure.axes
    assert [label.get_text() for label in time.get_xticklabels()] == ["64", "128"]
    assert {"100 ms", "1 s"} <= {label.get_text() for label in time.get_yticklabels()}
    assert {"100 MB", "1 GB"} <= {label.get_text() for label in memory.get_yticklabels()}
    assert figure.get_suptitle() == (
        "Causal self-attention: batch 1, width 512, 8 heads, float32, graph mode on tensorflow, 2 cores (A processor)"
    )
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["built-in", "kmha", "Addons", "training step", "forward"]
    assert [_texts(axes) for axes in (time, memory)] == [["", "÷ 1.6"], ["", "÷ 10"]]


def test_without_the_built_in_there_is_no_factor(report):
    for result in report.results:
        result.memory.pop(BUILTIN)
    assert _texts(plot.figure(report).axes[1]) == []


def test_forward_alone(report):
    report.results = [result for result in report.results if not result.row.step]
    figure = plot.figure(report)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "forward"
    assert _texts(figure.axes[0]) == ["", "÷ 1.6"]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_drawn(report, tmp_path, suffix, start):
    path = tmp_path / f"series.{suffix}"
    plot.figure(report).savefig(path)
    assert path.read_bytes().startswith(start)
