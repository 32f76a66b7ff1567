import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kmha
from kmha.bench.cases import HEADS, WIDTH
from kmha.bench.collectives import BATCH, DEVICES, LENGTH, Collective, Row, collectives, counts
from kmha.bench.scaling import Training, cost
from kmha.cli import main

PROGRAM = """
  %all-reduce.1 = f32[160,64]{1,0:T(8,128)} all-reduce(%dot), channel_id=1, replica_groups=[1,8]<=[8]
  %all-gather-start = (s8[5]{0}, pred[7]{0}) all-gather-start(%x), dimensions={0}
  ROOT %tuple = (f64[], u32[3,2]{0,1}) all-reduce(%a, %b), to_apply=%add
  %fusion = f32[9]{0} fusion(%all-reduce.1), calls=%fused, metadata={op_name="all-to-all"}
"""


def test_collectives_of_a_program():
    found = collectives(PROGRAM)
    assert found == [Collective("all-reduce", 160 * 64 * 4), Collective("all-gather", 12), Collective("all-reduce", 32)]
    assert counts(found) == "2 all-reduce, 1 all-gather"
    assert counts([]) == "none"


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("all-reduce", 2 * 7 / 8 * 800),
        ("all-gather", 7 / 8 * 800),
        ("all-to-all", 7 / 8 * 800),
        ("reduce-scatter", 7 * 800),  # its result is an eighth of what it adds up
        ("collective-permute", 800),
    ],
)
def test_bytes_that_a_device_sends_in_a_ring(kind, sent):
    assert Collective(kind, 800).sent(8) == pytest.approx(sent, rel=1e-15)


@pytest.mark.slow
def test_the_command_prints_the_tables_of_the_page():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX")
    command = [sys.executable, "-m", "kmha", "bench", "--collectives"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    page = (Path(kmha.__file__).parent / "distribution" / "README.md").read_text(encoding="utf-8")
    compiled, computed = re.findall(r"(?:^\|.*\n)+", done.stdout, re.MULTILINE)
    assert compiled in page
    assert computed in page


def test_the_compiled_block_sends_what_the_formula_says():
    sizes = Training(layers=1, width=WIDTH, heads=HEADS, hidden=4 * WIDTH, batch=BATCH, length=LENGTH)
    all_reduce = Collective("all-reduce", 4 * BATCH * LENGTH * WIDTH)  # float32, where the formula counts bfloat16
    assert Row("kmha", "", [], [all_reduce] * 4).sent == 2 * cost(sizes, 1, DEVICES).model_sent


@pytest.mark.parametrize("option", ["--collectives", "--cache"])
@pytest.mark.parametrize("arguments", [["--size", "8x64"], ["--model"], ["--json", "a.json"]])
def test_the_command_takes_no_other_options(option, arguments):
    result = CliRunner().invoke(main, ["bench", option, *arguments])
    assert result.exit_code == 2
    assert "Leave out all other options." in result.output
