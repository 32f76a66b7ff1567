"""Checks of `take_weights`: every weight, and the numbers of both layers."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ROLES = 'roles = ("query", "key", "value", "output")'
TAKEN = "for role, kernel, bias in zip(roles, arrays[0::2], arrays[1::2], strict=True):"
MOVED = "kernel = np.swapaxes(kernel, 0, 1)  # (I, H, O) -> (H, I, O)"
BIAS = '        getattr(own, f"{role}_bias").assign(bias)\n'


def draw(rng):
    """Draw the built-in's weights, and arrays for which both are called. Query and value are equally wide."""
    batch, rows, columns, heads, size, width = sizes(rng, 6)
    arrays = []
    for _ in range(3):
        arrays += [rng.normal(size=(width, heads, size)), rng.normal(size=(heads, size))]
    arrays += [rng.normal(size=(heads, size, width)), rng.normal(size=(width,))]
    return {
        "arrays": arrays,
        "query": 0.5 * rng.normal(size=(batch, rows, width)),
        "value": rng.normal(size=(batch, columns, width)),
    }


def draw_widths(rng):
    """Draw a value that is wider or narrower than the query."""
    found, width = draw(rng), int(rng.integers(3, 7))
    width += width == found["query"].shape[-1]
    found["value"] = rng.normal(size=(*found["value"].shape[:2], width))
    for index in (2, 4):
        found["arrays"][index] = rng.normal(size=(width, *found["arrays"][index].shape[1:]))
    return found


def draw_square(rng):
    """Draw as many heads as features, inside of a head too, so that no shape gives away the order of the axes."""
    batch, rows, columns, width = sizes(rng, 4, least=3)
    shapes = [(width, width, width), (width, width)] * 3 + [(width, width, width), (width,)]
    return {
        "arrays": [rng.normal(size=shape) for shape in shapes],
        "query": 0.5 * rng.normal(size=(batch, rows, width)),
        "value": rng.normal(size=(batch, columns, width)),
    }


def taken(answer, inputs):
    """Return the weights that were taken, the output with them, and whether the built-in layer has kept its own."""
    import keras
    from OwnAttention import OwnAttention

    keras.config.set_dtype_policy("float64")
    _, heads, size = inputs["arrays"][0].shape
    query, value = (np.asarray(inputs[name]) for name in ("query", "value"))
    builtin, own = keras.layers.MultiHeadAttention(heads, size), OwnAttention(heads, size)
    builtin.build(query.shape, value.shape)
    own.build(query.shape, value.shape)
    builtin.set_weights(inputs["arrays"])
    for weight in own.weights:  # what is not taken must not be random
        weight.assign(np.full(weight.shape, 0.5))
    names = [f"{role}_{kind}" for role in ("query", "key", "value", "output") for kind in ("kernel", "bias")]
    variables = {name: getattr(own, name) for name in names}
    returned = answer.take_weights(builtin, own)
    kept = all(np.array_equal(*pair) for pair in zip(builtin.get_weights(), inputs["arrays"], strict=True))
    return {
        "weights": {name: np.asarray(variable) for name, variable in variables.items()},
        "output": np.asarray(own(query, value)),
        "builtin": np.asarray(builtin(query, value)),
        "returned": returned is own,
        "kept": kept,
    }


def judge_numbers(inputs, result, expected):
    """Compare the output of the learner's layer with the built-in's."""
    if not result["kept"]:
        return "your code changes the weights of the built-in layer."
    own, builtin = result["output"], expected["builtin"]
    if own.shape != builtin.shape:
        return f"your layer's output has the shape {own.shape}, the built-in's {builtin.shape}."
    if not np.allclose(own, builtin, rtol=1e-6, atol=1e-6 * np.abs(builtin).max()):
        return f"your layer's output differs from the built-in's by up to {np.abs(own - builtin).max():.3g}."
    return None


EXERCISE = Exercise(
    title="Take the trained weights",
    question="How do weights get from the built-in layer's shapes into (heads, in, head size)? (seed 000: the kernels of "
    "the code on GitHub)",
    difficulty=2,
    minutes=15,
    uses=("numpy", "keras", "tensorflow"),
    needs=("OwnAttention",),
    seconds=20.0,
    checks=(
        *standard(draw, signature=1, shape=1, values=3, ask=taken, times=2),
        Check("invariants", "your layer gives the built-in's numbers", 2, draw, taken, judge_numbers, times=2),
        Check("edge", "a value of another width than the query", 2, draw_widths, taken, times=1),
        Check("edge", "as many heads as features", 1, draw_square, taken, times=1),
    ),
    wrong=(
        Wrong(
            "weight-replaced",
            "You set an attribute to an array. Then the layer has a number where its weight was, and the weight stays as it "
            "is: use the weight's `assign`.",
            {BIAS: '        setattr(own, f"{role}_bias", bias)\n'},
        ),
        Wrong(
            "kernels-reshaped",
            "You reshaped the kernels. The shape is right, but the numbers have not moved: each head gets pieces of all "
            "heads. Exchange the axes.",
            {MOVED: "kernel = kernel.reshape(kernel.shape[1], kernel.shape[0], -1)"},
            "jsbaan/transformer-from-scratch#1",
        ),
        Wrong(
            "key-and-value-exchanged",
            "You exchanged key and value. The order of the weights is not the order of the call: the key's come second.",
            {ROLES: 'roles = ("query", "value", "key", "output")'},
            "keras-team/keras#19257",
        ),
        Wrong(
            "query-and-key-exchanged",
            "You exchanged query and key. The query's weights come first.",
            {ROLES: 'roles = ("key", "query", "value", "output")'},
        ),
        Wrong(
            "biases-forgotten",
            "You left the biases as they were. They are trained too.",
            {BIAS: ""},
        ),
        Wrong(
            "key-bias-forgotten",
            "You left the key's bias as it was. It does not change the output, but it is one of the weights.",
            {BIAS: '        if role != "key":\n    ' + BIAS},
        ),
        Wrong(
            "output-bias-forgotten",
            "You left the output's bias as it was.",
            {BIAS: '        if role != "output":\n    ' + BIAS},
        ),
        Wrong(
            "key-and-value-bias-exchanged",
            "You exchanged the biases of key and value. Each follows its kernel.",
            {
                BIAS: '        other = {"key": "value", "value": "key"}.get(role, role)\n'
                '        getattr(own, f"{other}_bias").assign(bias)\n'
            },
        ),
        Wrong(
            "query-and-key-bias-exchanged",
            "You exchanged the biases of query and key. Each follows its kernel.",
            {
                BIAS: '        other = {"query": "key", "key": "query"}.get(role, role)\n'
                '        getattr(own, f"{other}_bias").assign(bias)\n'
            },
        ),
        Wrong(
            "output-forgotten",
            "You left the output's kernel and bias as they were.",
            {TAKEN: "for role, kernel, bias in zip(roles[:3], arrays[0:6:2], arrays[1:6:2], strict=True):"},
        ),
        Wrong(
            "query-for-all",
            "You gave key and value the query's weights.",
            {
                TAKEN: "for role, kernel, bias in zip(roles, arrays[0:1] * 3 + arrays[6:7], arrays[1:2] * 3 + arrays[7:], "
                "strict=True):"
            },
        ),
        Wrong(
            "heads-exchanged",
            "You reversed the heads of the kernels, but not those of the output kernel. All must have the same order.",
            {MOVED: MOVED.replace("np.swapaxes(kernel, 0, 1)", "np.swapaxes(kernel, 0, 1)[::-1]")},
        ),
        Wrong(
            "output-kernel-moved",
            "You changed the output kernel too. It has the heads first already, (H, O, I).",
            {
                '        if role != "output":\n': '        if role == "output":\n'
                "            kernel = np.swapaxes(kernel, 0, 1).reshape(kernel.shape)\n        else:\n"
            },
        ),
        Wrong(
            "returned-nothing",
            "You set the weights, but you do not return the layer.",
            {"    return own\n": ""},
        ),
        Wrong(
            "builtin-changed",
            "You changed the weights of the built-in layer. Only yours are to change.",
            {"    return own\n": "    builtin.set_weights([0 * array for array in arrays])\n    return own\n"},
        ),
        Wrong(
            "nothing-assigned",
            "You changed nothing in your layer. `weight.assign(array)` sets one of its weights.",
            {".assign(kernel)\n": "\n", BIAS: ""},
        ),
        Wrong(
            "attribute-replaced",
            "You replaced the layer's weights by arrays. The layer computes with them, but its weights, which are "
            "trained and saved, are still the old ones. Assign to the weights.",
            {
                ".assign(kernel)\n": '\n        setattr(own, f"{role}_kernel", kernel)\n',
                ".assign(bias)\n": '\n        setattr(own, f"{role}_bias", bias)\n',
            },
        ),
        Wrong(
            "set-weights-directly",
            "You handed the built-in's weights to your layer as they are. Three of the kernels have their axes in another "
            "order.",
            {ROLES: "own.set_weights(builtin.get_weights())\n    " + ROLES},
        ),
        Wrong(
            "exchanged-where-shapes-differ",
            "You exchange the axes only where the shapes differ. With as many heads as features, nothing in the shape shows "
            "that they have to change places.",
            {'if role != "output":': 'if kernel.shape != getattr(own, f"{role}_kernel").shape:'},
        ),
    ),
)
