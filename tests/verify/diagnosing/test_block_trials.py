import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.block_trials import (
    MEAN,
    BlockAccepts,
    draw_block,
    draw_block_sizes,
    draw_block_weights,
)


def _named(*options, **settings):
    return {trial.name: trial for trial in draw_block(*options, **settings)}


def test_the_same_seed_draws_the_same():
    first, second = (draw_block(8, BlockAccepts("decoder")) for _ in range(2))
    assert [trial.name for trial in first] == [trial.name for trial in second]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.query, other.query)
        np.testing.assert_array_equal(one.weights["ffn/dense1/kernel"], other.weights["ffn/dense1/kernel"])


@pytest.mark.parametrize("seed", range(12))
def test_sizes_are_pairwise_different(seed):
    sizes = draw_block_sizes(np.random.default_rng(seed), BlockAccepts("decoder", memory=True))
    numbers = (
        sizes.batch,
        sizes.rows,
        sizes.columns,
        sizes.heads,
        sizes.size,
        sizes.width,
        sizes.inner,
        sizes.memory,
    )
    assert len(set(numbers)) == len(numbers)
    assert sizes.width == sizes.heads * sizes.size


@pytest.mark.parametrize(
    ("accepts", "absent"),
    [
        (BlockAccepts("decoder", mask=False), "key_mask"),
        (BlockAccepts("decoder", query_padding=False), "query_mask"),
        (BlockAccepts("decoder", causal=False), "causal"),
        (BlockAccepts("encoder", mask=False), "key_mask"),
    ],
)
def test_only_accepted_masks(accepts, absent):
    trials, all_trials = draw_block(1, accepts), draw_block(1, BlockAccepts(accepts.chain))
    assert not any(getattr(trial, absent) not in (None, False) for trial in trials)
    assert any(getattr(trial, absent) is not None and getattr(trial, absent) is not False for trial in all_trials)


def test_equal_lengths_only_if_required():
    trials = draw_block(2, BlockAccepts("decoder", equal=True))
    assert all(trial.query.shape[1] == trial.key.shape[1] for trial in trials)
    lengths = {trial.query.shape[1] - trial.key.shape[1] for trial in draw_block(2, BlockAccepts("decoder"))}
    assert 0 in lengths
    assert min(lengths) < 0 < max(lengths)


@pytest.mark.parametrize("chain", ["encoder", "decoder"])
def test_trials_with_as_many_items_as_heads_and_queries(chain):
    trials = _named(3, BlockAccepts(chain))
    heads = next(a for name, a in trials["plain"].weights.items() if name.endswith("query/kernel")).shape[0]
    assert len(trials["padding, B = H"].query) == heads != len(trials["plain"].query)
    assert trials["padding, B = T"].query.shape[0] == trials["padding, B = T"].query.shape[1]


@pytest.mark.parametrize("norm_first", [False, True])
def test_tiny_variance_before_normalization(norm_first):
    for name, trial in _named(4, BlockAccepts(norm_first=norm_first)).items():
        if name.startswith("variance near"):
            expected = float(name.split()[-1])
            state = run(trial)
            normalized = (
                (state["start"], state["after1"]) if norm_first else (state["residual1"], state["last_residual"])
            )
            for x in normalized:
                assert 0.01 * expected < x.var(-1).mean() < 100 * expected


def test_large_mean():
    trial = _named(5, BlockAccepts())["large mean"]
    assert abs(trial.query.mean() - MEAN) < 1.0 < abs(trial.query.mean())


def test_padding_differs_between_items_and_between_source_and_target():
    trial = _named(6, BlockAccepts("decoder"))["look-ahead and both paddings, T = S"]
    for mask in (trial.key_mask, trial.query_mask):
        assert mask[:, 0].all()
        assert len({int(row.sum()) for row in mask}) == len(mask)
        assert mask.all(-1).any()
        assert not mask[0].all() or not mask[-1].all()
    assert (trial.key_mask != trial.query_mask).any()


def test_weights_that_a_candidate_holds_are_used_everywhere():
    accepts, rng = BlockAccepts(), np.random.default_rng(7)
    sizes = draw_block_sizes(rng, accepts)
    held = draw_block_weights(rng, sizes, "encoder")
    for trial in draw_block(7, accepts, sizes, held):
        for name, array in held.items():
            np.testing.assert_array_equal(trial.weights[name], array)


def test_ids_with_repeats_and_padding():
    trials = _named(9, BlockAccepts("embedding", pad_id=3))
    ids, padded = trials["ids"].more["ids"], trials["ids, padded"].more["ids"]
    np.testing.assert_array_equal(ids[:, 0], ids[:, 1])
    assert not (ids == 3).any()
    assert (padded[0] == 3).any()
    assert not (padded[-1] == 3).any()
    assert len(np.unique(trials["one id only"].more["ids"])) == 1
    assert trials["one position"].more["ids"].shape[1] == 1
    assert not trials["table of zeros"].weights["embedding/embeddings"].any()
