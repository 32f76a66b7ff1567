import dataclasses
import json

import keras
import numpy as np
import pytest

import kmha
from kmha.layers import gradient_importance, without_heads
from kmha.translation import folder, pruning
from kmha.translation.corpora import Pairs
from kmha.translation.pruning import Pruning
from kmha.translation.settings import Settings
from kmha.translation.tokenizer import END, START, Tokenizer
from kmha.translation.translator import Translator
from kmha.verify import tolerance

SOURCE = ["two dogs run on the sand .", "a cat sleeps .", "the old tree", "three birds sing", "we listen"]
TARGET = ["zwei Hunde laufen am Strand .", "eine Katze schläft .", "der alte Baum", "drei Vögel singen", "wir hören zu"]
PAIRS = Pairs(SOURCE, TARGET, "five sentences")
NAMES = ["encoder_layer1_self_att", "decoder_layer1_block1_self_att", "decoder_layer1_block2_decenc_att"]


@pytest.fixture
def made():
    """A translator with a model of 1 + 1 layers with 3 heads and random weights, where END is likely."""
    entries = (
        "model.num_layers=1",
        "model.embedding_dim=12",
        "model.num_heads=3",
        "model.fully_connected_dim=14",
        "model.max_positions=20",
        "data.max_length=19",
        "training.tokens_per_batch=30",
        "search.max_length=9",
    )
    settings = Settings.load("cpu", "files", entries)
    tokenizer = Tokenizer.train([*SOURCE, *TARGET] * 2, vocabulary_size=160)
    size = tokenizer.vocabulary_size
    data = {"train": {"pairs": 5}}
    config = folder.Config("files", "en", "de", settings, 3, "float32", data, size, {"finished": True, "step": 7})
    model = folder.build(config)
    numbers = np.random.default_rng(2)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(numbers.normal(size=weight.shape) * 0.5)
    return Translator(model, tokenizer, settings.search, config)


def _ids(made, row):
    source, target = (made.tokenizer.encode([texts[row]])[0] for texts in (SOURCE, TARGET))
    return np.array([[*source, END]]), np.array([[START, *target]]), np.array([*target, END])


def _losses(made):
    """Return the smoothed loss of each sentence, computed alone, and its number of tokens."""
    smoothing = made.config.settings.training.label_smoothing
    found = []
    for row in range(len(SOURCE)):
        source, target_in, target_out = _ids(made, row)
        logits = made.model(source, target_in, return_attention_scores=False)[0]
        logits = keras.ops.convert_to_numpy(logits).astype("float64")
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        right = logs[np.arange(len(target_out)), target_out]
        loss = -((1 - smoothing) * right + smoothing * logs.mean(-1)).sum()
        found.append((loss, len(target_out)))
    return np.array(found).T


def _loss(made):
    losses, tokens = _losses(made)
    return losses.sum() / tokens.sum()


@pytest.mark.slow
def test_steps(made):
    run = Pruning(made, PAIRS)
    assert run.heads == 9
    before = made.model.count_params()
    expected = [run.importance()]
    rows = []
    for row in run.run(keep=5 / 9, steps=2):
        rows.append(row)
        assert row.loss == pytest.approx(_loss(made), rel=1e-5)
        expected.append(run.importance())
    assert [row.heads for row in rows] == [9, 7, 5]
    # Each head has three projections (12, 4) with biases, and its rows of the output kernel.
    assert [row.parameters for row in rows] == [before - removed * (3 * (12 * 4 + 4) + 4 * 12) for removed in (0, 2, 4)]
    assert rows[0].removed == ()
    least = sorted((value, name, head) for name, values in expected[0].items() for head, value in enumerate(values))
    assert list(rows[1].removed) == [(name, head) for _, name, head in least[:2]]
    removed = {*rows[1].removed, *rows[2].removed}
    assert len(removed) == 4
    for name in NAMES:
        assert made.model.attentions()[name].num_heads == 3 - sum(layer == name for layer, _ in removed)


@pytest.mark.slow
def test_the_model_is_that_without_the_removed_heads(made):
    inputs = _ids(made, 0)[:2]
    before = made.model.get_weights()
    *_, last = Pruning(made, PAIRS).run(keep=5 / 9)
    found = keras.ops.convert_to_numpy(made.model(*inputs)[0])
    whole = folder.build(made.config)
    whole.set_weights(before)
    assert last.heads == 5
    removed = {name: [] for name in NAMES}
    run_config = Pruning(made, PAIRS).config(last)
    assert run_config.heads == made.model.heads
    for name in NAMES:
        left = made.model.attentions()[name]
        kernel = keras.ops.convert_to_numpy(whole.attentions()[name].output_dense.kernel)
        kept = keras.ops.convert_to_numpy(left.output_dense.kernel)
        removed[name] = [head for head in range(3) if not any(np.array_equal(kernel[head], one) for one in kept)]
    assert sum(map(len, removed.values())) == 4
    import contextlib

    with contextlib.ExitStack() as stack:
        for name, heads in removed.items():
            stack.enter_context(without_heads(whole.attentions()[name], heads))
        assert tolerance.is_close(found, keras.ops.convert_to_numpy(whole(*inputs)[0]), "float32")


def test_gradient_is_the_mean_over_sentences(made):
    run = Pruning(made, PAIRS)
    assert len(run._batches) > 1
    layers = list(made.model.attentions().values())
    totals = [np.zeros(3) for _ in NAMES]
    for row in range(len(SOURCE)):
        source, target_in, target_out = _ids(made, row)

        def loss(source=source, target_in=target_in, target_out=target_out):
            features = made.model.features((source, target_in))
            return run._task.sums(features, target_out).loss

        totals = [total + one for total, one in zip(totals, gradient_importance(layers, loss, 1), strict=True)]
    found = run.importance()
    assert list(found) == NAMES
    for values, total in zip(found.values(), totals, strict=True):
        np.testing.assert_allclose(values, total / len(SOURCE), rtol=1e-4)


@pytest.mark.slow
def test_ablation_is_the_change_of_the_loss(made):
    found = Pruning(made, PAIRS, "ablation").importance()
    whole = _loss(made)
    for name, layer in made.model.attentions().items():
        for head in range(3):
            with without_heads(layer, head):
                assert found[name][head] == pytest.approx(_loss(made) - whole, abs=1e-5), (name, head)


@pytest.mark.slow
def test_each_layer_keeps_a_head(made):
    rows = list(Pruning(made, PAIRS).run(keep=1 / 3))
    assert [row.heads for row in rows] == list(range(9, 2, -1))
    assert [layer.num_heads for layer in made.model.attentions().values()] == [1, 1, 1]
    assert sorted({name for row in rows for name, _ in row.removed}) == sorted(NAMES)
    assert all(len({head for row in rows for layer, head in row.removed if layer == name}) == 2 for name in NAMES)


@pytest.mark.slow
def test_scores(made):
    from kmha.translation import scores

    row = Pruning(made, PAIRS).measure()
    best = [one for one, *_ in made.translate(SOURCE, "greedy", note=lambda row, text: None)]
    texts = [one.text for one in best]
    assert (row.score_name, row.score) == ("bleu", scores.bleu(texts, TARGET).value)
    assert row.tokens_per_second * row.seconds == pytest.approx(sum(len(one.ids) + one.finished for one in best))
    dates = Translator(made.model, made.tokenizer, made.settings, dataclasses.replace(made.config, task="dates"))
    row = Pruning(dates, Pairs(SOURCE, [*texts[:2], *TARGET[2:]], "two right")).measure()
    assert (row.score_name, row.score) == ("exact_match", 40.0)


@pytest.mark.slow
def test_a_folder(made, tmp_path):
    made.config = dataclasses.replace(made.config, kmha="0.1", format=1)
    run = Pruning(made, PAIRS, "ablation")
    *_, last = run.run(keep=5 / 9, steps=1)
    folder.save_finished(tmp_path / "small", made.model, made.tokenizer, run.config(last))
    model, tokenizer, config = folder.load(tmp_path / "small")
    assert model.heads == made.model.heads == config.heads
    inputs = _ids(made, 3)[:2]
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(one(*inputs)[0]) for one in (model, made.model)))
    assert tokenizer.encode(SOURCE) == made.tokenizer.encode(SOURCE)
    assert config.result["validation"] == {"bleu": round(last.score, 4)}
    assert config.result["pruned"]["rank"] == "ablation"
    assert {name: len(heads) for name, heads in config.result["pruned"]["heads"].items()} == {
        name: layer.num_heads for name, layer in model.attentions().items()
    }
    assert (config.format, config.kmha) == (folder.FORMAT, kmha.__version__)
    assert {path.name for path in tmp_path.iterdir()} == {"small"}
    with pytest.raises(folder.FolderError, match="small exists already"):
        folder.save_finished(tmp_path / "small", made.model, made.tokenizer, config)


@pytest.mark.slow
def test_a_pruned_model_keeps_the_numbers(made):
    inputs = _ids(made, 0)[:2]
    before = [keras.ops.convert_to_numpy(layer.output_dense.kernel) for layer in made.model.attentions().values()]
    first = Pruning(made, PAIRS)
    *_, last = first.run(keep=6 / 9, steps=1)
    again = Pruning(Translator(made.model, made.tokenizer, made.settings, first.config(last)), PAIRS)
    *_, final = again.run(keep=5 / 6, steps=1)
    left = again.config(final).result["pruned"]["heads"]
    assert {*last.removed}.isdisjoint(final.removed)
    for (name, layer), kernel in zip(made.model.attentions().items(), before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer.output_dense.kernel), kernel[left[name]])
    assert keras.ops.shape(made.model(*inputs)[0])[0] == 1


@pytest.mark.parametrize(
    "pruned",
    [
        None,
        3,
        {"heads": [1]},
        *({"heads": {NAMES[1]: heads}} for heads in (7, [0, 1], [0, 0, 1], [0, 1, "2"], [0, 1, 3], [-1, 1, 2])),
    ],
)
def test_wrong_numbers_in_a_config(made, pruned):
    made.config = dataclasses.replace(made.config, result={"pruned": pruned})
    measured = pruning.Measured(9, made.model.count_params(), 7.0, "bleu", 0.5, 0.1, 80.0, ())
    left = Pruning(made, PAIRS).config(measured).result["pruned"]["heads"]
    assert left == {name: [0, 1, 2] for name in NAMES}


def test_the_least_share_is_enough(made):
    run = Pruning(made, PAIRS)
    run._left = {str(layer): list(range(8)) for layer in range(18)}
    with pytest.raises(
        pruning.PruningError, match=r"18 attention layers .* of 144.*keep=0.12,.*Give at least 0\.125\.$"
    ):
        next(run.run(keep=0.12))
    run._left = {str(layer): list(range(7)) for layer in range(18)}
    with pytest.raises(pruning.PruningError, match=r"Give at least 0\.143\.$"):  # 1 / 7 is 0.142857
        next(run.run(keep=0.13))


def test_an_interrupt_leaves_no_folder(made, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "save_config", interrupt)
    with pytest.raises(KeyboardInterrupt):
        folder.save_finished(tmp_path / "small", made.model, made.tokenizer, made.config)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("heads", [{NAMES[0]: 0}, {NAMES[0]: 4}, {NAMES[0]: "2"}, {"encoder_layer9_self_att": 2}])
def test_a_folder_with_wrong_heads(made, tmp_path, heads):
    folder.save_finished(tmp_path / "small", made.model, made.tokenizer, made.config)
    values = json.loads((tmp_path / "small" / folder.CONFIG).read_text())
    (tmp_path / "small" / folder.CONFIG).write_text(json.dumps({**values, "heads": heads}))
    with pytest.raises(folder.FolderError, match=r"config.json is not a config of kmha \(.*heads"):
        folder.load(tmp_path / "small")


def test_wrong_arguments(made):
    run = Pruning(made, PAIRS)
    with pytest.raises(pruning.PruningError, match=r"keeps at least one head of 9.*keep=0.2, .*Give at least 0.334"):
        next(run.run(keep=0.2))
    with pytest.raises(pruning.PruningError, match=r"there are 3 heads to remove. Received: 4 steps. Give at most 3"):
        next(run.run(keep=6 / 9, steps=4))
    with pytest.raises(ValueError, match=r"rank must be one of 'gradient', 'ablation'. Received: 'size'"):
        Pruning(made, PAIRS, "size")
    with pytest.raises(pruning.PruningError, match="long: none of 1 pairs"):
        Pruning(made, Pairs(["a cat " * 30], ["eine"], "long"))
    with pytest.raises(ValueError, match="with a config"):
        Pruning(Translator(made.model, made.tokenizer), PAIRS)
