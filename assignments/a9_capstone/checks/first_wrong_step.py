"""Checks of `first_wrong_step`, on the second attention of the trained model (`trained.json`) and suspects of all kinds."""

import base64
import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

LOGITS = 'right["logits"] = np.einsum("BTHO,BSHO->BHTS", right["query"], right["key"]) / np.sqrt(size)'
MASKED = 'masked = np.where(mask[:, None], right["logits"], -np.inf)'
LOOP = "for name, array in right.items():"
SHAPE = "        if steps[name].shape != array.shape:\n            return name\n"
CLOSE = "if not np.all(np.abs(steps[name] - array) <= 1e-4 * np.abs(array).max()):"
FIRST = "            return name\n    return "

TRAINED = {
    name: np.frombuffer(base64.b64decode(each["float16"]), "float16").reshape(each["shape"]).astype("float64")
    for name, each in json.loads(Path(__file__).with_name("trained.json").read_text(encoding="utf-8")).items()
}
STEPS = ("query", "key", "value", "logits", "scores", "mixed", "output")


def trained_weights():
    """Return the weights of the trained model's second attention, with the heads first."""
    found = {}
    for role in ("query", "key", "value"):
        found[f"{role}_kernel"] = TRAINED[f"cross_attention/{role}/kernel"].swapaxes(0, 1)
        found[f"{role}_bias"] = TRAINED[f"cross_attention/{role}/bias"]
    for kind in ("kernel", "bias"):
        found[f"output_{kind}"] = TRAINED[f"cross_attention/attention_output/{kind}"]
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def attend(weights, query, value, mask, changed):
    """Return the steps of attention, some of which a function in `changed` changes before the next ones are computed."""
    done = {}

    def add(name, array):
        done[name] = changed[name](array, done) if name in changed else array

    for role, given in (("query", query), ("key", value), ("value", value)):
        add(role, np.einsum("BTI,HIO->BTHO", given, weights[f"{role}_kernel"]) + weights[f"{role}_bias"])
    add("logits", np.einsum("BTHO,BSHO->BHTS", done["query"], done["key"]) / np.sqrt(done["query"].shape[-1]))
    add("scores", softmax(np.where(mask[:, None], done["logits"], -np.inf)))
    heads, _ = np.broadcast_arrays(done["scores"], np.empty((1, done["value"].shape[2], 1, 1)))
    add("mixed", np.einsum("BHTS,BSHO->BTHO", heads, done["value"]))
    add("output", np.einsum("BTHO,HOE->BTE", done["mixed"], weights["output_kernel"]) + weights["output_bias"])
    return {name: array.astype("float32") for name, array in done.items()}


def softmax(logits, axis=-1):
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - np.max(logits, axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)


def changes(weights, query, value, mask, row):
    """Return suspects: the functions that change steps of each, keyed by step."""
    kernels, biases = (
        {role: weights[f"{role}_{kind}"] for role in ("query", "key", "value")} for kind in ("kernel", "bias")
    )
    heads, width, size = kernels["query"].shape
    reshaped = kernels["value"].swapaxes(0, 1).reshape(heads, width, size)

    def not_finite(scores, done):
        scores = scores.copy()
        scores[row, 0, 0, 0] = np.nan
        return scores

    def at_the_end(number):
        def changed(output, done):
            output = output.copy()
            output[row, -1, -1] = number
            return output

        return changed

    def last_row(mixed, done):
        mixed = mixed.copy()
        mixed[-1] *= 1.01
        return mixed

    def one_number(mixed, done):
        mixed = mixed.copy()
        mixed[row, 0, 0, 0] += 1.5e-4 * np.abs(mixed).max()
        return mixed

    def within_the_limit(mixed, done):
        mixed = mixed.copy()
        smallest = np.unravel_index(np.abs(mixed).max(axis=-1).argmin(), mixed.shape[:-1])
        mixed[(*smallest, 0)] += 6e-5 * np.abs(mixed).max()
        return mixed

    def projected(given, role):
        return lambda _, done: np.einsum("BTI,HIO->BTHO", given, kernels[role]) + biases[role]

    # NumPy broadcasts it against a single sentence.
    twice = (
        {"a sentence twice": {"output": lambda output, done: np.repeat(output, 2, axis=0)}} if len(query) == 1 else {}
    )
    return twice | {
        "the right layer": {},
        "the right layer, with rounding": {"query": lambda query, done: query * (1 + 2e-6)},
        "the right layer, just within the limit": {"output": lambda output, done: output * (1 + 8e-5)},
        "the right layer, one number within the limit": {"mixed": within_the_limit},
        "query and key exchanged": {"query": projected(query, "key"), "key": projected(value, "query")},
        "key and value exchanged": {"key": projected(value, "value"), "value": projected(value, "key")},
        "small errors that add up": {
            "query": lambda query, done: query * (1 + 8e-5),
            "key": lambda key, done: key * (1 + 8e-5),
        },
        "another sign": {"query": lambda query, done: -query},
        "an infinite number": {"output": at_the_end(np.inf)},
        "a bias forgotten": {"query": lambda query, done: query - biases["query"]},
        "another bias for the key": {"key": lambda key, done: key + biases["query"]},
        "a kernel of another role": {
            "key": lambda _, done: np.einsum("BTI,HIO->BTHO", value, kernels["query"]) + biases["key"]
        },
        "a kernel reshaped": {"value": lambda _, done: np.einsum("BTI,HIO->BTHO", value, reshaped) + biases["value"]},
        "another scale": {"logits": lambda logits, done: logits / np.sqrt(size)},
        "heads exchanged": {"logits": lambda logits, done: logits[:, ::-1]},
        "a mask that is not applied": {"scores": lambda _, done: softmax(done["logits"])},
        "one score for all heads": {"scores": lambda scores, done: scores.mean(axis=1, keepdims=True)},
        "a NaN": {"scores": not_finite},
        "a NaN at the end": {"output": at_the_end(np.nan)},
        "another softmax": {"scores": lambda _, done: softmax(done["logits"] * mask[:, None], axis=-2) * mask[:, None]},
        "the last sentence a little wrong": {"mixed": last_row},
        "one number a little wrong": {"mixed": one_number},
        "all numbers a little too small": {"value": lambda value, done: value - 3e-4 * np.abs(value).max()},
        "heads reversed in the merge": {
            "output": lambda _, done: (
                np.einsum("BTHO,HOE->BTE", done["mixed"][:, :, ::-1], weights["output_kernel"]) + weights["output_bias"]
            )
        },
        "an axis left over": {"output": lambda output, done: output[None]},
        "an output bias forgotten": {"output": lambda output, done: output - weights["output_bias"]},
    }


def trained_inputs(rng):
    """Draw words and what is written, as the trained model embeds them, with its weights."""
    batch, rows = sizes(rng, 2, least=2, most=6)
    source, target = rng.integers(2, 13, (batch, 7)), rng.integers(2, 13, (batch, rows))
    shown = np.arange(7) >= rng.integers(1, 5, (batch, 1))
    source = np.where(shown, source, 0)
    query = TRAINED["target_tokens/embeddings"][target] + TRAINED["target_positions/embeddings"][:rows]
    value = TRAINED["source_tokens/embeddings"][source] + TRAINED["source_positions/embeddings"]
    return {"weights": trained_weights(), "query": query, "value": value, "mask": shown[:, None]}


def other_inputs(rng):
    """Draw random inputs and weights, of other sizes than the trained model's."""
    batch, rows, columns, heads, size, width, outputs = sizes(rng, 7)
    weights = {}
    for role in ("query", "key", "value"):
        weights[f"{role}_kernel"] = 0.5 * rng.normal(size=(heads, width, size))
        weights[f"{role}_bias"] = rng.normal(size=(heads, size))
    weights["output_kernel"] = rng.normal(size=(heads, size, outputs))
    weights["output_bias"] = rng.normal(size=(outputs,))
    mask = np.arange(columns) >= rng.integers(0, columns, (batch, 1))
    query, value = (0.5 * rng.normal(size=(batch, length, width)) for length in (rows, columns))
    return {"weights": weights, "query": query, "value": value, "mask": mask[:, None]}


def one_sentence(rng):
    """Draw inputs of other sizes, with a batch of 1."""
    inputs = other_inputs(rng)
    return inputs | {name: inputs[name][:1] for name in ("query", "value", "mask")}


def draw_suspects(rng, wanted=None, large=0.0, draw_inputs=trained_inputs):
    """Draw suspects in any order. The steps of each are in any order too.

    Each suspect has a process of its own: an answer could take what most of them have for right. Some logits are about
    as large as `large`.
    """
    inputs = draw_inputs(rng)
    weights, query, *_ = inputs.values()
    # The same layer, with other units for its values: no difference is small or large by itself.
    unit = float(rng.choice([1e-3, 1.0, 1e3]))
    weights["output_bias"] = weights["output_bias"] - 100  # all outputs are negative
    for name in ("value_kernel", "value_bias", "output_bias"):
        weights[name] = weights[name] * unit
    if large:  # the same for all keys, so that the scores stay what they are
        first = np.einsum("I,HIO->HO", query[0, 0], weights["query_kernel"]) + weights["query_bias"]
        scale = np.sqrt(first.shape[-1]) / np.sum(first**2, axis=-1, keepdims=True)
        weights["key_bias"] = weights["key_bias"] + large * scale * first
    found = changes(*inputs.values(), row=int(rng.integers(len(query))))
    names = [name for name in found if wanted is None or name in wanted]
    done = [attend(*inputs.values(), found[name]) for name in rng.permutation(names)]
    return {**inputs, "steps": [{str(name): each[name] for name in rng.permutation(STEPS)} for each in done]}


def draw(rng):
    return draw_suspects(rng)


def draw_right(rng):
    """Draw right layers with large logits, and one that goes wrong after them."""
    names = (
        "the right layer",
        "the right layer, with rounding",
        "the right layer, just within the limit",
        "the right layer, one number within the limit",
        "one number a little wrong",
    )
    return draw_suspects(rng, names, large=2_000.0)


def draw_treacherous(rng):
    names = ("another bias for the key", "a NaN", "an axis left over", "a sentence twice", "heads exchanged")
    return draw_suspects(rng, names, draw_inputs=one_sentence)


# The call as it stands. With an `ask`, no smallest case is looked for: each case has many suspects.
def named(answer, inputs):
    return answer.first_wrong_step(**inputs)


def judge_names(inputs, result, expected):
    """Count the suspects that are judged wrongly, and say how the first of them is judged."""
    if not isinstance(result, list | tuple) or len(result) != len(expected):
        return "your result does not have the expected form."
    wrong = [
        (number, given) for number, (given, right) in enumerate(zip(result, expected, strict=True)) if given != right
    ]
    if not wrong:
        return None
    number, given = next((each for each in wrong if not isinstance(each[1], str)), wrong[0])
    if not isinstance(given, str):
        return f"for suspect {number}, you return {given!r:.60}, expected a name or ''."
    says = f"{given!r} is the first wrong step" if given else "no step is wrong"
    return f"{len(wrong)} of {len(expected)} suspects are judged wrongly. For suspect {number} you say that {says}."


EXERCISE = Exercise(
    title="Which step is the first to go wrong?",
    question="The numbers differ from the built-in's: how do you find the step with the mistake? (seed 003, every step "
    "in a picture; asked behind many of the threads of a8)",
    difficulty=3,
    minutes=35,
    seconds=30.0,
    checks=(
        *standard(draw, signature=1, unchanged=1, ask=named, apart="steps"),
        Check("values", "suspects with one mistake each", 6, draw, named, judge_names, times=2, apart="steps"),
        Check(
            "edge",
            "with logits of thousands: a right layer is not suspected, whatever its rounding, and a wrong one is",
            2,
            draw_right,
            named,
            judge_names,
            apart="steps",
        ),
        Check(
            "edge",
            "in a layer of other sizes: a NaN, two broadcasts, equal averages, and a right output",
            3,
            draw_treacherous,
            named,
            judge_names,
            apart="steps",
        ),
    ),
    wrong=(
        Wrong(
            "output-only",
            "You look at the output first, and stop if it is right. A wrong key can give a right output: the softmax takes "
            "away what is the same for all keys.",
            {
                LOOP: 'same = steps["output"].shape == right["output"].shape\n'
                '    if same and np.allclose(steps["output"], right["output"], atol=1e-3):\n'
                '        return ""\n    ' + LOOP
            },
        ),
        Wrong(
            "last-wrong-step",
            "You return the last wrong step. The mistake is in the first: what follows is wrong because of it.",
            {
                LOOP: 'found = ""\n    ' + LOOP,
                SHAPE: "        if steps[name].shape != array.shape:\n            found = name\n            continue\n",
                FIRST + '""': "            found = name\n    return found",
            },
        ),
        Wrong(
            "means-compared",
            "You compare averages. Exchanged heads, or a softmax over the wrong axis, keep the average. Compare elements.",
            {CLOSE: "if not abs(steps[name].mean() - array.mean()) <= 1e-4 * np.abs(array).max():"},
        ),
        Wrong(
            "shapes-only",
            "You compare shapes only. Almost all mistakes give the right shape.",
            {CLOSE: "if False:"},
        ),
        Wrong(
            "tolerance-absolute",
            "You allow the same difference in every array. What is small depends on the array: compare with its largest "
            "number.",
            {CLOSE: "if not np.all(np.abs(steps[name] - array) <= 1e-4):"},
        ),
        Wrong(
            "sign-of-difference",
            "You do not see numbers that are too small: take the absolute value of the difference.",
            {CLOSE: "if not np.all(steps[name] - array <= 1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "largest-without-sign",
            "You compare with the largest number, and all numbers of an array can be negative. Take absolute values there "
            "too.",
            {CLOSE: CLOSE.replace("np.abs(array).max()", "array.max()")},
        ),
        Wrong(
            "softmax-overflow",
            "Your own scores are wrong for large logits, so you suspect a right layer. Hide positions with -inf, and subtract "
            "each query's own largest logit first.",
            {"masked - masked.max(axis=-1, keepdims=True)": "masked"},
        ),
        Wrong(
            "tolerance-too-narrow",
            "You allow too little: differences up to 1/10,000 of the largest number are no mistakes here.",
            {CLOSE: CLOSE.replace("1e-4", "1e-5")},
        ),
        Wrong(
            "no-tolerance",
            "You allow no difference at all. Correct programs round differently too.",
            {CLOSE: "if not np.array_equal(steps[name], array):"},
        ),
        Wrong(
            "tolerance-too-wide",
            "You allow too much: a mistake that changes numbers by a hundredth passes.",
            {CLOSE: CLOSE.replace("1e-4 * np.abs(array).max()", "0.1 * np.abs(array).max()")},
        ),
        Wrong(
            "tolerance-ten-times",
            "You allow too much: differences beyond 1/10,000 of the largest number are mistakes.",
            {CLOSE: CLOSE.replace("1e-4", "1e-3")},
        ),
        Wrong(
            "tolerance-twice",
            "You allow too much: differences beyond 1/10,000 of the largest number are mistakes.",
            {CLOSE: CLOSE.replace("1e-4", "2e-4")},
        ),
        Wrong(
            "tolerance-of-suspect",
            "You compare with the largest number of the suspect's array, which the mistake can make large or infinite. "
            "Compare with the right one's.",
            {CLOSE: CLOSE.replace("np.abs(array)", "np.abs(steps[name])")},
        ),
        Wrong(
            "tolerance-of-average",
            "You compare with the average of the array. What is small is measured by its largest number.",
            {CLOSE: CLOSE.replace("np.abs(array).max()", "np.abs(array).mean()")},
        ),
        Wrong(
            "signs-lost",
            "You compare absolute values, so that another sign is no difference. Take the absolute value of the difference.",
            {CLOSE: "if not np.all(np.abs(np.abs(steps[name]) - np.abs(array)) <= 1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "steps-of-suspect",
            "You compute later steps from the suspect's own earlier ones, which may be a little wrong. Compute all seven from "
            "the weights.",
            {
                LOGITS: LOGITS.replace('right["query"], right["key"]', "*given").replace(
                    "right", 'given = [steps[role] for role in ("query", "key")]\n    right', 1
                )
            },
        ),
        Wrong(
            "projections-in-another-order",
            "You ask about the value before the key, or about the key before the query. If several are wrong, the first in "
            "the order of the text counts.",
            {
                '(("query", query), ("key", value), ("value", value))': '(("value", value), ("key", value), ("query", query))'
            },
        ),
        Wrong(
            "part-of-the-array",
            "You compare a part of each array only. The wrong element can be anywhere.",
            {CLOSE: "if not np.all(np.abs(steps[name][:, 0] - array[:, 0]) <= 1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "nan-passes",
            "You ask whether a difference is too large. With NaN the answer is always no, so NaN passes. Ask whether all "
            "are small enough.",
            {CLOSE: "if np.any(np.abs(steps[name] - array) > 1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "shape-broadcast",
            "You never compare the shapes. An axis of size 1 is broadcast, and nothing fails.",
            {SHAPE: "", CLOSE: "if not np.allclose(steps[name], array, rtol=0, atol=1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "axes-counted",
            "You compare the number of axes. An axis of another size can be broadcast, and nothing fails: compare the "
            "shapes.",
            {SHAPE: SHAPE.replace("shape", "ndim")},
        ),
        Wrong(
            "mask-argument-ignored",
            "You compute the scores without the mask, so you suspect a right layer.",
            {MASKED: 'masked = right["logits"]'},
        ),
        Wrong(
            "own-logits-wrong",
            "Your own logits are not those of the text, so you suspect every layer there. They are scaled, and not yet "
            "masked.",
            {LOGITS: LOGITS.replace(" / np.sqrt(size)", "")},
        ),
        Wrong(
            "first-sentence-only",
            "You look at the first sentence of the batch only.",
            {CLOSE: "if not np.all(np.abs(steps[name][0] - array[0]) <= 1e-4 * np.abs(array).max()):"},
        ),
        Wrong(
            "biases-forgotten",
            "You leave out the biases of query, key and value, so you suspect a right layer.",
            {' + weights[f"{role}_bias"]': ""},
        ),
        Wrong(
            "names-sorted",
            "You go through the steps in alphabetical order. Go through them in the order in which they are computed.",
            {LOOP: "for name, array in sorted(right.items()):"},
        ),
        Wrong(
            "true-or-false",
            "You say whether something is wrong. Return the name of the step.",
            {FIRST + '""': "            return True\n    return False"},
        ),
        Wrong(
            "allclose-as-it-is",
            "You use `np.allclose` with its own limits. They are relative to each element, and too narrow for float32: small "
            "elements of a right layer differ by more.",
            {CLOSE: "if not np.allclose(steps[name], array):"},
        ),
        Wrong(
            "allclose-with-atol",
            "You use `np.allclose` with an `atol` that is the same for every array. What is small depends on the array: "
            "compare with its largest number, and set `rtol=0`.",
            {CLOSE: "if not np.allclose(steps[name], array, atol=1e-4):"},
        ),
        Wrong(
            "none-at-the-end",
            "You return None where no step is wrong. Return an empty text, ''.",
            {FIRST + '""': "            return name\n    return None"},
        ),
        Wrong(
            "tolerance-of-each-element",
            "You compare each difference with its own element. Small elements of a right layer differ by more than their "
            "10,000th: compare with the largest number of the array.",
            {CLOSE: "if not np.allclose(steps[name], array, rtol=1e-4, atol=0):"},
        ),
        Wrong(
            "norms-compared",
            "You compare a norm or an average of the differences. A single wrong number hardly changes it. Compare elements.",
            {CLOSE: "if not np.linalg.norm(steps[name] - array) <= 1e-4 * np.linalg.norm(array):"},
        ),
        Wrong(
            "order-of-the-dict",
            "You go through the suspect's dict as it comes. Go through the steps in the order in which they are computed.",
            {LOOP: "for name, array in ((name, right[name]) for name in steps):"},
        ),
        Wrong(
            "nan-in-scores-only",
            "You look for NaN in the scores only. It can be in any array, and every comparison with it is False.",
            {
                CLOSE: "off = np.abs(steps[name] - array) > 1e-4 * np.abs(array).max()\n"
                '        if np.any(off) or (name == "scores" and not np.all(np.isfinite(steps[name]))):'
            },
        ),
        Wrong(
            "output-only-within-limits",
            "You look at the output first, and stop if it is right. A wrong key can give a right output: the softmax takes "
            "away what is the same for all keys.",
            {
                LOOP: 'same = steps["output"].shape == right["output"].shape\n'
                '    limit = 1e-4 * np.abs(right["output"]).max()\n'
                '    if same and np.all(np.abs(steps["output"] - right["output"]) <= limit):\n'
                '        return ""\n    ' + LOOP
            },
        ),
        Wrong(
            "logits-masked",
            "You compare the logits after masking them. -∞ among them makes your limit infinite, so that no logits are too "
            "far off. This step is not yet masked: mask a copy.",
            {MASKED: MASKED + '\n    right["logits"] = masked'},
        ),
        Wrong(
            "all-must-differ",
            "You suspect a step only if all of its elements are too far off. One is enough.",
            {
                CLOSE: "good = np.isfinite(steps[name])\n"
                "        if not good.all() or np.all(np.abs(steps[name] - array) > 1e-4 * np.abs(array).max()):"
            },
        ),
        Wrong(
            "softmax-overflow-unseen",
            "Your own scores overflow for large logits and become NaN. No difference from NaN is too large, so you suspect "
            "nothing. Subtract each query's own largest logit first.",
            {
                "masked - masked.max(axis=-1, keepdims=True)": "masked",
                CLOSE: "good = np.isfinite(steps[name])\n"
                "        if not good.all() or np.any(np.abs(steps[name] - array) > 1e-4 * np.abs(array).max()):",
            },
        ),
    ),
)
