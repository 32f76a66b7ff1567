"""The checks of `HeadsAttention`: every argument of its call, dropout, gradients, unknown sizes."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

KEY = "key = value if key is None else key\n        mask"
MASK = 'mask = None if attention_mask is None else ops.cast(attention_mask, "bool")'
CAUSAL = "causal = ops.expand_dims(columns, (0, 1)) <= ops.expand_dims(rows, (0, 2))  # (1, T, S)"
BOTH = "mask = causal if mask is None else ops.logical_and(mask, causal)"
PROJECTED = "query, key, value = self.query_dense(query), self.key_dense(key), self.value_dense(value)"
SCORES = "scores = attention_scores(query, key, mask)"
MIXED = 'mixed = ops.einsum("BHTS,BSHO->BTHO", self.dropout_layer(scores, training=training), value)'
DTYPE = ', "dtype": self.dtype_policy}'
LAST = "return (output, scores) if return_attention_scores else output"


def weights(rng, heads, size, query, value, use_bias=True):
    """Return weights by the path of their attribute; `query` and `value` are widths."""
    found = {}
    for name, width in (("query", query), ("key", value), ("value", value)):
        found[f"{name}_dense.kernel"] = rng.normal(size=(heads, width, size))
        found[f"{name}_dense.bias"] = rng.normal(size=(heads, size))
    found["output_dense.kernel"] = rng.normal(size=(heads, size, query))
    found["output_dense.bias"] = rng.normal(size=(query,))
    return {name: array for name, array in found.items() if use_bias or "bias" not in name}


def draw(rng):
    """Return cross-attention with a query of another width, a mask (B, T, S), and a dropout rate that must not matter."""
    batch, rows, columns, heads, size, query, value = sizes(rng, 7)
    mask = rng.random((batch, rows, columns)) < 0.6
    mask[..., 0] = True
    return {
        "query": 0.5 * rng.normal(size=(batch, rows, query)),
        "value": rng.normal(size=(batch, columns, value)),
        "key": 0.5 * rng.normal(size=(batch, columns, value)),
        "attention_mask": mask,
        "weights": weights(rng, heads, size, query, value),
        "made": {"dropout": 0.4},
        "options": {"return_attention_scores": True},
    }


def draw_self(rng):
    """Return inputs without a key, with a causal mask and a padding mask (B, 1, S) that hides one item's first position."""
    batch, positions, more, heads, size, width = sizes(rng, 6, least=3)
    mask = rng.random((batch, 1, positions + more)) < 0.7
    mask[:, 0, 0] = True
    mask[0, 0, 0] = False
    return {
        "query": 0.5 * rng.normal(size=(batch, positions, width)),
        "value": 0.5 * rng.normal(size=(batch, positions + more, width)),
        "attention_mask": mask,
        "weights": weights(rng, heads, size, width, width),
        "made": {},
        "options": {"use_causal_mask": True, "training": False},
    }


def draw_heads(rng):
    """Return a mask for each head, (B, H, T, S), that hides everything from one query of one head, and a causal mask."""
    found = draw(rng)
    heads = found["weights"]["query_dense.kernel"].shape[0]
    batch, rows, columns = found["attention_mask"].shape
    mask = rng.random((batch, heads, rows, columns)) < 0.6
    mask[..., 0] = True
    mask[-1, -1, 0] = False
    return {**found, "attention_mask": mask, "options": {"use_causal_mask": True}}


def draw_causal(rng):
    """Return a causal mask alone, without biases."""
    batch, positions, heads, size, width = sizes(rng, 5)
    return {
        "query": 0.5 * rng.normal(size=(batch, positions, width)),
        "value": 0.5 * rng.normal(size=(batch, positions, width)),
        "attention_mask": None,
        "weights": weights(rng, heads, size, width, width, use_bias=False),
        "made": {"use_bias": False},
        "options": {"use_causal_mask": True},
    }


def draw_training(rng):
    """Return values that are the rows of an identity, twice side by side, and a merge that lays the heads side by side.

    So the output consists of the scores that are left, each of them twice. The mask hides the last key.
    """
    batch, rows, heads, keys = 5, 6, 3, 5
    size = 2 * keys
    found = weights(rng, heads, size, heads * size, keys)
    found["value_dense.kernel"] = np.repeat(np.tile(np.eye(keys), 2)[None], heads, axis=0)
    found["value_dense.bias"] = np.zeros((heads, size))
    found["output_dense.kernel"] = np.eye(heads * size).reshape(heads, size, heads * size)
    found["output_dense.bias"] = np.zeros(heads * size)
    return {
        "query": 0.3 * rng.normal(size=(batch, rows, heads * size)),
        "value": np.repeat(np.eye(keys)[None], batch, axis=0),
        "attention_mask": np.broadcast_to(np.arange(keys) < keys - 1, (batch, rows, keys)).copy(),
        "weights": found,
        "made": {"dropout": float(rng.uniform(0.2, 0.5))},
        "options": {"return_attention_scores": True, "training": True},
    }


def called(answer, inputs):
    """Return the layer's result with the given weights, and how many it trains.

    A call without a key follows one with a key. In training, return also the result of a second call. Both are traced,
    because `fit` traces too.
    """
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    layer = answer.HeadsAttention(heads, size, **inputs["made"])
    arguments = {name: inputs[name] for name in ("query", "value", "key", "attention_mask") if name in inputs}
    layer.build(*(arguments[name].shape for name in ("query", "value", "key") if name in arguments))
    worker_api.set_weights(layer, inputs["weights"])
    training = inputs["options"].get("training")
    call = tf.function(layer) if training else layer
    given = worker_api.tensors(arguments, "float64")
    if "key" not in given and not training:  # a layer that keeps this key gives another result below
        layer(**given, key=given["value"][:, ::-1])
    result, *more = (call(**given, **inputs["options"]) for _ in range(2 if training else 1))
    return {"result": result, "more": more, "how many weights are trained": len(layer.trainable_weights)}


def gradients(answer, inputs):
    """Return the gradient of the sum of squares with respect to every weight but the key's bias, where it is 0."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    layer = answer.HeadsAttention(heads, size)
    query, value, key = (tf.constant(inputs[name]) for name in ("query", "value", "key"))
    layer.build(query.shape, value.shape, key.shape)
    worker_api.set_weights(layer, inputs["weights"])
    names = [name for name in inputs["weights"] if name != "key_dense.bias"]
    with tf.GradientTape() as tape:
        output = layer(query, value, key, attention_mask=tf.constant(inputs["attention_mask"]))
        loss = tf.reduce_sum(tf.square(output))
    found = {name: getattr(getattr(layer, name.split(".")[0]), name.split(".")[1]).value for name in names}
    return {
        "gradients": tape.gradient(loss, found),
        "how many weights are trained": len(layer.trainable_weights),
    }


def unknown(answer, inputs):
    """Return a traced call for batches of any size and sentences of any length."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    query, value = inputs["query"], inputs["value"]
    heads, _, size = inputs["weights"]["query_dense.kernel"].shape
    layer = answer.HeadsAttention(heads, size)
    mask = inputs["attention_mask"]
    layer.build((None, None, query.shape[-1]), (None, None, value.shape[-1]))
    worker_api.set_weights(layer, inputs["weights"])
    symbolic = layer(
        *(keras.Input((None, each.shape[-1])) for each in (query, value)),
        attention_mask=keras.Input((None, None), dtype="bool"),
        use_causal_mask=True,
    )
    signature = [tf.TensorSpec((None, None, each.shape[-1]), "float64") for each in (query, value)]
    traced = tf.function(
        lambda query, value, mask: layer(query, value, attention_mask=mask, use_causal_mask=True),
        input_signature=[*signature, tf.TensorSpec((None, None, None), "bool")],
    )
    return [
        traced(query, value, mask),
        traced(query[-1:, :1], value[-1:, :2], mask[-1:, :, :2]),
        len(symbolic.shape),
    ]


def dtypes(answer, inputs):
    """Return the dtypes of a layer in mixed precision: of its parts, their weights, and a call in training."""
    import keras

    layer = answer.HeadsAttention(2, 3, dropout=0.3, dtype="mixed_float16")
    layer.build(inputs["query"].shape, inputs["value"].shape)
    found = {}
    for name in ("query", "key", "value", "output"):
        part = getattr(layer, f"{name}_dense")
        kept = [keras.backend.standardize_dtype(weight.dtype) for weight in part.weights]
        found[name] = [part.compute_dtype, *dict.fromkeys([part.variable_dtype, *kept])]
    arguments = worker_api.tensors({name: inputs[name] for name in ("query", "value", "attention_mask")})
    results = layer(**arguments, return_attention_scores=True, training=True)
    return {"parts": found, "results": [keras.backend.standardize_dtype(each.dtype) for each in results]}


def right_dtypes(inputs, result, expected):
    """Check that all parts have the layer's dtype, and that results have it too."""
    mixed = 'in a layer that is made with dtype="mixed_float16",'
    for name, (computes, *keeps) in result["parts"].items():
        if [computes, *keeps] != list(expected["parts"][name]):
            return f"{mixed} `{name}_dense` computes in {computes} and has weights of {' and '.join(keeps)}."
    if list(result["results"]) != list(expected["results"]):
        return f"{mixed} output and scores are {' and '.join(result['results'])}, expected float16."
    return None


def dropped(inputs, result, expected):
    """Check that whole scores are dropped, in each call others, and that the rest grow by 1 / (1 - rate).

    The returned scores must not change. The last key is hidden: it has no score to drop.
    """
    kept = 1 / (1 - inputs["made"]["dropout"])
    (output, returned), (_, scores) = (map(np.asarray, each["result"]) for each in (result, expected))
    batch, heads, rows, keys = scores.shape
    twice = np.moveaxis(output.reshape(batch, rows, heads, 2, keys), 3, -1)  # (B, T, H, S, 2)
    if np.any(twice[..., -1, :]):
        return "in training, a query attends to what the mask hides."
    factors = twice[..., :-1, :] / np.swapaxes(scores, 1, 2)[..., :-1, None]
    lost = np.isclose(factors[..., 0], 0.0, atol=1e-6)
    share, rate = np.mean(lost), inputs["made"]["dropout"]
    if not lost.any():
        return "no score is dropped in training."
    if not np.allclose(factors, factors[..., :1], atol=1e-6):
        return "the dropped numbers are not scores: a dropped score takes all of its value's features with it."
    if not np.all(np.isclose(factors, 0.0, atol=1e-6) | np.isclose(factors, kept, atol=1e-6)):
        return "the scores that mix the values in training are neither 0 nor the scores times 1 / (1 - rate)."
    if not rate / 4 < share < 2 * rate:
        return f"{share:.0%} of the scores are dropped in training, expected about {rate:.0%}."
    if any(np.all(lost == lost.take([0], axis)) for axis in range(4)):
        return "the same scores are dropped in all sentences, rows, heads or columns. Each is dropped by chance."
    again = np.asarray(result["more"][0][0])
    if np.shape(again) == np.shape(output) and np.array_equal(again == 0, output == 0):
        return "the same scores are dropped in every call."
    if not np.allclose(returned, scores):
        return "the returned scores are not those before dropout."
    return None


EXERCISE = Exercise(
    title="The whole layer",
    question="What does the built-in layer do with its arguments, and can my own layer give the same numbers? (seeds 000 and 001; the order of the arguments: keras-team/keras#19257)",
    difficulty=3,
    minutes=45,
    uses=("numpy", "keras", "tensorflow"),
    needs=("HeadProjection", "attention_scores", "HeadMerge"),
    forbids=(
        "MultiHeadAttention",
        "GroupQueryAttention",
        "Attention",
        "AdditiveAttention",
        "EinsumDense",
        "Dense",
        "dot_product_attention",
    ),
    seconds=20.0,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, ask=called, times=1),
        Check("edge", "no key; a causal mask and a padding mask together", 1, draw_self, called, times=1),
        Check("edge", "a mask for each head and a causal mask together", 1, draw_heads, called, times=1),
        Check("edge", "a causal mask alone, and no biases", 1, draw_causal, called, times=1),
        # Dropout alone is no attention, and its scores are 1 whatever the logits: it earns nothing without the values.
        Check("invariants", "dropout, in training", 2, draw_training, called, dropped, times=1),
        Check("gradient", "the gradients of all weights", 1, draw, gradients, times=1),
        Check("edge", "its parts have its dtype", 1, draw, dtypes, right_dtypes, times=1),
        Check(
            "unknown batch", "it can be traced for batches and sentences of any size", 2, draw_self, unknown, times=1
        ),
    ),
    wrong=(
        Wrong(
            "inputs-key-value-swapped",
            "You exchanged key and value. The call's order is query, value, key.",
            {KEY: "key, value = value, value if key is None else key\n        mask"},
            "the order of keras-team/keras#19257",
        ),
        Wrong(
            "inputs-key-is-value",
            "You never use the key: you project the value instead.",
            {KEY: "key = value\n        mask"},
            "Vaswani et al. 2017, section 3.2.2",
        ),
        Wrong(
            "mask-argument-ignored",
            "Your `attention_mask` has no effect.",
            {MASK: "mask = None"},
            "hao-ai-lab/FastVideo#1383, lucidrains/flamingo-pytorch#10",
        ),
        Wrong(
            "causal-missing",
            "Your `use_causal_mask` has no effect.",
            {BOTH: "pass"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "mask-replaces-causal",
            "With an `attention_mask`, your causal mask disappears. Both masks must apply.",
            {BOTH: "mask = causal if mask is None else mask"},
            "FGA-DIKU/BONSAI#344",
        ),
        Wrong(
            "causal-replaces-others",
            "With `use_causal_mask`, your `attention_mask` has no effect. Both masks must apply.",
            {BOTH: "mask = causal"},
            "keras-team/keras-io#482, huggingface/transformers#37807",
        ),
        Wrong(
            "masks-either",
            "You combine the masks with *or*. A position is visible only if both masks allow it.",
            {BOTH: BOTH.replace("logical_and", "logical_or")},
            "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        ),
        Wrong(
            "causal-strict",
            "Your causal mask hides each position from itself: you wrote s < t instead of s ≤ t.",
            {CAUSAL: CAUSAL.replace("<=", "<")},
            "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        ),
        Wrong(
            "causal-reversed",
            "Your causal mask is transposed: it hides the past and shows the future.",
            {CAUSAL: CAUSAL.replace("<=", ">=")},
            "pytorch/examples#649",
        ),
        Wrong(
            "dropout-never",
            "No dropout acts in training. Apply it to the scores, and pass `training` on to it.",
            {MIXED: 'mixed = ops.einsum("BHTS,BSHO->BTHO", scores, value)'},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "dropout-at-inference",
            "You apply dropout outside of training too.",
            {MIXED: MIXED.replace("training=training", "training=True")},
            "pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791",
        ),
        Wrong(
            "dropout-on-mixed",
            "You apply dropout after the mix, to the mixed values or to the output. Apply it to the scores.",
            {
                MIXED: 'mixed = ops.einsum("BHTS,BSHO->BTHO", scores, value)\n'
                "        mixed = self.dropout_layer(mixed, training=training)"
            },
            "nikhilbarhate99/min-decision-transformer#2",
        ),
        Wrong(
            "returned-dropped",
            "You return the scores after dropout, whose rows do not sum to 1.",
            {
                SCORES: SCORES + "\n        scores = self.dropout_layer(scores, training=training)",
                "self.dropout_layer(scores, training=training), value)": "scores, value)",
            },
            "pytorch/pytorch#42929, yangchengbupt/NeuralDiffusionModel#1",
        ),
        Wrong(
            "kernels-query-for-key",
            "You project the key with the query's weights. It has its own.",
            {
                "self.key_dense(key)": "(self.query_dense(key) if key.shape[-1] == query.shape[-1] else self.key_dense(key))"
            },
            "stevezheng23/sequence_labeling_tf#81",
        ),
        Wrong(
            "bias-always",
            "Your layer has biases with `use_bias=False` too. Pass `use_bias` on to its parts.",
            {'"use_bias": self.use_bias': '"use_bias": True'},
        ),
        Wrong(
            "scores-always-returned",
            "You return the scores without being asked, so a caller who wants only the output gets a tuple.",
            {LAST: "return output, scores"},
        ),
        Wrong(
            "parts-without-dtype",
            "You make the parts without the layer's dtype. A layer with its own dtype then computes in two dtypes.",
            {DTYPE: "}"},
        ),
        Wrong(
            "lengths-fixed",
            "You make the causal mask from `shape`, which holds `None` while a model is traced.",
            {
                "rows, columns = ops.arange(ops.shape(query)[1]), ops.arange(ops.shape(key)[1])": "rows, columns = ops.arange(int(query.shape[1])), ops.arange(int(key.shape[1]))"
            },
        ),
        Wrong(
            "mask-through-numpy",
            "You turn the mask into a NumPy array. While a model is traced, the mask holds no numbers yet.",
            {
                MASK: "import numpy as np\n        "
                "mask = None if attention_mask is None else ops.convert_to_tensor(np.asarray(attention_mask, bool))"
            },
        ),
        Wrong(
            "dropout-same-in-every-call",
            "You gave dropout a fixed seed, so the same scores are dropped in every step of the training.",
            {
                MIXED: "kept = keras.random.dropout(scores, self.dropout, seed=7) if training else scores\n"
                '        mixed = ops.einsum("BHTS,BSHO->BTHO", kept, value)'
            },
        ),
        Wrong(
            "parts-compute-dtype",
            "You pass on only the dtype that the layer computes in. In mixed precision, the weights are kept in another.",
            {DTYPE: ', "dtype": self.compute_dtype}'},
        ),
        Wrong(
            "dropout-by-hand-in-float64",
            "You multiply the scores by numbers of float64. In a layer of another dtype, cast these to the scores' own.",
            {
                MIXED: "kept = scores\n        if training:\n"
                "            keep = keras.random.uniform(ops.shape(scores)) >= self.dropout\n"
                '            kept = scores * ops.cast(keep, "float64") / (1 - self.dropout)\n'
                '        mixed = ops.einsum("BHTS,BSHO->BTHO", kept, value)'
            },
        ),
        Wrong(
            "dropout-seed-of-numpy",
            "You draw the seed of dropout outside of Keras. `fit` traces a call only once, and then the same scores "
            "are dropped in every step.",
            {
                "import keras\nfrom": "import random\n\nimport keras\nfrom",
                "from keras import ops\n": "from keras import ops\n\nSEEDS = random.Random(4)\n",
                MIXED: "seed = SEEDS.randrange(1 << 30)\n"
                "        kept = keras.random.dropout(scores, self.dropout, seed=seed) if training else scores\n"
                '        mixed = ops.einsum("BHTS,BSHO->BTHO", kept, value)',
            },
        ),
        Wrong(
            "mask-not-in-training",
            "In training you do not use the mask, so the layer learns to attend to padding.",
            {SCORES: "scores = attention_scores(query, key, None if training else mask)"},
        ),
        Wrong(
            "value-from-key",
            "You project the key to get the value. The value is an input of its own, with its own weights.",
            {PROJECTED: PROJECTED.replace("self.value_dense(value)", "self.value_dense(key)")},
        ),
        Wrong(
            "kernels-key-value-swapped",
            "You exchanged the projections: the key goes through the value's weights, and the value through the key's.",
            {
                PROJECTED: PROJECTED.replace(
                    "self.key_dense(key), self.value_dense(value)", "self.value_dense(key), self.key_dense(value)"
                )
            },
        ),
        Wrong(
            "kernels-key-for-value",
            "You project the value with the key's weights. It has its own.",
            {PROJECTED: PROJECTED.replace("self.value_dense(value)", "self.key_dense(value)")},
        ),
        Wrong(
            "scale-twice",
            "You scale the logits twice: `attention_scores` divides by √O already.",
            {SCORES: SCORES.replace("query,", "query / self.key_dim**0.5,")},
        ),
        Wrong(
            "softmax-twice",
            "You apply the softmax twice: `attention_scores` returns scores, not logits.",
            {SCORES: SCORES + "\n        scores = ops.softmax(scores, axis=-1)"},
        ),
        Wrong(
            "softmax-over-heads",
            "Your scores sum to one over the heads. Each head's scores sum to one over the keys.",
            {SCORES: SCORES + "\n        scores = scores / ops.sum(scores, axis=1, keepdims=True)"},
        ),
        Wrong(
            "causal-wrong-corner",
            "You line the causal mask up at the last query and the last key. Both are counted from the first, so that the first query sees only the first key, however many there are.",
            {CAUSAL: "rows = rows + ops.shape(key)[1] - ops.shape(query)[1]\n            " + CAUSAL},
        ),
        Wrong(
            "causal-one-ahead",
            "Your causal mask shows each position the next one too: s ≤ t + 1 instead of s ≤ t.",
            {CAUSAL: "rows = rows + 1\n            " + CAUSAL},
        ),
        Wrong(
            "causal-always",
            "You hide the future without being asked. Do so only with `use_causal_mask`.",
            {"if use_causal_mask:": "if True:"},
        ),
        Wrong(
            "causal-after-softmax",
            "You apply the causal mask after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {
                BOTH: "pass",
                SCORES: SCORES
                + "\n        if use_causal_mask:\n            scores = ops.where(ops.expand_dims(causal, 1), scores, 0.0)",
            },
        ),
        Wrong(
            "mask-after-softmax",
            "You apply the masks after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {
                SCORES: SCORES.replace("mask)", "None)")
                + "\n        if mask is not None:\n            mask = mask if len(mask.shape) == 4 else ops.expand_dims(mask, 1)\n            scores = ops.where(mask, scores, 0.0)"
            },
        ),
        Wrong(
            "mask-inverted",
            "Your mask hides what it should show. True means *attend*.",
            {MASK: MASK + "\n        mask = None if mask is None else ops.logical_not(mask)"},
        ),
        Wrong(
            "mask-of-first-head",
            "Of a mask for each head, you use only the first head's.",
            {MASK: MASK + "\n        if mask is not None and len(mask.shape) == 4:\n            mask = mask[:, 0]"},
        ),
        Wrong(
            "merge-missing",
            "You return the mixed values side by side. The merge, `output_dense`, makes the output of them.",
            {
                "output = self.output_dense(mixed)": "output = ops.reshape(mixed, (-1, ops.shape(query)[1], self.num_heads * self.key_dim))"
            },
        ),
        Wrong(
            "output-plus-query",
            "You add the query to the output. The residual connection is not part of this layer.",
            {
                PROJECTED: "given = query\n        " + PROJECTED,
                "output = self.output_dense(mixed)": "output = self.output_dense(mixed) + given",
            },
        ),
        Wrong(
            "key-kept",
            "Without a key, you use the key of an earlier call: it is kept in the layer. Without a key, the value is the key.",
            {
                KEY: 'self.last = getattr(self, "last", value) if key is None else key\n        key = self.last\n        mask'
            },
        ),
        Wrong(
            "dropout-on-values",
            "You apply dropout to the values. Apply it to the scores.",
            {MIXED: 'mixed = ops.einsum("BHTS,BSHO->BTHO", scores, self.dropout_layer(value, training=training))'},
        ),
        Wrong(
            "dropout-on-logits",
            "You apply dropout to the query, before the softmax. Apply it to the scores.",
            {
                SCORES: SCORES.replace("query,", "self.dropout_layer(query, training=training),"),
                MIXED: 'mixed = ops.einsum("BHTS,BSHO->BTHO", scores, value)',
            },
        ),
        Wrong(
            "dropout-share-kept",
            "You make the dropout layer with the share that stays. Keras takes the rate, the share that is dropped.",
            {"Dropout(self.dropout,": "Dropout(1 - self.dropout,"},
        ),
        Wrong(
            "dropout-then-normalised",
            "After dropout you divide the scores by the sum of their row. Dropout divides all of them by the same number.",
            {
                MIXED: "kept = self.dropout_layer(scores, training=training)\n        kept = kept / (ops.sum(kept, axis=-1, keepdims=True) + 1e-9)\n"
                '        mixed = ops.einsum("BHTS,BSHO->BTHO", kept, value)'
            },
        ),
        Wrong(
            "mixed-reshaped",
            "You bring the heads to their place with a reshape. A reshape keeps the order of the numbers; a transpose moves axes.",
            {
                MIXED: "kept = self.dropout_layer(scores, training=training)\n        mixed = ops.matmul(kept, ops.transpose(value, (0, 2, 1, 3)))\n"
                "        mixed = ops.reshape(mixed, (-1, ops.shape(query)[1], self.num_heads, self.key_dim))"
            },
        ),
    ),
)
