import importlib.metadata
import platform

import pytest

from kmha.bench import machine


def test_described():
    described = machine.describe()
    assert described["processor"].strip()
    assert described["cores"] >= 1
    assert described["python"] == platform.python_version()
    assert described["versions"]["keras"] == importlib.metadata.version("keras")
    assert 0 < machine.available_memory() <= described["memory"]


@pytest.mark.parametrize(("limit", "available"), [("9000", 7000), ("max", 4096 << 10), (None, 4096 << 10)])
def test_the_limit_of_a_container(monkeypatch, tmp_path, limit, available):
    (tmp_path / "meminfo").write_text("MemTotal: 9999 kB\nMemAvailable: 4096 kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.available_memory() == available


def test_what_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr("os.sysconf", _unknown)
    for name in ("CPUINFO", "MEMINFO"):
        monkeypatch.setattr(machine, name, tmp_path / "nothing")
    described = machine.describe()
    assert described["memory"] is None
    assert described["features"] == []
    assert machine.available_memory() is None
    assert described["processor"] in (platform.processor(), platform.machine())


@pytest.mark.parametrize(
    ("lines", "processor", "features"),
    [
        (
            "model name\t: A processor\nflags\t\t: fpu avx2 avx512f amx_bf16\n",
            "A processor",
            ["avx2", "avx512f", "amx_bf16"],
        ),
        ("model name\t: A\nflags\t\t: avx2x\nmodel name\t: B\nflags\t\t: avx2\n", "A", []),
        ("CPU architecture: 8\nFeatures\t: asimd sve\n", None, ["asimd", "sve"]),
    ],
)
def test_the_features_of_a_processor(monkeypatch, tmp_path, lines, processor, features):
    (tmp_path / "cpuinfo").write_text(lines)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    described = machine.describe()
    assert described["features"] == features
    assert described["processor"] == (processor or platform.processor() or platform.machine())


def _unknown(*args, **kwargs):
    raise OSError


@pytest.mark.tensorflow
def test_the_product_is_one():
    assert tuple(machine.gemm(size=11)().shape) == (11, 11)
    assert machine.GEMM_FLOPS == 2 * 2048**3
