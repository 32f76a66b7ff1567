"""Checks of `replace_attention`, on a trained model that writes words backwards (`trained.json`)."""

import base64
import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes
from kmha.course.judging import same

MADE = "return OwnAttention(layer.num_heads, layer.key_dim, name=layer.name)"
OTHERS = "        return layer.__class__.from_config(layer.get_config())\n"
TEST = "if isinstance(layer, keras.layers.MultiHeadAttention):"
PAIRS = "for old, new in zip(model.layers, copy.layers, strict=True):"
TAKEN = "            take_weights(old, new)\n"
SET = "            new.set_weights(old.get_weights())\n"

TRAINED = {
    name: np.frombuffer(base64.b64decode(each["float16"]), "float16").reshape(each["shape"]).astype("float32")
    for name, each in json.loads(Path(__file__).with_name("trained.json").read_text(encoding="utf-8")).items()
}


def draw(rng):
    """Draw words, and the words backwards, as far as the model has written them."""
    (count,) = sizes(rng, 1, least=4, most=9)
    source, target = np.zeros((2, count, 7), int)
    for row in range(count):
        word = rng.integers(2, 13, rng.integers(3, 8))
        source[row, 7 - len(word) :] = word
        target[row, 0], target[row, 1 : len(word)] = 1, word[:0:-1]
    attention = [["self_attention", 2, 4, "first_norm", False], ["cross_attention", 3, 5, "second_norm", True]]
    return {
        "weights": TRAINED,
        "source": source,
        "target": target,
        "attention": attention,
        "last": "logits",
        "frozen": "",
    }


def draw_frozen(rng):
    """Freeze a layer, so that it shows if an answer unfreezes it."""
    return {**draw(rng), "frozen": "target_tokens"}


def draw_other(rng):
    """Draw a model of random weights with three attention layers in any order, of other names, numbers of heads and head sizes.

    One of them has as many heads as the model has features, so that the shapes of its kernels do not tell their axes.
    """
    names, looks = rng.permutation(["reads", "looks_back", "looks_again"]), rng.permutation([False, True, True])
    counts = list(sizes(rng, 6))
    counts[2 * int(rng.integers(3))] = 12
    numbers, norms = iter(counts), ("first_norm", "second_norm", "third_norm")
    attention = [
        [str(name), next(numbers), next(numbers), norm, bool(look)]
        for name, norm, look in zip(names, norms, looks, strict=True)
    ]
    made = {name: (heads, size) for name, heads, size, *_ in attention}
    new = {"cross_attention": [*made], "second_norm": norms, "logits": ["no_attention"]}
    weights = {}
    for path, array in TRAINED.items():
        layer, _, rest = path.partition("/")
        for name in () if layer in ("self_attention", "first_norm") else new.get(layer, [layer]):
            heads, size = made.get(name, (3, 5))
            shape = [{3: heads, 5: size}.get(each, each) for each in array.shape]
            weights[f"{name}/{rest}"] = 0.5 * rng.normal(size=shape)
    return {**draw(rng), "weights": weights, "attention": attention, "last": "no_attention", "frozen": "target_tokens"}


def replaced(answer, inputs):
    """Return the logits of the copy, its layers, and the model's weights after a change of the copy.

    Only the copy computes logits, and the built-in attention does not work here.
    """
    import keras
    from keras import Model, layers, ops

    builtin = layers.MultiHeadAttention  # an answer can give this name to another class

    # The model has no other operations than layers: `clone_model` hands every operation to the learner's function.
    @keras.saving.register_keras_serializable()
    class NotPadding(layers.Layer):
        def call(self, ids):
            return ops.expand_dims(ops.not_equal(ids, 0), 1)

    def embedded(ids, name):
        positions = layers.Rescaling(0.0, offset=list(range(7)))(ids)
        tokens = layers.Embedding(13, 12, name=f"{name}_tokens")(ids)
        return layers.Add()([tokens, layers.Embedding(7, 12, name=f"{name}_positions")(positions)])

    source, target = keras.Input((7,), dtype="int32"), keras.Input((7,), dtype="int32")
    memory, x = embedded(source, "source"), embedded(target, "target")
    mask = NotPadding()(source)
    for name, heads, size, norm, looks_back in inputs["attention"]:
        attend = builtin(heads, size, name=name)
        mixed = attend(x, memory, attention_mask=mask) if looks_back else attend(x, x, use_causal_mask=True)
        x = layers.LayerNormalization(name=norm)(layers.Add()([x, mixed]))
    model = Model([source, target], layers.Dense(13, name=inputs["last"])(x))
    for weight in model.weights:
        weight.assign(inputs["weights"][weight.path])
    for layer in model.layers:
        layer.trainable = layer.name != inputs["frozen"]
    keras.utils.set_random_seed(1)  # a copy's weights are random until they are taken over
    before = model.get_config()
    copy = answer.replace_attention(model)
    new = isinstance(copy, Model) and copy is not model
    kinds = {}
    for layer in copy.layers if new else ():
        if layer.weights:  # other layers have names that Keras made up
            inside = any(isinstance(part, builtin) for part in layer._flatten_layers())
            kinds[layer.name] = type(layer).__name__ + (" with MultiHeadAttention" if inside else "")
    logits = copy.predict_on_batch([inputs["source"], inputs["target"]]) if new else None
    for weight in copy.weights if new else ():
        weight.assign(weight + 1)  # what the copy shares with the model changes there too
    return {
        "logits": logits,
        "new": new,
        "kind": "the given model" if copy is model else type(copy).__name__,
        "layers": [f"{name}: {kinds[name]}" for name in sorted(kinds)],
        "afterwards": {weight.path: np.asarray(weight) for weight in model.weights},
        "same": model.get_config() == before,
    }


def not_new(result):
    """Say what was returned instead of a new model."""
    if result["kind"] == "NoneType":
        return "you return nothing, expected a new Keras model."
    if result["kind"] == "the given model":
        return "you return the given model itself, expected a new one."
    return f"you return a {result['kind']}, expected a new Keras model."


def judge_layers(inputs, result, expected):
    if not result["new"]:
        return not_new(result)
    if result["layers"] == expected["layers"]:
        # The weights are random and the layers many: rounding shows more than in the trained model.
        near = same(result["logits"], expected["logits"], 1e-3)
        return None if near else "the copy's layers have the right names, but its logits are not the model's."
    different = [each for each in result["layers"] if each not in expected["layers"]]
    missing = [each for each in expected["layers"] if each not in result["layers"]]
    return f"the copy has {', '.join(different) or 'nothing'} where {', '.join(missing) or 'nothing'} is expected."


def judge_logits(inputs, result, expected):
    if not result["new"]:
        return not_new(result)
    if any("MultiHeadAttention" in each for each in result["layers"]):
        return "the copy still has the built-in attention, or a layer that is made from it."
    logits, trained = result["logits"], expected["logits"]
    if logits.shape != trained.shape:
        return f"the copy's logits have the shape {logits.shape}, expected {trained.shape}."
    far = np.abs(logits - trained)
    if np.all(far <= 1e-5 * np.abs(trained).max()):
        return None
    letters = np.zeros_like(inputs["source"])
    for row, word in enumerate(inputs["source"]):
        letters[row, : np.sum(word > 0)] = word[word > 0][::-1]
    right = np.all((np.argmax(logits, axis=-1) == letters) | (letters == 0), axis=1)
    if not np.isfinite(logits).all():
        return "the copy's logits are not all finite."
    return (
        f"the copy's logits differ from the model's by up to {far.max():.3g}. It writes {right.sum()} of {len(right)} words "
        "correctly."
    )


def judge_afterwards(inputs, result, expected):
    if not same(result["afterwards"], inputs["weights"]):
        return "the weights of the given model change: your code changes them, or the copy shares them."
    return None if result["same"] else "your code has changed the layers of the given model."


EXERCISE = Exercise(
    title="Replace the attention of a trained model",
    question="Can your own layer take the place of the built-in one in a model that is already trained? (seed 004: "
    "the class, put to work on the article's own example)",
    difficulty=3,
    minutes=25,
    uses=("numpy", "keras", "tensorflow"),
    needs=("OwnAttention", "take_weights"),
    forbids=(
        "MultiHeadAttention._compute_attention",
        "GroupQueryAttention",
        "Attention",
        "AdditiveAttention",
        "dot_product_attention",
    ),
    seconds=30.0,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check(
            "named",
            "in a model of other layers and sizes, every attention layer is yours, with its old name",
            3,
            draw_other,
            replaced,
            judge_layers,
            1,
        ),
        Check("values", "the copy gives the trained model's logits", 6, draw, replaced, judge_logits, 1),
        Check("named", "the given model has not changed", 2, draw_frozen, replaced, judge_afterwards, 1),
    ),
    wrong=(
        Wrong(
            "nothing-replaced",
            "Your copy still has the built-in layers. Its numbers are right because nothing has changed.",
            {TEST: "if False:", TAKEN: "            pass\n"},
        ),
        Wrong(
            "weights-of-others-forgotten",
            "You took the weights of the attention layers only. A clone begins with new weights in *all* layers.",
            {SET: "            pass\n"},
        ),
        Wrong(
            "weights-of-attention-forgotten",
            "You took the weights of all layers but the attention layers, which still have those that they began with.",
            {TAKEN: "            pass\n"},
        ),
        Wrong(
            "no-weights-taken",
            "You took no weights at all. A clone has the model's layers, but not its weights.",
            {TAKEN: "            pass\n", SET: "            pass\n"},
        ),
        Wrong(
            "only-first-replaced",
            "You replaced the first attention layer only.",
            {TEST: TEST.replace("):", ') and layer.name == "self_attention":')},
        ),
        Wrong(
            "masks-dropped",
            "The masks do not reach your layer: its logits are those of attention without any mask.",
            {
                MADE: "dropped = OwnAttention(layer.num_heads, layer.key_dim, name=layer.name)\n"
                "            whole = dropped.call\n"
                "            dropped.call = lambda query, value, key=None, attention_mask=None, use_causal_mask=False: "
                "whole(query, value, key)\n"
                "            return dropped"
            },
        ),
        Wrong(
            "names-lost",
            "Your layers have other names than those that they replace, so `get_layer` does not find them.",
            {MADE: MADE.replace(", name=layer.name", ', name="own_" + layer.name')},
        ),
        Wrong(
            "weights-taken-backwards",
            "You copied weights from the clone to the model. The trained weights are lost.",
            {SET: "            old.set_weights(new.get_weights())\n"},
        ),
        Wrong(
            "heads-and-size-exchanged",
            "You exchanged the number of heads and the head size.",
            {MADE: MADE.replace("layer.num_heads, layer.key_dim", "layer.key_dim, layer.num_heads")},
        ),
        Wrong(
            "model-returned",
            "You returned the given model instead of the copy.",
            {"    return copy\n": "    return model\n"},
        ),
        Wrong(
            "copy-not-returned",
            "You made the copy, but you do not return it.",
            {"    return copy\n": ""},
        ),
        Wrong(
            "frozen-layer-changed",
            "You unfroze the layers of the given model. It must not change: neither its weights nor whether they are "
            "trained.",
            {SET: "            old.trainable = True\n" + SET},
        ),
        Wrong(
            "exchanged-where-shapes-differ",
            "You exchange the axes of a kernel only where the shapes differ. With as many heads as features, nothing in "
            "the shape shows that they have to change places.",
            {
                TAKEN: "            for given, taken in zip(old.weights, new.weights, strict=True):\n"
                "                same = tuple(given.shape) == tuple(taken.shape)\n"
                "                taken.assign(given if same else keras.ops.swapaxes(given, 0, 1))\n"
            },
        ),
        Wrong(
            "others-shared",
            "Your copy shares the other layers with the given model: whoever trains the copy changes the model too. Make "
            "them anew from their configuration.",
            {OTHERS: "        return layer\n", SET: "            pass\n"},
        ),
        Wrong(
            "sizes-by-hand",
            "You wrote down the numbers of heads and the head sizes of one model. Ask each layer for its own.",
            {MADE: 'return OwnAttention(*((2, 4) if layer.name == "self_attention" else (3, 5)), name=layer.name)'},
        ),
        Wrong(
            "told-by-name",
            "You tell attention layers by their names. Another model calls them differently, and other layers so.",
            {TEST: 'if "attention" in layer.name:'},
        ),
        Wrong(
            "weights-taken-at-once",
            "You set the weights of the whole copy at once. Your layer keeps them in other shapes than the built-in. Go "
            "through the layers one by one.",
            {"    " + PAIRS: "    copy.set_weights(model.get_weights())\n    " + PAIRS},
        ),
        Wrong(
            "weights-given-as-they-are",
            "You give your layer the built-in's weights as they are. Its kernels are (I, H, O), and yours are (H, I, O): use "
            "take_weights.",
            {TAKEN: "            new.set_weights(old.get_weights())\n"},
        ),
        Wrong(
            "weights-taken-too-early",
            "You take the weights while the layer is being made. It has none yet: it is built when the clone calls it.",
            {MADE: MADE.replace("return OwnAttention(", "return take_weights(layer, OwnAttention(") + ")"},
        ),
        Wrong(
            "frozen-left-out",
            "You take over only the weights that are trained. A frozen layer has weights too.",
            {
                SET: "            for old_weight, new_weight in zip(old.trainable_weights, new.trainable_weights, strict=True):\n"
                "                new_weight.assign(old_weight)\n"
            },
        ),
    ),
)
