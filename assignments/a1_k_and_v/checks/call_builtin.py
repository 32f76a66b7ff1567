"""Checks of `call_builtin`, with a layer that has the built-in's arguments and computes in NumPy."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

CALL = "layer(query, value, key=key, attention_mask=mask, return_attention_scores=True)"


def draw_inputs(rng, *, one_source):
    batch, rows, columns, features = sizes(rng, 4)
    query, key, value = (rng.normal(size=(batch, positions, features)) for positions in (rows, columns, columns))
    mask = rng.random((batch, rows, columns)) < 0.6
    mask[..., 0] |= ~mask.any(axis=-1)
    return {"query": query, "key": key, "value": key.copy() if one_source else value, "mask": mask}


def draw(rng):
    return draw_inputs(rng, one_source=False)


def draw_one_source(rng):
    return draw_inputs(rng, one_source=True)


def draw_equal(rng):
    """Draw inputs with T = S, so that no shape reveals that query and key were exchanged."""
    (size,) = sizes(rng, 1, least=4)
    arrays = {name: rng.normal(size=(2, size, size + 1)) for name in ("query", "key", "value")}
    return {**arrays, "mask": np.tril(np.ones((2, size, size), bool))}


def ask(answer, inputs):
    def layer(
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        key = value if key is None else key
        # Nobody outside knows the factor, so that only a call of the layer gives its numbers.
        logits = np.einsum("BTI,BSI->BTS", query, key) / np.sqrt(np.abs(query).sum())
        if query_mask is not None and np.ndim(query_mask) != 2:
            raise ValueError(f"query_mask must be (B, T). Received shape: {np.shape(query_mask)}.")
        for padding, axis in ((query_mask, 2), (value_mask, 1), (key_mask, 1)):
            if padding is not None:
                logits = np.where(np.expand_dims(padding, axis), logits, -1e9)
        if attention_mask is not None:
            logits = np.where(attention_mask, logits, -1e9)
        if use_causal_mask:
            logits = np.where(np.tril(np.ones(logits.shape, bool)), logits, -1e9)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        scores = powers / powers.sum(axis=-1, keepdims=True)
        output = scores @ value
        return (output, scores[:, None]) if return_attention_scores else output

    return answer.call_builtin(layer, **inputs)


EXERCISE = Exercise(
    title="In what order does the built-in layer take its arguments?",
    question="Which argument of `mha(x, enc_output, enc_output)` is the key? (seed 000; keras-team/keras#19257)",
    difficulty=1,
    minutes=10,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("shape", "it returns the output and the scores", 1, draw, ask),
        Check("values", "each array plays its role", 5, draw, ask),
        Check("values", "T = S, with a mask that hides later positions", 2, draw_equal, ask),
        Check(
            "edge", "key and value are the same array, as in the decoder's second attention", 1, draw_one_source, ask
        ),
    ),
    wrong=(
        Wrong(
            "inputs-key-value-swapped",
            "You exchanged key and value. By position, the second argument is the value and the third is the key.",
            {CALL: CALL.replace("query, value, key=key", "query, key, value")},
            "keras-team/keras#19257",
        ),
        Wrong(
            "inputs-value-is-key",
            "You never passed the value. You passed the key as the second argument, where the layer expects the value, and passed nothing as the key.",
            {CALL: CALL.replace("query, value, key=key", "query, key")},
        ),
        Wrong(
            "inputs-key-is-value",
            "You never passed the key. Without a key, the layer compares the queries with the value.",
            {CALL: CALL.replace("query, value, key=key", "query, value")},
        ),
        Wrong(
            "order-of-a-tutorial",
            "You passed the arguments in the order v, k, q, as a tutorial's own layer takes them. The built-in layer "
            "takes the first argument as the query.",
            {CALL: CALL.replace("query, value, key=key", "value, key, query")},
            "the layer of TensorFlow's first Transformer tutorial",
        ),
        Wrong(
            "mask-as-fourth",
            "You passed the mask by position. In Keras 3 the fourth argument is the padding mask of the query, not "
            "the attention mask.",
            {CALL: CALL.replace("value, key=key, attention_mask=mask", "value, key, mask")},
            "the order of Keras 2",
        ),
        Wrong(
            "mask-inverted",
            "You inverted the mask. For the built-in layer, True means attend; in one tutorial, a 1 in the mask meant *hide*.",
            {CALL: CALL.replace("=mask", "=~mask")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-argument-ignored",
            "You did not pass the mask on.",
            {CALL: CALL.replace("attention_mask=mask, ", "")},
        ),
        Wrong(
            "scores-not-asked-for",
            "You did not ask the layer for its scores, so it returns only the output.",
            {CALL: CALL.replace(", return_attention_scores=True", "")},
        ),
        Wrong(
            "causal-always",
            "You added a look-ahead mask to the mask that was given. In the decoder's second attention every target "
            "position may look at the whole source.",
            {CALL: CALL.replace("=mask", "=mask, use_causal_mask=True")},
            "zhouhaoyi/Informer2020#38",
        ),
        Wrong(
            "value-mask-too",
            "You also passed a padding mask of your own making. The mask that is given already says all that may be "
            "attended to.",
            {CALL: CALL.replace("=mask", "=mask, value_mask=mask[:, 0]")},
        ),
        Wrong(
            "layer-not-called",
            "You computed attention yourself. Call the layer that is given: it need not compute what you expect.",
            {
                "return " + CALL: "import numpy as np\n\n"
                "    logits = np.where(mask, query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1]), -1e9)\n"
                "    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))\n"
                "    scores = powers / powers.sum(axis=-1, keepdims=True)\n"
                "    return scores @ value, scores[:, None]"
            },
        ),
    ),
)
