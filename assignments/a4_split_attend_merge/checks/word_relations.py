"""Checks of `word_relations`, with relations that share features."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ASKS = "query_kernel[pairs[:, 0], relations] = strengths"
ANSWERS = "key_kernel[pairs[:, 1], relations] = 1"
LOGITS = '"logits": (words @ query_kernel) @ (words @ key_kernel).T'
LIKENESS = '"likeness": words @ words.T'


def draw(rng):
    """Draw relations of which the first two share the feature that asks. The first pair occurs twice."""
    count, features, relations = sizes(rng, 3, least=3)
    asks = rng.integers(features, size=relations)
    answers = (asks + rng.permutation(np.arange(relations) % features)) % features
    asks[:2] = asks[0]
    if relations > 1:
        answers[1] = (answers[0] + 1) % features
    if relations > 2:
        asks[2], answers[2] = asks[0], answers[0]
    return {
        "words": np.round(rng.normal(size=(count, features)), 2),
        "pairs": np.stack([asks, answers], axis=1),
        "strengths": np.round(rng.uniform(1.5, 4, size=relations), 1),
    }


def draw_sentence(rng):
    """Draw the sentence of the worked example, in integers, with its words in another order and another strength."""
    words = np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]])[rng.permutation(3)]
    return {"words": words, "pairs": np.array([[1, 0], [2, 2], [3, 3]]), "strengths": np.array([2.5, 1.0, 1.0])}


def judge_subject(inputs, result, expected):
    """Check that the verb finds its subject, and that by likeness it finds itself."""
    words = inputs["words"]
    verb, subject = (int(np.argmax(words @ np.array(kind))) for kind in ([0, 9, 0, 0], [9, 0, 0, 1]))
    logits, likeness = np.asarray(result["logits"]), np.asarray(result["likeness"])
    if logits.shape != (3, 3) or likeness.shape != (3, 3):
        return f"the logits have the shape {logits.shape} and the likeness {likeness.shape}, expected (3, 3) for both."
    if np.argmax(logits[verb]) != subject:
        return "in the worked example, the verb's largest logit is not that of its subject."
    if not np.allclose(logits, expected["logits"]):
        return "with a strength of 2.5 instead of 2, the logits of the worked example are wrong."
    if np.argmax(likeness[verb]) != verb:
        return "in the worked example, the verb is not most like itself."
    return None


EXERCISE = Exercise(
    title="What a dot product can say about two words",
    question="What does it mean that attention captures the relationship between words? (seed 003, its closing question)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check(
            "invariants",
            "a verb finds its subject, and by likeness alone itself",
            2,
            draw_sentence,
            judge=judge_subject,
        ),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "roles-exchanged",
            "You exchanged the two sides: the feature that asks belongs to the query kernel, the one that answers to the "
            "key kernel.",
            {
                ASKS: "query_kernel[pairs[:, 1], relations] = strengths",
                ANSWERS: "key_kernel[pairs[:, 0], relations] = 1",
            },
        ),
        Wrong(
            "one-kernel",
            "You used the query kernel for the keys too. Then a word answers only what it asks itself, and a relation has "
            "no direction.",
            {ANSWERS: "key_kernel = query_kernel"},
        ),
        Wrong(
            "strength-on-both-sides",
            "You put the strength into both kernels, so it counts twice. The product multiplies them.",
            {ANSWERS: "key_kernel[pairs[:, 1], relations] = strengths"},
        ),
        Wrong(
            "strength-on-the-key",
            "You put the strength into the key kernel. The logits are the same, but here it belongs to the query's side.",
            {
                ASKS: "query_kernel[pairs[:, 0], relations] = 1",
                ANSWERS: "key_kernel[pairs[:, 1], relations] = strengths",
            },
        ),
        Wrong(
            "both-features-in-both",
            "You set both features of a relation in both kernels. Then those who answer also ask.",
            {
                ASKS: ASKS + "\n    query_kernel[pairs[:, 1], relations] = strengths",
                ANSWERS: ANSWERS + "\n    key_kernel[pairs[:, 0], relations] = 1",
            },
        ),
        Wrong(
            "relations-share-a-column",
            "You put all relations into one column. Then every question is answered by every answer. Each relation needs "
            "a column of its own.",
            {
                ASKS: "query_kernel[pairs[:, 0], 0] = strengths",
                ANSWERS: "key_kernel[pairs[:, 1], 0] = 1",
            },
        ),
        Wrong(
            "logits-of-the-words",
            "You took the likeness of the words for the logits. It knows no relation, and every word is most like itself.",
            {LOGITS: '"logits": words @ words.T'},
            "seed 003",
        ),
        Wrong(
            "pair-twice-added-once",
            "You added the strengths to one matrix with `+=` and indices, which counts a pair that occurs twice only once. "
            "The product of the two kernels counts both.",
            {
                "    return {": "    matrix = np.zeros((words.shape[1], words.shape[1]))\n"
                "    matrix[pairs[:, 0], pairs[:, 1]] += strengths\n    return {",
                LOGITS: '"logits": words @ matrix @ words.T',
            },
        ),
        Wrong(
            "likeness-of-the-queries",
            "You computed the likeness after the kernels. It is the dot product of the words themselves.",
            {LIKENESS: '"likeness": (words @ query_kernel) @ (words @ query_kernel).T'},
        ),
        Wrong(
            "keys-as-rows",
            "You made the words that answer the rows. A row belongs to the word that asks.",
            {LOGITS: '"logits": (words @ key_kernel) @ (words @ query_kernel).T'},
        ),
        Wrong(
            "scaled-here",
            "You divided the logits by √O. Return them before they are scaled.",
            {LOGITS: LOGITS + " / np.sqrt(len(pairs))"},
        ),
        Wrong(
            "likeness-normalized",
            "You divided the words by their lengths first. That is the cosine. Return the dot products.",
            {
                LIKENESS: '"likeness": words @ words.T / np.linalg.norm(words, axis=1) / np.linalg.norm(words, axis=1)[:, None]'
            },
        ),
        Wrong(
            "kernels-of-integers",
            "Your kernels have the dtype of the words. If these are integers, a strength of 2.5 becomes 2.",
            {"np.zeros((words.shape[1], len(pairs)))": "np.zeros((words.shape[1], len(pairs)), words.dtype)"},
        ),
        Wrong(
            "strength-forgotten",
            "You wrote 1 into both kernels. The strength of each relation belongs into the query kernel.",
            {ASKS: ASKS.replace("strengths", "1")},
        ),
        Wrong(
            "likeness-of-features",
            "You compared the features with each other, (I, I). The likeness compares the words, (T, T).",
            {LIKENESS: '"likeness": words.T @ words'},
        ),
    ),
)
