"""The checks of `SavedAttention`: its config, a file, and padding masks on their way in and out."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SUPPORTS = "self.supports_masking = True"
BASE = "config = super().get_config()"
DROPOUT = 'config["dropout"] = self.dropout'
USE_BIAS = 'config["use_bias"] = self.use_bias'
PADDINGS = "for padding in (value_mask, key_mask):"
AXES = "axes = 1 if mask is None or len(mask.shape) == 3 else (1, 2)"
EXPANDED = 'padding = ops.expand_dims(ops.cast(padding, "bool"), axes)'
BOTH = "mask = padding if mask is None else ops.logical_and(mask, padding)"


def draw(rng):
    """Return two embedding tables, ids with padding, a key, a mask with four axes or three, and what a layer is made with."""
    batch, rows, columns, heads, size, width, other = sizes(rng, 7, least=3)
    source, target = rng.integers(1, 9, (batch, columns)), rng.integers(1, 9, (batch, rows))
    source[:, -1] = source[0, -2] = target[1:, -1] = 0
    mask = rng.random((batch, heads, rows, columns)) < 0.7
    mask[..., :2] = True
    weights = {}
    for name, features in (("query", width), ("key", other), ("value", other)):
        weights[f"{name}_dense.kernel"] = rng.normal(size=(heads, features, size))
        weights[f"{name}_dense.bias"] = rng.normal(size=(heads, size))
    weights["output_dense.kernel"] = rng.normal(size=(heads, size, width))
    weights["output_dense.bias"] = rng.normal(size=(width,))
    return {
        "target": target,
        "source": source,
        "target table": rng.normal(size=(9, width)),
        "source table": rng.normal(size=(9, other)),
        "key": rng.normal(size=(batch, columns, other)),
        "attention_mask": mask,
        # In all items but the first, this hides a word.
        "key_mask": np.arange(columns)[None] != rng.integers(1, max(2, columns - 1), (batch, 1)),
        "weights": weights,
        "made": {"dropout": float(rng.integers(1, 10)) / 10, "use_bias": False},
    }


def masked(answer, inputs):
    """Return the results for each argument of the call, the output's mask, and whether dropout is active in training."""
    import warnings

    import keras

    warnings.filterwarnings("ignore", r"Layer '\w+' \(of type Head(Projection|Merge)\) was passed an input with a mask")
    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    layer = answer.SavedAttention(heads, size, dropout=inputs["made"]["dropout"])
    embedded = {}
    for name in ("target", "source"):
        table = inputs[f"{name} table"]
        embedding = keras.layers.Embedding(*table.shape, mask_zero=True)
        embedding.build()
        embedding.set_weights([table])
        embedded[name] = embedding(inputs[name])
    query, value = embedded["target"], embedded["source"]
    plain = keras.ops.convert_to_tensor(inputs["source table"][inputs["source"]])
    layer.build(query.shape, value.shape)
    worker_api.set_weights(layer, inputs["weights"])
    mask, key_mask = inputs["attention_mask"], inputs["key_mask"]
    output = layer(query, value)
    handed = getattr(output, "_keras_mask", None)
    return {
        "padding of the value alone": output,
        "with a mask of four axes": layer(query, value, attention_mask=mask),
        "with a mask of three axes, and scores": layer(
            query, value, attention_mask=mask[:, 0], return_attention_scores=True
        ),
        "with a key and a key mask": layer(query, value, keras.ops.convert_to_tensor(inputs["key"]), key_mask=key_mask),
        "with a key mask alone": layer(query, plain, key_mask=key_mask),
        "with a value mask alone": layer(query, plain, value_mask=key_mask),
        "without any mask": layer(query, plain),
        "with a key mask and a mask of three axes": layer(query, value, attention_mask=mask[:, 0], key_mask=key_mask),
        "with a key mask and a mask of four axes": layer(query, value, attention_mask=mask, key_mask=key_mask),
        "causal": layer(query, value, use_causal_mask=True),
        "dropout in training": bool(np.any(np.asarray(layer(query, value, training=True)) != np.asarray(output))),
        "mask on the output": None if handed is None else np.asarray(handed),
    }


def saved(answer, inputs):
    """Return the results of a model that begins with ids and a mask, before it is saved and after it is loaded."""
    import warnings

    import keras

    warnings.filterwarnings("ignore", r"Layer '\w+' \(of type Head(Projection|Merge)\) was passed an input with a mask")

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    layer = answer.SavedAttention(heads, size, dropout=inputs["made"]["dropout"], name="attention")
    tables = [inputs["target table"], inputs["source table"]]
    ids = [keras.Input((None,), dtype="int32") for _ in range(3)]
    mask = keras.Input((None, None), dtype="bool")
    embeddings = [keras.layers.Embedding(*table.shape, mask_zero=True) for table in tables]
    query, value, key = (embedding(each) for embedding, each in zip([*embeddings, embeddings[1]], ids, strict=True))
    model = keras.Model([*ids, mask], layer(query, value, key, attention_mask=mask))
    for embedding, table in zip(embeddings, tables, strict=True):
        embedding.set_weights([table])
    worker_api.set_weights(layer, inputs["weights"])
    # The keys are the sentences in reverse order, with padding of their own.
    arrays = [inputs["target"], inputs["source"], inputs["source"][::-1], inputs["attention_mask"][:, 0]]
    model.save("model.keras")
    loaded = keras.models.load_model("model.keras", custom_objects={"SavedAttention": answer.SavedAttention})
    return [model(arrays), loaded(arrays), len(loaded.weights)]


def config(answer, inputs):
    """Return the layers' own part of the config, and what layers made from the config have and return.

    One layer has drawn arguments, mixed precision and frozen weights, the other is plain.
    """
    import keras

    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    query, value = (keras.ops.convert_to_tensor(inputs[f"{name} table"][None]) for name in ("target", "source"))
    names = ("num_heads", "key_dim", "dropout", "use_bias", "name")
    found = []
    frozen = {**inputs["made"], "name": "mine", "dtype": "mixed_float16", "trainable": False}
    for options in (frozen, {"name": "plain", "dtype": "float64"}):
        made = answer.SavedAttention(heads, size, **options).get_config()
        again = answer.SavedAttention.from_config(made)
        attributes = [*(getattr(again, name) for name in names), again.trainable, again.dtype_policy.name]
        found.append(
            {
                "config": {name: made[name] for name in names if name in made},
                "made of it": attributes,
                "dtype of its result": keras.backend.standardize_dtype(again(query, value).dtype),
            }
        )
    return found


EXERCISE = Exercise(
    title="A layer that is saved, and that passes masks on",
    question="Why can't `load_model` rebuild my layer, and where does the embedding's mask go? (Keras' guide on custom layers; keras-team/keras-io#1046)",
    difficulty=2,
    minutes=25,
    uses=("numpy", "keras", "tensorflow"),
    needs=("HeadProjection", "attention_scores", "HeadMerge", "HeadsAttention"),
    forbids=(
        "MultiHeadAttention",
        "GroupQueryAttention",
        "Attention",
        "AdditiveAttention",
        "dot_product_attention",
    ),
    seconds=20.0,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, ask=masked, times=1, ones=False),
        Check("invariants", "its config, and a layer made of it", 2, draw, config, times=1),
        Check("saving", "a model in a .keras file: the same results after loading", 2, draw, saved, times=1),
    ),
    wrong=(
        Wrong(
            "supports-masking-missing",
            "Your output has no mask. Without `supports_masking` Keras drops it, and the layers that follow attend to padding.",
            {SUPPORTS: "self.supports_masking = False"},
        ),
        Wrong(
            "config-without-base",
            "Your config lacks the base class's part, so a loaded layer has another name and another dtype.",
            {BASE: "config = {}"},
        ),
        Wrong(
            "config-dropout-missing",
            "Your config lacks the dropout rate, so a loaded layer trains without dropout.",
            {DROPOUT: "config.pop('dropout', None)"},
        ),
        Wrong(
            "config-bias-missing",
            "Your config lacks `use_bias`, so a layer without biases is loaded with biases.",
            {USE_BIAS: "config.pop('use_bias', None)"},
        ),
        Wrong(
            "padding-ignored",
            "You do not use the value's padding mask, so queries attend to padding.",
            {PADDINGS: "for padding in ():"},
            "speechbrain/speechbrain#1107, huggingface/transformers#47946, rosinality/mac-network-pytorch#7",
        ),
        Wrong(
            "padding-inverted",
            "You read the padding masks the other way round. True is a word, which queries may attend to.",
            {EXPANDED: EXPANDED + "\n                padding = ops.logical_not(padding)"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-replaces-padding",
            "With an `attention_mask`, you do not use the padding masks. Both masks must apply.",
            {BOTH: "mask = padding if mask is None else mask"},
            "Vaswani et al. 2017, section 3.2.3",
        ),
        Wrong(
            "padding-replaces-mask",
            "With a padding mask, you do not use `attention_mask`. Both masks must apply.",
            {BOTH: "mask = padding"},
            "Vaswani et al. 2017, section 3.2.3",
        ),
        Wrong(
            "key-mask-ignored",
            "Your `key_mask` has no effect. A position is visible only if neither the value's mask nor the key's hides it.",
            {PADDINGS: "for padding in (value_mask,):"},
        ),
        Wrong(
            "key-mask-replaces-value-mask",
            "With a `key_mask`, your `value_mask` has no effect. A position is visible only if neither hides it.",
            {PADDINGS: "for padding in (value_mask if key_mask is None else key_mask,):"},
        ),
        Wrong(
            "query-mask-hides",
            "You hide everything from the queries that `query_mask` calls padding. It hides nothing here: Keras attaches it "
            "to the output, and a query always has something to attend to.",
            {
                PADDINGS: "if query_mask is not None:\n"
                '            rows = ops.expand_dims(ops.cast(query_mask, "bool"), 2)\n'
                "            rows = rows if mask is None or len(mask.shape) == 3 else ops.expand_dims(rows, 1)\n"
                "            mask = rows if mask is None else ops.logical_and(mask, rows)\n        " + PADDINGS
            },
        ),
        Wrong(
            "inputs-key-is-value",
            "You do not pass the key on to `HeadsAttention`, which then uses the value as key.",
            {"            key,\n            attention_mask=mask": "            attention_mask=mask"},
        ),
        Wrong(
            "dropout-never",
            "You switch dropout off for good. Pass `training` on.",
            {"training=training": "training=False"},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "heads-share-axis",
            "With a mask of four axes, the padding mask's batch lines up with the heads. Give the padding mask an axis for the heads too.",
            {AXES: "axes = 1"},
            "seed 001",
        ),
        Wrong(
            "masks-either",
            "You combine the masks with *or*. A position is visible only if both masks allow it.",
            {BOTH: BOTH.replace("logical_and", "logical_or")},
            "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        ),
        Wrong(
            "padding-through-numpy",
            "You turn masks into NumPy arrays. While a model is made, they hold no numbers yet.",
            {
                EXPANDED: "import numpy as np\n\n                padding = ops.expand_dims(np.asarray(padding, bool), axes)"
            },
        ),
        Wrong(
            "key-mask-needs-value-mask",
            "You use `key_mask` only if there is a `value_mask` too. Each hides positions by itself.",
            {PADDINGS: "for padding in (value_mask, None if value_mask is None else key_mask):"},
        ),
        Wrong(
            "key-mask-or-attention-mask",
            "With an `attention_mask`, your `key_mask` has no effect. A position is visible only if no mask hides it.",
            {PADDINGS: "for padding in (value_mask, key_mask if attention_mask is None else None):"},
        ),
        Wrong(
            "config-base-by-hand",
            "You wrote the base class's part of the config yourself and left out `trainable`, so a frozen layer is trained "
            "again when it is loaded.",
            {BASE: 'config = {"name": self.name, "dtype": self.dtype_policy}'},
        ),
        Wrong(
            "config-compute-dtype",
            "Your config holds only the dtype that the layer computes in. A layer in mixed precision is then loaded without "
            "its float32 weights.",
            {BASE: BASE + '\n        config["dtype"] = self.compute_dtype'},
        ),
        Wrong(
            "mask-always-needed",
            "Without any mask your layer breaks. A call with query and value alone is the simplest of all.",
            {
                "attention_mask=mask,": "attention_mask=ops.logical_and(mask, True),",
            },
        ),
        Wrong(
            "value-mask-not-read",
            "You read the mask that is attached to the value. A caller may also pass `value_mask` itself.",
            {PADDINGS: 'for padding in (getattr(value, "_keras_mask", None), key_mask):'},
        ),
    ),
)
