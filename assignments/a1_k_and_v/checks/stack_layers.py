"""Checks of `stack_layers`, with inner widths that are not the model's, and widths that do not fit."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FIT = (
    "        if width != inputs.shape[-1]:\n"
    '            raise ValueError(f"layer {number} expects {width} features, and gets {inputs.shape[-1]}")\n'
)
SAME = (
    '        if residual and layer["output_kernel"].shape[-1] != width:\n'
    "            raise ValueError(f\"layer {number} turns {width} features into {layer['output_kernel'].shape[-1]}\")\n"
)
WIDTH = 'width = layer["query_kernel"].shape[1]'
LOOP = "    for number, layer in enumerate(layers):\n"
SUM = "        inputs = inputs + output if residual else output\n"
RETURN = "    return inputs\n"


def layer(rng, heads, features, size, width):
    """Return the kernels of one layer, by role, in any order."""
    inner = {
        f"{role}_kernel": rng.normal(scale=0.7, size=(heads, features, size)) for role in ("query", "key", "value")
    }
    kernels = {**inner, "output_kernel": rng.normal(scale=(heads * size) ** -0.5, size=(heads, size, width))}
    return {str(name): kernels[name] for name in rng.permutation([*kernels])}


def draw(rng):
    """Draw three layers with the same outer width and different inner ones."""
    batch, positions, features, heads, size = sizes(rng, 5)
    layers = [layer(rng, heads, features, size, features), layer(rng, heads + 1, features, size + 2, features)]
    return {
        "inputs": rng.normal(size=(batch, positions, features)),
        "layers": [*layers, layer(rng, heads, features, size + 1, features)],
    }


def draw_plain(rng):
    """Draw two layers without residual connections, each with other widths."""
    batch, positions, features, middle, width, heads, size = sizes(rng, 7)
    return {
        "inputs": rng.normal(size=(batch, positions, features)),
        "layers": [layer(rng, heads, features, size, middle), layer(rng, heads + 1, middle, size, width)],
        "residual": False,
    }


def draw_kept(rng):
    """Draw layers that keep their width, without residual connections. The last one's logits are large."""
    found = draw(rng)
    found["layers"][-1]["query_kernel"] *= 20
    return {**found, "residual": False}


def draw_zero(rng):
    found = draw(rng)
    for each in found["layers"]:
        each["output_kernel"] = np.zeros_like(each["output_kernel"])
    return found


# An error that is always expected could be raised for whoever asks, so half of the stacks fit.


def stack(rng, first, widths, residual=True):
    """Return inputs with `first` features, and layers with these widths, each (I, E)."""
    batch, positions, heads, size = sizes(rng, 4)
    layers = [layer(rng, heads, features, size, width) for features, width in widths]
    return {"inputs": rng.normal(size=(batch, positions, first)), "layers": layers, "residual": residual}


def draw_sums(rng):
    """Draw stacks of which one layer turns many features into one, or one into many, or that fit.

    The addition would broadcast the one feature.
    """
    (many,) = sizes(rng, 1)
    many = max(many, 2)
    stacks = []
    for features, width in ((many, 1), (1, many)):
        fits, breaks = (features, features), (features, width)
        stacks += [stack(rng, features, [breaks, (many, many)]), stack(rng, features, [fits, breaks])]
        stacks += [stack(rng, features, [fits, fits, breaks]), stack(rng, features, [fits, fits, fits])]
        stacks += [stack(rng, features, [fits, fits]), stack(rng, features, [fits, fits, fits, breaks])]
    return {"stacks": [stacks[place] for place in rng.permutation(len(stacks))]}


def draw_gaps(rng):
    """Draw stacks of which one layer expects one feature and gets many, or the reverse, or that fit.

    `np.einsum` would broadcast the one feature.
    """
    many, other = (max(size, 2) for size in sizes(rng, 2))
    stacks = []
    for arrives, wanted in ((many, 1), (1, many), (many, many), (1, 1)):
        widest = max(arrives, wanted)
        stacks += [
            stack(rng, arrives, [(wanted, wanted), (widest, widest)]),
            stack(rng, arrives, [(arrives, arrives), (wanted, wanted)]),
            stack(rng, arrives, [(wanted, other), (other, many)], residual=False),
            stack(rng, other, [(other, arrives), (wanted, other)], residual=False),
            stack(rng, arrives, [(arrives, arrives), (arrives, arrives), (wanted, wanted)]),
            stack(rng, arrives, [(arrives, arrives)] * 3 + [(wanted, wanted)]),
            stack(rng, other, [(other, many), (many, arrives), (wanted, other)], residual=False),
        ]
    return {"stacks": [stacks[place] for place in rng.permutation(len(stacks))]}


def error_names(answer, inputs):
    """Return the name of the error that each stack raises, or ""."""
    names = []
    for each in inputs["stacks"]:
        try:
            answer.stack_layers(**each)
            names.append("")
        except Exception as error:
            names.append("ValueError" if isinstance(error, ValueError) else type(error).__name__)
    return names


def judge_errors(inputs, result, expected):
    for name, right in zip(result, expected, strict=True):
        if name and name != right:
            return f"it raises {name}, expected {'a ValueError' if right else 'no error: the sizes fit'}."
        if name != right:
            return "it accepts a layer whose widths do not fit. Expected a ValueError."
    return None


def judge_unchanged(inputs, result, expected):
    if np.shape(result) != np.shape(inputs["inputs"]):
        return f"it has the shape {np.shape(result)}, expected {np.shape(inputs['inputs'])}."
    if not np.allclose(result, inputs["inputs"], rtol=1e-9, atol=1e-9):
        return "all output kernels are zeros, so that no layer adds anything, and the result is not the input."
    return None


EXERCISE = Exercise(
    title="Why the output is as wide as the input",
    question="Do outputs have to be as wide as inputs, and why? (seed 000, the last sentence)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=3, unchanged=1),
        Check("invariants", "layers with output kernels of zeros change nothing", 1, draw_zero, judge=judge_unchanged),
        Check("values", "without residual connections, nothing is added; large logits", 1, draw_kept),
        Check("values", "without residual connections, widths may change", 1, draw_plain),
        Check("edge", "one output feature is not broadcast", 1, draw_sums, error_names, judge_errors, times=1),
        Check("edge", "a layer that does not fit what comes in", 1, draw_gaps, error_names, judge_errors, times=1),
    ),
    wrong=(
        Wrong(
            "one-feature-broadcast",
            "You rely on the addition to fail. With a single output feature it does not: the feature is added to all of "
            "the input's. Compare the widths yourself.",
            {SAME: ""},
        ),
        Wrong(
            "stack-not-checked",
            "You rely on the product to fail. With a single feature it does not: `np.einsum` repeats the feature. Compare "
            "the widths yourself.",
            {FIT: ""},
        ),
        Wrong(
            "first-layer-unchecked",
            "You compare each layer with the one before it, and the first layer with nothing. The inputs have a width "
            "too: compare it with the first layer's.",
            {FIT: FIT.replace("if width", "if number > 0 and width")},
        ),
        Wrong(
            "widths-always-equal",
            "You demand that output and input are equally wide even without residual connections. Only the addition "
            "needs that.",
            {SAME: SAME.replace("if residual and layer", "if layer")},
            "seed 000: outputs have to be equal in dimension to inputs",
        ),
        Wrong(
            "inner-width-demanded",
            "You demand that all heads together are as wide as the input. The inside of a layer is free: the output "
            "kernel brings the width back.",
            {
                WIDTH: WIDTH + "\n        if len(layer['query_kernel']) * layer['query_kernel'].shape[2] != width:\n"
                "            raise ValueError('H · O must be I')"
            },
            "seed 000: N = M = O",
        ),
        Wrong(
            "residual-missing",
            "You never add a layer's input to its output.",
            {SUM: "        inputs = output\n"},
        ),
        Wrong(
            "residual-always",
            "You add the input even where `residual` is False.",
            {SUM: "        inputs = inputs + output\n"},
        ),
        Wrong(
            "residual-of-the-stack",
            "You add the first layer's input after every layer. Each layer has a residual connection of its own, around "
            "itself.",
            {LOOP: "    first = inputs\n" + LOOP, SUM: "        inputs = first + output if residual else output\n"},
        ),
        Wrong(
            "residual-once",
            "You add the input once, around all layers together. Each layer has a residual connection of its own.",
            {
                LOOP: "    first = inputs\n" + LOOP,
                SUM: "        inputs = output\n",
                RETURN: "    return first + inputs if residual else inputs\n",
            },
        ),
        Wrong(
            "residual-output-doubled",
            "You add the output to itself. What is added is the layer's input.",
            {SUM: "        inputs = output + output if residual else output\n"},
        ),
        Wrong(
            "layers-side-by-side",
            "You gave every layer the first input and added up what they return. Each layer gets what the one before it "
            "returns.",
            {
                LOOP: "    first, total = inputs, inputs\n" + LOOP,
                SUM: "        total = total + output if residual else output\n        inputs = first if residual else output\n",
                RETURN: "    return total\n",
            },
        ),
        Wrong(
            "layers-reversed",
            "You applied the last layer first.",
            {LOOP: "    for number, layer in enumerate(layers[::-1]):\n"},
        ),
        Wrong(
            "input-changed",
            "You added to the array that you were given. Its owner now finds other numbers in it. Make a new array.",
            {
                SUM: "        if residual:\n            inputs += output\n        else:\n            inputs = output\n",
            },
        ),
        Wrong(
            "only-last-layer",
            "You returned after the first layer. The loop has to go through all of them.",
            {SUM: SUM + "        break\n"},
        ),
        Wrong(
            "nothing-checked",
            "You compare no widths and rely on NumPy to fail. An axis of size 1 is broadcast, in a sum and in `np.einsum`, "
            "and nothing fails.",
            {FIT: "", SAME: ""},
        ),
        Wrong(
            "softmax-scale-of-model",
            "You scaled the logits by the width of the model. Divide them by √O, the root of the head size.",
            {"np.sqrt(query.shape[-1])": "np.sqrt(width)"},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "softmax-overflow",
            "The exponentials of your large logits overflow, and ∞/∞ is NaN. Subtract the largest logit of each row "
            "first.",
            {"np.exp(logits - logits.max(axis=-1, keepdims=True))": "np.exp(logits)"},
        ),
        Wrong(
            "softmax-scale-of-first-layer",
            "You scaled the logits of every layer by the head size of the first. O may differ from layer to layer.",
            {"np.sqrt(query.shape[-1])": "np.sqrt(layers[0]['query_kernel'].shape[-1])"},
        ),
        Wrong(
            "third-layer-unchecked",
            "You compare what comes in only for the first two layers. Every layer gets what the one before it returns.",
            {FIT: FIT.replace("if width", "if number < 2 and width")},
        ),
        Wrong(
            "kernels-by-place",
            "You take the kernels by their place in the dict. Take them by name: the dict may be in any order.",
            {
                'layer[f"{role}_kernel"]) for role in ("query", "key", "value")': "kernel) "
                "for kernel in [*layer.values()][:3]"
            },
        ),
    ),
)
