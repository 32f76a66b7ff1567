"""A model folder as training leaves it, of a model that has learnt a handful of sentences by heart."""

import dataclasses
import shutil

import pytest

PAIRS = {
    "two dogs run on the sand .": "zwei Hunde laufen am Strand .",
    "a cat sleeps .": "eine Katze schläft .",
    "the old tree": "der alte Baum",
    "three birds sing": "drei Vögel singen",
    "we listen , and the birds sing in the old tree .": "wir hören zu , und die Vögel singen im alten Baum .",
}
STEPS = 120


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A model of 2 + 2 layers with 3 heads each, at most 20 positions and 9 tokens in a translation, beam size 2."""
    import keras

    from kmha.translation import folder
    from kmha.translation.settings import Settings
    from kmha.translation.tokenizer import Tokenizer

    path = tmp_path_factory.mktemp("models") / "tiny"
    path.mkdir()
    entries = (
        "model.num_layers=2",
        "model.embedding_dim=24",
        "model.num_heads=3",
        "model.fully_connected_dim=32",
        "model.max_positions=20",
        "data.max_length=19",
        "search.max_length=9",
        "search.beam_size=2",
        "search.length_penalty=0.5",
    )
    settings = Settings.load("cpu", "files", entries)
    tokenizer = Tokenizer.train([*PAIRS, *PAIRS.values()] * 2, vocabulary_size=160)
    tokenizer.save(path / folder.TOKENIZER)
    size = tokenizer.vocabulary_size
    config = folder.Config("files", "en", "de", settings, 3, "float32", {"name": "texts"}, size, {"finished": True})
    folder.save_config(path, config)
    keras.utils.set_random_seed(4)
    model = folder.build(config)
    _train(model, tokenizer)
    folder.save_weights(model, path / folder.WEIGHTS)
    return path


def _train(model, tokenizer):
    import keras
    import numpy as np
    import tensorflow as tf

    from kmha.translation.tokenizer import END, START

    sides = [tokenizer.encode([*texts]) for texts in (PAIRS, PAIRS.values())]
    longest = 1 + max(len(ids) for side in sides for ids in side)
    source, target = (np.array([[*ids, END, *[0] * (longest - 1 - len(ids))] for ids in side]) for side in sides)
    before = np.concatenate([np.full((len(PAIRS), 1), START), target[:, :-1]], axis=1)
    optimizer = keras.optimizers.Adam(0.005)
    optimizer.build(model.trainable_variables)  # outside of the step, which would be traced twice otherwise

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model((source, before), training=False, return_attention_scores=False)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
            loss = tf.reduce_sum(tf.where(target == 0, 0.0, loss))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    for _ in range(STEPS):
        loss = step()
    assert loss < 1


@pytest.fixture(scope="module")
def translator(model_folder):
    from kmha.translation.translator import Translator

    return Translator.load(model_folder)


@pytest.fixture
def _loaded(translator, monkeypatch):
    """The model is loaded, and its searches compiled, once for all tests of a file."""
    from kmha.cli import translation

    monkeypatch.setattr(translation, "load", lambda folder, step=None: translator)


@pytest.fixture
def another_task(model_folder, tmp_path):
    """Copies of the folder that say they are of another task."""
    from kmha.translation import folder

    def copy(task):
        path = tmp_path / f"model-{task}"
        shutil.copytree(model_folder, path)
        folder.save_config(path, dataclasses.replace(folder.load_config(path), task=task))
        return path

    return copy
