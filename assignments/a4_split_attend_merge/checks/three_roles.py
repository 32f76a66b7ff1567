"""Checks of `three_roles`, and what is lost with each role."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PROJECTED = "query, key, value = inputs @ query_kernel, inputs @ key_kernel, inputs @ value_kernel"
LOGITS = "logits = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])"
POWERS = "powers = np.exp(logits - logits.max(axis=-1, keepdims=True))"
SUM = "return powers / powers.sum(axis=-1, keepdims=True)"
SCORES = "scores, shared = attend(query, key), attend(query, query)"
THREE = '"three": scores @ value'
SHARED = '"query_is_key": shared @ value'
KEYS = '"key_is_value": scores @ key'


def draw(rng):
    batch, positions, features, size = sizes(rng, 4, least=3)
    kernels = {f"{role}_kernel": rng.normal(size=(features, size)) for role in ("query", "key", "value")}
    return {"inputs": 0.7 * rng.normal(size=(batch, positions, features)), **kernels}


def draw_next(rng):
    """Draw words of which each looks for the next one, as in the worked example, with values in another space."""
    (count,) = sizes(rng, 1, least=4, most=7)
    order = rng.permutation(count)
    return {
        "inputs": np.eye(count)[None, order],
        "query_kernel": 60 * np.eye(count)[(np.arange(count) + 1) % count],
        "key_kernel": np.eye(count),
        "value_kernel": np.round(rng.normal(scale=5, size=(count, count)), 1),
    }


def judge_symmetric(inputs, result, expected):
    """Check that the logits behind the scores with one kernel are symmetric: their logarithms are, but for a row's constant."""
    scores = np.asarray(result["query_is_key_scores"])
    if scores.shape != expected["query_is_key_scores"].shape or not np.all(scores > 0):
        return f"the scores have the shape {scores.shape}, or are not all positive."
    logs = np.log(scores)
    differences = logs - np.swapaxes(logs, 1, 2)  # of the constants of rows t and s, if the logits are symmetric
    constants = differences.mean(axis=-1)
    if not np.allclose(differences, constants[..., None] - constants[:, None], atol=1e-6 * np.abs(logs).max()):
        return "with one kernel for query and key, the logit of t for s is not the logit of s for t."
    return None


def judge_next(inputs, result, expected):
    """Check who looks where, and what comes out."""
    scores, shared, handed = (np.asarray(result[name]) for name in ("scores", "query_is_key_scores", "three"))
    words = np.argmax(inputs["inputs"][0], axis=-1)
    following = np.array([int(np.flatnonzero(words == (word + 1) % len(words))[0]) for word in words])
    if np.any(np.argmax(scores[0], axis=-1) != following):
        return "with three roles, a word does not look at the next one."
    if np.any(np.argmax(shared[0], axis=-1) != np.arange(len(words))):
        return "with one kernel for query and key, a word does not look at itself."
    if not np.allclose(handed[0], (inputs["inputs"] @ inputs["value_kernel"])[0, following], atol=1e-3):
        return "with three roles, a word does not get the value of the next one."
    return None


EXERCISE = Exercise(
    title="Why query, key and value?",
    question="Why does attention have three roles, and what is lost with two? (seed 003, its closing question)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "one kernel for query and key makes symmetric logits", 1, draw, judge=judge_symmetric),
        Check("invariants", "to look at the next word takes two kernels", 2, draw_next, judge=judge_next, times=2),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "key-kernel-for-the-query",
            "You dropped the query kernel, and projected the query with the key kernel. The query kernel is the one that "
            "serves both.",
            {SCORES: SCORES.replace("attend(query, query)", "attend(key, key)")},
        ),
        Wrong(
            "inputs-without-kernels",
            "You compared the words themselves. They are projected by the query kernel, both of them.",
            {SCORES: SCORES.replace("attend(query, query)", "attend(inputs, inputs)")},
        ),
        Wrong(
            "scores-made-symmetric",
            "You averaged the scores with their transpose. One kernel makes the *logits* symmetric; every row of scores is "
            "then divided by its own sum.",
            {
                SCORES: SCORES.replace(
                    "attend(query, query)", "(attend(query, query) + attend(query, query).swapaxes(1, 2)) / 2"
                )
            },
        ),
        Wrong(
            "query-as-value",
            "With one kernel for query and key, you mixed the queries. That role is not touched: mix the values.",
            {SHARED: '"query_is_key": shared @ query'},
        ),
        Wrong(
            "two-roles-away",
            "You took both roles away at once: the key is the value, and the query is the key. Here the scores are those "
            "of all three kernels.",
            {KEYS: '"key_is_value": shared @ query'},
        ),
        Wrong(
            "key-kernel-dropped",
            "You compared the queries with the values. Of key and value, it is the key kernel that serves both.",
            {KEYS: '"key_is_value": attend(query, value) @ value'},
        ),
        Wrong(
            "value-kernel-finds",
            "You compared the queries with the values, and mixed the keys. Of key and value, it is the key kernel that "
            "serves both: compare with the keys, and mix the keys.",
            {KEYS: '"key_is_value": attend(query, value) @ key'},
        ),
        Wrong(
            "values-not-projected",
            "You mixed the inputs of the layer. The value kernel projects them first.",
            {PROJECTED: "query, key, value = inputs @ query_kernel, inputs @ key_kernel, inputs"},
        ),
        Wrong(
            "key-is-input",
            "You mixed the inputs where the key is the value. The key is projected by the key kernel.",
            {KEYS: '"key_is_value": scores @ inputs'},
        ),
        Wrong(
            "kernels-exchanged",
            "You exchanged the kernels of query and key.",
            {PROJECTED: "query, key, value = inputs @ key_kernel, inputs @ query_kernel, inputs @ value_kernel"},
        ),
        Wrong(
            "value-as-key",
            "You took the third array for the key and the second for the value. In Keras' call the value comes second; "
            "here the key does.",
            {PROJECTED: "query, key, value = inputs @ query_kernel, inputs @ value_kernel, inputs @ key_kernel"},
            "keras-team/keras#19257",
        ),
        Wrong(
            "softmax-over-queries",
            "Your softmax goes over the queries. Every query has weights that sum to one, over the keys.",
            {POWERS: POWERS.replace("axis=-1", "axis=1"), SUM: SUM.replace("axis=-1", "axis=1")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-scale-missing",
            "You did not scale the logits. Divide them by √O.",
            {LOGITS: LOGITS.replace(" / np.sqrt(query.shape[-1])", "")},
        ),
        Wrong(
            "itself-hidden",
            "You kept words from looking at themselves. That mends the symptom; here nothing is hidden.",
            {LOGITS: LOGITS + "\n        logits = np.where(np.eye(logits.shape[-1], dtype=bool), -1e30, logits)"},
        ),
        Wrong(
            "softmax-scale-of-model",
            "You scaled the logits by the width of the inputs. Divide them by √O, the root of the head size.",
            {LOGITS: LOGITS.replace("query.shape[-1]", "inputs.shape[-1]")},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "key-is-value-with-shared-scores",
            "Where the key is the value, you used the scores of the shared query kernel. There, all three kernels make the "
            "scores.",
            {KEYS: KEYS.replace("scores", "shared")},
        ),
        Wrong(
            "query-is-key-with-first-scores",
            "Where the query kernel is the key kernel, you mixed with the scores of all three kernels. Use the scores "
            "that the shared kernel makes.",
            {SHARED: SHARED.replace("shared", "scores")},
        ),
        Wrong(
            "keys-as-rows",
            "You made the keys the rows of the scores. Each query is a row, which sums to one over the keys.",
            {LOGITS: LOGITS.replace("query @ np.swapaxes(key, 1, 2)", "key @ np.swapaxes(query, 1, 2)")},
        ),
        Wrong(
            "scale-without-root",
            "You divided the logits by O instead of √O.",
            {LOGITS: LOGITS.replace("np.sqrt(query.shape[-1])", "query.shape[-1]")},
            "delzac/cntkx#10",
        ),
    ),
)
