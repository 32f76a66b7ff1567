import pytest

from kmha.core import planning
from kmha.core.planning import Request, choose

LONG = {"batch": 1, "rows": 2048, "columns": 2048, "heads": 8}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, "direct"),
        ({"causal": True}, "blocked"),
        ({"window": 256}, "blocked"),
        ({"window": 4096}, "direct"),  # hides nothing
        ({"causal": True, "dropout": True}, "direct"),
        ({"causal": True, "rows": 511}, "direct"),
        ({"causal": True, "columns": 511}, "direct"),
        ({"rows": None}, "direct"),
        ({"batch": 16}, "blocked"),  # 2 GiB of scores
        ({"batch": None}, "direct"),
        ({"batch": None, "rows": 4096}, "blocked"),
        ({"causal": True, "return_scores": True}, "steps"),
        ({"eager": True}, "direct"),  # 128 MiB of scores
        ({"eager": True, "rows": 512, "columns": 256}, "steps"),  # 4 MiB
        ({"eager": True, "rows": 512, "columns": 257}, "direct"),
        ({"eager": True, "rows": 8, "columns": 8, "flash": False}, "direct"),
        ({"flash": True}, "blocked"),
        ({"flash": True, "dropout": True}, "blocked"),
        ({"flash": False, "causal": True}, "direct"),
        ({"backend": "jax", "fusable": True}, "fused"),
        ({"backend": "jax", "fusable": True, "dropout": True}, "steps"),
        ({"backend": "torch"}, "steps"),
        ({"backend": "torch", "fusable": True, "flash": True}, "fused"),
        ({"backend": "torch", "fusable": True, "flash": False}, "steps"),
    ],
)
def test_the_first_rule_that_fits(changes, path):
    assert choose(Request(**{**LONG, **changes})).path == path


def test_the_environment_comes_after_the_argument_and_before_the_planner(monkeypatch):
    monkeypatch.setenv(planning.VARIABLE, "blocked:24")
    assert choose(Request(**LONG)).path == "blocked"
    assert planning.tiling(Request(**LONG))[0] == 24
    assert choose(Request(**LONG, flash=False)).path == "direct"
    assert choose(Request(**LONG, return_scores=True)).path == "steps"
    monkeypatch.setenv(planning.VARIABLE, "steps")
    assert choose(Request(**LONG, causal=True)).path == "steps"
    assert choose(Request(**LONG, backend="jax", fusable=True)).path == "steps"


@pytest.mark.parametrize(
    "wrong", ["flash", "fused", "blocked:0", "blocked:x", "direct:8", "Blocked", "blocked:", "steps:"]
)
def test_a_path_that_does_not_exist_is_explained(monkeypatch, wrong):
    monkeypatch.setenv(planning.VARIABLE, wrong)
    with pytest.raises(ValueError, match=f"KMHA_ATTENTION_PATH={wrong}: on tensorflow the paths are steps, direct, bl"):
        choose(Request(**LONG))


def test_environment_path_is_set_for_a_while(monkeypatch):
    monkeypatch.setenv(planning.VARIABLE, "steps")
    with planning.environment_path("direct"):
        assert planning.from_environment("tensorflow") == ("direct", 0)
    with planning.environment_path(""):
        assert planning.from_environment("tensorflow") == ("steps", 0)
    assert planning.from_environment("tensorflow") == ("steps", 0)


@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("columns", [1, 4, 9])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_visible_pairs_are_counted(rows, columns, causal, window):
    expected = sum(
        (not causal or s <= t) and (window is None or abs(t - s) < window) for t in range(rows) for s in range(columns)
    )
    assert planning.visible_pairs(rows, columns, causal, window) == expected


def test_blocks_are_bounded_whatever_the_batch():
    for batch, columns in ((1, 10**4), (64, 10**4), (1, 10**6)):
        height, parallel = planning.tiling(Request(batch, columns, columns, 8, training=True))
        assert height == 16 or height * parallel * batch * 8 * columns * 4 <= planning.MOST_BLOCK
    assert planning.tiling(Request(**LONG))[1] == 2  # small blocks are computed two at a time


def test_memory_of_blocks_grows_with_the_length_and_of_whole_scores_with_its_square():
    def grows(path):
        short, long = (planning.working_bytes(Request(1, n, n, 8, training=True), path) for n in (16384, 32768))
        return long / short

    assert grows("blocked") == 2
    assert grows("direct") == 4
