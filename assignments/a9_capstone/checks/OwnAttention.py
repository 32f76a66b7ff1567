"""Checks of `OwnAttention`, on every argument that the trained model uses."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard

KEY = "key = value if key is None else key\n        query"
QUERY = 'query = ops.einsum("BTI,HIO->BTHO", query, self.query_kernel) + self.query_bias'
KEYS = 'key = ops.einsum("BSI,HIO->BSHO", key, self.key_kernel) + self.key_bias'
VALUES = 'value = ops.einsum("BSI,HIO->BSHO", value, self.value_kernel) + self.value_bias'
LOGITS = 'logits = ops.einsum("BTHO,BSHO->BHTS", query / self.key_dim**0.5, key)'
MASKED = "            logits = ops.where(mask, logits, -1e30)\n"
CAUSAL = "causal = ops.expand_dims(columns, 0) <= ops.expand_dims(rows, 1)  # (T, S)"
HIDDEN = "            logits = ops.where(causal, logits, -1e30)\n"
SCORES = "scores = ops.softmax(logits, axis=-1)"
OUTPUT = 'ops.einsum("BTHO,HOE->BTE", mixed, self.output_kernel) + self.output_bias'


def weights(rng, heads, size, query, value):
    """Return weights by the name of their attribute; `query` and `value` are widths."""
    found = {}
    for role, width in (("query", query), ("key", value), ("value", value)):
        found[f"{role}_kernel"] = rng.normal(size=(heads, width, size))
        found[f"{role}_bias"] = rng.normal(size=(heads, size))
    found["output_kernel"] = rng.normal(size=(heads, size, query))
    found["output_bias"] = rng.normal(size=(query,))
    return found


def lowered(weights):
    """Return weights with which all logits of the first head are lower by hundreds of thousands, and else as far apart.

    The last feature of that head's keys is the same for all, so its product with that of a query hides nothing.
    """
    weights["key_kernel"][0, :, -1] = 0
    weights["query_bias"][0, -1], weights["key_bias"][0, -1] = 1000, -1000
    return weights


def draw(rng):
    """Draw cross-attention with a key of its own and a mask (B, T, S)."""
    batch, rows, columns, heads, size, query, value = sizes(rng, 7)
    mask = rng.random((batch, rows, columns)) < 0.6
    mask[..., 0] = True
    return {
        "query": 0.5 * rng.normal(size=(batch, rows, query)),
        "value": rng.normal(size=(batch, columns, value)),
        "key": 0.5 * rng.normal(size=(batch, columns, value)),
        "attention_mask": mask,
        "weights": lowered(weights(rng, heads, size, query, value)),
        "use_causal_mask": False,
    }


def draw_plain(rng):
    """Draw neither a mask nor a key."""
    return {**draw(rng), "key": None, "attention_mask": None}


def draw_padding(rng):
    """Draw a padding mask (B, 1, S) and no key, with padding on the left, in single precision as models are."""
    found = draw(rng)
    batch, _, columns = found["attention_mask"].shape
    hidden = rng.integers(min(1, columns - 1), columns, size=(batch, 1, 1))
    mask = np.arange(columns) >= hidden
    # Some hidden logits are larger than all visible ones by hundreds: a mask of -50 does not hide them.
    value = found["value"] * np.where(mask, 1, 60).swapaxes(1, 2)
    found["weights"]["query_bias"][0, -1] = 0  # single precision has few digits for logits of hundreds of thousands
    return {**found, "value": value, "key": None, "attention_mask": mask, "dtype": "float32"}


def draw_causal(rng):
    """Draw a causal mask, and a value that is longer than the query and equally wide."""
    batch, rows, columns, heads, size, width = sizes(rng, 6)
    rows, columns = sorted((rows, columns))
    return {
        "query": 0.5 * rng.normal(size=(batch, rows, width)),
        "value": 0.5 * rng.normal(size=(batch, columns, width)),
        "key": None,
        "attention_mask": None,
        "weights": lowered(weights(rng, heads, size, width, width)),
        "use_causal_mask": True,
    }


def draw_both(rng):
    """Draw a causal mask and a mask (1, T, S) for all items, and a value that is shorter than the query."""
    found = draw_causal(rng)
    rows, columns = (found[name].shape[1] for name in ("value", "query"))  # they change places below
    mask = rng.random((1, rows, columns)) < 0.6
    mask[..., 0] = True
    return {**found, "query": found["value"], "value": found["query"], "attention_mask": mask}


def called(answer, inputs):
    """Return the layer's result with the given weights."""
    import keras

    dtype = inputs.get("dtype", "float64")
    keras.config.set_dtype_policy(dtype)
    heads, _, size = inputs["weights"]["query_kernel"].shape
    layer = answer.OwnAttention(heads, size)
    names = [name for name in ("query", "value", "key") if inputs[name] is not None]
    layer.build(*(inputs[name].shape for name in names))
    worker_api.set_weights(layer, inputs["weights"])
    given = worker_api.tensors({name: inputs[name] for name in names}, dtype)
    masks = {name: inputs[name] for name in ("attention_mask", "use_causal_mask")}
    return {"output": layer(**given, **masks), "weights": len(layer.trainable_weights)}


def in_a_model(answer, inputs):
    """Return the output of a functional model of unknown sizes that contains the layer, and gets a mask."""
    import keras

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["weights"]["query_kernel"].shape
    query, value = (keras.Input((None, inputs[name].shape[-1])) for name in ("query", "value"))
    mask = keras.Input((None, None), dtype="bool")
    layer = answer.OwnAttention(heads, size, name="own", trainable=False)
    model = keras.Model([query, value, mask], layer(query, value, attention_mask=mask, use_causal_mask=True))
    kernels = [getattr(layer, f"{role}_kernel") for role in ("query", "key", "value", "output")]
    begins = [np.asarray(kernel) for kernel in kernels]
    alike = [
        np.array_equal(each, other)
        for number, each in enumerate(begins)
        for other in begins[:number]
        if each.shape == other.shape
    ]
    worker_api.set_weights(layer, inputs["weights"])
    masks = np.repeat(inputs["attention_mask"], len(inputs["query"]), axis=0)
    output = model([inputs["query"], inputs["value"], masks])
    return {
        "output": output,
        "trainable weights": len(model.trainable_weights),
        "kernels of one number": [float(each.flat[0]) for each in begins if np.ptp(each) == 0],
        "kernels that begin alike": sum(alike),
    }


EXERCISE = Exercise(
    title="Your own layer, whole",
    question="What does a layer need so that it can stand in for the built-in one? (seed 000: the code on GitHub)",
    difficulty=3,
    minutes=35,
    uses=("numpy", "keras", "tensorflow"),
    forbids=(
        "MultiHeadAttention",
        "GroupQueryAttention",
        "Attention",
        "AdditiveAttention",
        "dot_product_attention",
    ),
    seconds=20.0,
    checks=(
        *standard(draw, signature=1, shape=1, values=3, ask=called, times=1),
        Check("values", "no mask, and no key", 1, draw_plain, called, times=1, tolerance=EXACT),
        Check("edge", "a padding mask (B, 1, S), and no key", 2, draw_padding, called, times=1, tolerance=1e-4),
        Check("edge", "a causal mask, with more keys than queries", 2, draw_causal, called, times=1),
        Check("edge", "a causal mask and a mask for all items, with fewer keys", 2, draw_both, called, times=1),
        Check(
            "unknown batch",
            "it works in a functional model of unknown sizes, with kernels that can learn",
            2,
            draw_both,
            in_a_model,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "inputs-key-value-swapped",
            "You exchanged key and value. The call's order is query, value, key.",
            {KEY: "key, value = value, value if key is None else key\n        query"},
            "the order of keras-team/keras#19257",
        ),
        Wrong(
            "inputs-key-is-value",
            "You never use the key: you project the value instead.",
            {KEY: "key = value\n        query"},
        ),
        Wrong(
            "kernels-query-for-key",
            "You project the key with the query's weights, wherever their widths allow it. The key has its own.",
            {
                KEYS: "own = key.shape[-1] != self.query_kernel.shape[1]\n"
                '        key = ops.einsum("BSI,HIO->BSHO", key, self.key_kernel if own else self.query_kernel) + '
                "(self.key_bias if own else self.query_bias)"
            },
            "stevezheng23/sequence_labeling_tf#81",
        ),
        Wrong(
            "biases-missing",
            "You never add the biases of query, key and value.",
            {
                QUERY: QUERY.replace(" + self.query_bias", ""),
                KEYS: KEYS.replace(" + self.key_bias", ""),
                VALUES: VALUES.replace(" + self.value_bias", ""),
            },
        ),
        Wrong(
            "bias-missing-output",
            "You never add the output's bias.",
            {OUTPUT: OUTPUT.replace(" + self.output_bias", "")},
        ),
        Wrong(
            "softmax-scale-missing",
            "You did not scale the logits. Divide them by √O.",
            {LOGITS: LOGITS.replace(" / self.key_dim**0.5", "")},
        ),
        Wrong(
            "softmax-scale-of-model",
            "You divided by the root of all heads' features. A head has O features: divide by √O.",
            {LOGITS: LOGITS.replace("self.key_dim**0.5", "(self.num_heads * self.key_dim) ** 0.5")},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "softmax-scale-not-root",
            "You divided the logits by O instead of its root.",
            {LOGITS: LOGITS.replace("**0.5", "")},
        ),
        Wrong(
            "mask-argument-ignored",
            "Your `attention_mask` has no effect.",
            {MASKED: ""},
            "hao-ai-lab/FastVideo#1383, lucidrains/flamingo-pytorch#10",
        ),
        Wrong(
            "mask-inverted",
            "Your mask hides what it should show. True means: may attend.",
            {MASKED: "            logits = ops.where(mask, -1e30, logits)\n"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-multiplied",
            "A hidden position has the logit 0, as if you multiplied the logits by the mask. That is still a weight after the "
            "softmax.",
            {MASKED: "            logits = logits * ops.cast(mask, logits.dtype)\n"},
        ),
        Wrong(
            "mask-too-weak",
            "Your mask subtracts too little: a hidden logit can be larger than the others by more than that.",
            {
                MASKED: "            logits = logits - 50 * (1 - ops.cast(mask, logits.dtype))\n",
                HIDDEN: "            logits = logits - 50 * (1 - ops.cast(causal, logits.dtype))\n",
            },
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough. Visible logits can be below it, and then the hidden "
            "key takes their share.",
            {MASKED: MASKED.replace("-1e30", "-100.0"), HIDDEN: HIDDEN.replace("-1e30", "-100.0")},
        ),
        Wrong(
            "fill-too-small-for-mask",
            "Where `attention_mask` hides a key, your number for its logit is not negative enough. Visible logits can be "
            "below it, and then the hidden key takes their share.",
            {MASKED: MASKED.replace("-1e30", "-100.0")},
        ),
        Wrong(
            "fill-too-small-for-causal",
            "Where `use_causal_mask` hides a key, your number for its logit is not negative enough. Visible logits can be "
            "below it, and then the hidden key takes their share.",
            {HIDDEN: HIDDEN.replace("-1e30", "-100.0")},
        ),
        Wrong(
            "causal-replaces-mask",
            "With `use_causal_mask`, your `attention_mask` has no effect. Both masks must apply.",
            {"if attention_mask is not None:": "if attention_mask is not None and not use_causal_mask:"},
        ),
        Wrong(
            "mask-replaces-causal",
            "With an `attention_mask`, your `use_causal_mask` has no effect. Both masks must apply.",
            {"if use_causal_mask:": "if use_causal_mask and attention_mask is None:"},
        ),
        Wrong(
            "output-bias-for-each-head",
            "You add the output's bias once for each head. It is one bias, added once, after the sum over the heads.",
            {OUTPUT: OUTPUT.replace("+ self", "+ self.num_heads * self")},
        ),
        Wrong(
            "kernels-begin-at-zero",
            "Your kernels begin with zeros. Then their gradients are zero too, and training does not change them.",
            {
                'size), name=f"{role}_kernel"': 'size), initializer="zeros", name=f"{role}_kernel"',
                'width), name="output_kernel"': 'width), initializer="zeros", name="output_kernel"',
            },
        ),
        Wrong(
            "kernels-begin-at-one-number",
            "The numbers of a kernel begin all equal. Then all heads stay alike in training. Begin with random numbers.",
            {
                'size), name=f"{role}_kernel"': 'size), initializer="ones", name=f"{role}_kernel"',
                'width), name="output_kernel"': 'width), initializer="ones", name="output_kernel"',
            },
        ),
        Wrong(
            "kernels-begin-alike",
            "Query, key and value begin with the same kernel: the seed is the same. Let each begin with its own numbers.",
            {
                'size), name=f"{role}_kernel"': "size), initializer=keras.initializers.GlorotUniform(seed=1), "
                'name=f"{role}_kernel"'
            },
        ),
        Wrong(
            "arguments-of-layer-lost",
            "You do not pass all arguments on to `keras.layers.Layer`: `trainable` and `dtype` have no effect.",
            {"super().__init__(**kwargs)": 'super().__init__(name=kwargs.get("name"))'},
        ),
        Wrong(
            "causal-missing",
            "Your `use_causal_mask` has no effect.",
            {HIDDEN: "            logits = ops.where(causal, logits, logits)\n"},
            "LiamMaclean216/Pytorch-Transfomer#1",
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
            "causal-wrong-corner",
            "You line the causal mask up at the last query and the last key. Both are counted from the first, so that the "
            "first query sees only the first key, however many there are.",
            {CAUSAL: "rows, columns = rows - ops.shape(query)[1], columns - ops.shape(key)[1]\n            " + CAUSAL},
            "pytorch/pytorch#103082, Dao-AILab/flash-attention#517",
        ),
        Wrong(
            "softmax-over-queries",
            "Your softmax goes over the queries. Every query has weights that sum to one, over the keys.",
            {SCORES: SCORES.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "merge-averaged",
            "You averaged the heads before the output kernel. Each head has its own part of that kernel.",
            {OUTPUT: OUTPUT.replace("mixed, self", "ops.mean(mixed, axis=2, keepdims=True) + 0 * mixed, self")},
        ),
        Wrong(
            "masks-either",
            "You show what one of the two masks allows. A position is visible only if both masks allow it.",
            {
                HIDDEN: "            if attention_mask is not None:\n"
                "                causal = ops.logical_or(mask, causal)\n"
                '                logits = ops.einsum("BTHO,BSHO->BHTS", query / self.key_dim**0.5, key)\n' + HIDDEN
            },
            "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        ),
        Wrong(
            "mask-through-numpy",
            "You turn the mask into a NumPy array. While a model is made, the mask holds no numbers yet.",
            {
                'mask = ops.expand_dims(ops.cast(attention_mask, "bool"), 1)  # (B, 1, T, S)': "import numpy as np\n\n"
                "            mask = ops.expand_dims(np.asarray(attention_mask, bool), 1)"
            },
        ),
        Wrong(
            "mask-always-needed",
            "You use `attention_mask` where there is none. The layer can be called without any mask.",
            {"if attention_mask is not None:": "if attention_mask is not None or not use_causal_mask:"},
        ),
        Wrong(
            "mask-times-infinity",
            "You multiply by a number that float32 cannot hold: it is -∞ there, and 0 · -∞ is NaN wherever nothing is "
            "hidden. Choose between the numbers instead.",
            {MASKED: "            logits = logits + ops.cast(ops.logical_not(mask), logits.dtype) * -1e300\n"},
        ),
        Wrong(
            "value-from-key",
            "You project the key to get the value. The value is an input of its own.",
            {QUERY: "given = key\n        " + QUERY, VALUES: VALUES.replace("value, self", "given, self")},
        ),
        Wrong(
            "kernels-key-for-value",
            "You project the value with the key's kernel. It has its own.",
            {VALUES: VALUES.replace("self.value_kernel", "self.key_kernel")},
        ),
        Wrong(
            "kernels-key-value-swapped",
            "You exchanged the kernels of key and value.",
            {KEYS: KEYS.replace("key_kernel", "value_kernel"), VALUES: VALUES.replace("value_kernel", "key_kernel")},
        ),
        Wrong(
            "biases-query-key-swapped",
            "You exchanged the biases of query and key.",
            {QUERY: QUERY.replace("query_bias", "key_bias"), KEYS: KEYS.replace("key_bias", "query_bias")},
        ),
        Wrong(
            "bias-missing-value",
            "You never add the value's bias.",
            {VALUES: VALUES.replace(" + self.value_bias", "")},
        ),
        Wrong(
            "bias-missing-query",
            "You never add the query's bias.",
            {QUERY: QUERY.replace(" + self.query_bias", "")},
        ),
        Wrong(
            "softmax-scale-times",
            "You multiply the logits by √O. Divide them by it.",
            {LOGITS: LOGITS.replace("query / ", "query * ")},
        ),
        Wrong(
            "softmax-scale-heads",
            "You divided by the root of the number of heads. Divide by the root of the head size, √O.",
            {LOGITS: LOGITS.replace("self.key_dim", "self.num_heads")},
        ),
        Wrong(
            "softmax-scale-width",
            "You divided by the root of the query's width. A head has O features: divide by √O.",
            {LOGITS: LOGITS.replace("self.key_dim", "self.query_kernel.shape[1]")},
        ),
        Wrong(
            "softmax-scale-fourth-root",
            "You divided the logits by the fourth root of O. That is right only if both query and key are divided by it.",
            {LOGITS: LOGITS.replace("0.5", "0.25")},
        ),
        Wrong(
            "softmax-missing",
            "You left out the softmax: the logits themselves mix the values.",
            {SCORES: "scores = logits"},
        ),
        Wrong(
            "softmax-over-heads",
            "Your softmax goes over the heads. Every head has scores of its own, which sum to one over the keys.",
            {SCORES: SCORES.replace("axis=-1", "axis=1")},
        ),
        Wrong(
            "softmax-over-batch",
            "Your softmax goes over the batch, so sentences compete with each other. It goes over the keys.",
            {SCORES: SCORES.replace("axis=-1", "axis=0")},
        ),
        Wrong(
            "sigmoid-for-softmax",
            "You use a sigmoid instead of a softmax, so a query's scores do not sum to one.",
            {SCORES: "scores = ops.sigmoid(logits)"},
        ),
        Wrong(
            "mask-after-softmax",
            "You apply the masks after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {
                MASKED: "            allowed = mask\n",
                HIDDEN: "            seen = causal\n",
                SCORES: SCORES
                + "\n        if attention_mask is not None:\n            scores = ops.where(allowed, scores, 0.0)\n        if use_causal_mask:\n            scores = ops.where(seen, scores, 0.0)",
            },
        ),
        Wrong(
            "causal-after-softmax",
            "You apply the causal mask after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {
                HIDDEN: "            seen = causal\n",
                SCORES: SCORES + "\n        if use_causal_mask:\n            scores = ops.where(seen, scores, 0.0)",
            },
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
            "causal-only-with-mask",
            "Without an `attention_mask`, your `use_causal_mask` has no effect.",
            {"if use_causal_mask:": "if use_causal_mask and attention_mask is not None:"},
        ),
        Wrong(
            "merge-missing",
            "You return the mixed values without the output kernel, or fewer numbers than the query is wide. The kernel (H, O, E) makes the output.",
            {OUTPUT: "ops.reshape(mixed, (-1, ops.shape(query)[1], self.num_heads * self.key_dim))"},
        ),
        Wrong(
            "merge-kernel-size-first",
            "You exchange heads and features before the output kernel: a reshape moves no axis.",
            {
                OUTPUT: OUTPUT.replace(
                    "mixed, self", "ops.reshape(ops.transpose(mixed, (0, 1, 3, 2)), ops.shape(mixed)), self"
                )
            },
        ),
        Wrong(
            "mixed-reshaped",
            "You bring the heads to their place with a reshape. A reshape keeps the order of the numbers; a transpose moves axes.",
            {
                OUTPUT: OUTPUT.replace(
                    "mixed, self", "ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), ops.shape(mixed)), self"
                )
            },
        ),
        Wrong(
            "output-plus-query",
            "You add the query to the output. The residual connection is not part of this layer.",
            {QUERY: "given = query\n        " + QUERY, OUTPUT: OUTPUT + " + given"},
        ),
        Wrong(
            "mask-fills-large",
            "Only what the masks hide is attended to: it gets a large positive logit. It needs a very negative one.",
            {MASKED: MASKED.replace("-1e30", "1e30"), HIDDEN: HIDDEN.replace("-1e30", "1e30")},
        ),
        Wrong(
            "mask-fills-large-for-mask",
            "Only what `attention_mask` hides is attended to: it gets a large positive logit. It needs a very negative one.",
            {MASKED: MASKED.replace("-1e30", "1e30")},
        ),
        Wrong(
            "attention-mask-after-softmax",
            "You apply `attention_mask` after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {
                MASKED: "            allowed = mask\n",
                SCORES: SCORES
                + "\n        if attention_mask is not None:\n            scores = ops.where(allowed, scores, 0.0)",
            },
        ),
        Wrong(
            "scores-uniform",
            "Your scores are the same for all keys, so each query gets the mean of the values. They come from query and key.",
            {SCORES: "scores = ops.ones_like(logits) / ops.cast(ops.shape(logits)[-1], logits.dtype)"},
        ),
        Wrong(
            "softmax-sum-larger",
            "You add a small number to the sum of the exponentials, so scores do not quite sum to 1. If you subtract the largest logit first, the sum is never below 1.",
            {
                SCORES: "powers = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))\n        scores = powers / (ops.sum(powers, axis=-1, keepdims=True) + 1e-6)"
            },
        ),
    ),
)
