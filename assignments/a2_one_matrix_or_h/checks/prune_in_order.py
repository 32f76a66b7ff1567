"""Checks of `prune_in_order`. The clock of the checks counts multiplications, so that times are the same in every run."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

LEFT = "left, order, losses, seconds = list(range(num_heads)), [], [], []"
BEGAN = "        began = clock()\n"
LOSS = "        losses.append(np.mean(np.square(output - target)))\n"
SMALLER = "smaller = [prune_head(*kernels, len(left), head) for head in range(len(left))]"
BEST = "best = int(np.argmin([loss(each, len(left) - 1) for each in smaller]))"
KERNELS = "        kernels = smaller[best]\n"
ORDER = "order.append(left.pop(best))"
TRIED = "loss(each, len(left) - 1) for each in smaller"


def draw(rng):
    """Draw heads of which some do the same work, and a target that the layer overshoots."""
    batch, positions, features, size, width = sizes(rng, 5, least=3)
    heads = int(rng.integers(5, 7)) if batch + positions > 4 else 3
    inner = [rng.normal(scale=features**-0.5, size=(features, heads, size)) for _ in range(3)]
    output = rng.normal(scale=size**-0.5, size=(heads, size, width)) * rng.uniform(0.6, 1.4, size=(heads, 1, 1))
    for array in inner:
        array[:, 2] = array[:, 0] + 0.1 * rng.normal(size=array[:, 0].shape)
        array[:, 1] = array[:, -1] + 0.1 * rng.normal(size=array[:, 0].shape)
    output[2], output[1] = 1.05 * output[0], 0.9 * output[-1]
    order = rng.permutation(heads)[: None if batch + positions > 4 else 2]
    heads = len(order)
    return {
        "kernels": [
            *(array[:, order].reshape(features, heads * size) for array in inner),
            output[order].reshape(heads * size, width),
        ],
        "inputs": rng.normal(scale=1.5, size=(batch, positions, features)),
        "noise": 0.1 * rng.normal(size=(batch, positions, width)),
        "share": float(rng.uniform(0.6, 0.7)),
        "num_heads": heads,
        "counted": True,
    }


def draw_equal(rng):
    """Draw a layer in which two heads are the same, and all values are zeros: every head may go first.

    The call leaves the clock at its default.
    """
    found = {**draw(rng), "counted": False}
    found["kernels"][2] = np.zeros_like(found["kernels"][2])
    return found


def pruned(answer, inputs):
    """Prune with a layer that counts the multiplications that depend on the number of heads, and a clock that shows them.

    What is computed with the layer's output counts too. With the default clock, return only whether each time is
    positive.
    """
    done = [0]

    class Output(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *operands, out=None, **more):
            done[0] += self.size
            operands = [np.asarray(each) if isinstance(each, Output) else each for each in operands]
            if out is not None:
                more["out"] = tuple(np.asarray(each) if isinstance(each, Output) else each for each in out)
            return getattr(ufunc, method)(*operands, **more)

    def layer(inputs, kernels, heads):
        query_kernel, key_kernel, value_kernel, output_kernel = (np.asarray(kernel) for kernel in kernels)
        query, key, value = (inputs @ kernel for kernel in (query_kernel, key_kernel, value_kernel))
        query, key, value = (each.reshape(*each.shape[:2], heads, -1) for each in (query, key, value))
        logits = np.einsum("BTHO,BSHO->BHTS", query, key) / np.sqrt(query.shape[-1])
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        mixed = np.einsum("BHTS,BSHO->BTHO", powers / powers.sum(axis=-1, keepdims=True), value)
        done[0] += inputs.size * (query_kernel.shape[1] * 3) + 2 * logits.size * query.shape[-1] + mixed.size
        return (mixed.reshape(*mixed.shape[:2], -1) @ output_kernel).view(Output)

    given, kernels = inputs["inputs"], inputs["kernels"]
    target = inputs["share"] * layer(given, kernels, inputs["num_heads"]) + inputs["noise"]
    if inputs["counted"]:
        return answer.prune_in_order(layer, kernels, given, target, inputs["num_heads"], clock=lambda: done[0] * 1e-3)
    found = answer.prune_in_order(layer, kernels, given, target, inputs["num_heads"])
    return {**found, "seconds": np.asarray(found["seconds"]) > 0}


def judge_seconds(inputs, result, expected):
    seconds = np.asarray(result["seconds"], float)
    if seconds.shape != expected["seconds"].shape:
        return f"there are {seconds.size} times, expected {expected['seconds'].size}."
    if not np.all(np.diff(seconds) < 0):
        return "the layer does not become faster with every head that goes."
    return None


EXERCISE = Exercise(
    title="Pruning heads, one after another",
    question="How do you prune the less important heads for more speed, and what does it cost? (seed 001, exercise 2; "
    "Michel et al. 2019)",
    difficulty=3,
    minutes=30,
    needs=("prune_head",),
    checks=(
        *standard(draw, signature=1, shape=1, values=6, unchanged=1, ask=pruned),
        Check("invariants", "every step makes the layer faster", 2, draw, pruned, judge_seconds),
        Check("edge", "of heads that are equally good to prune, the smallest number goes first", 1, draw_equal, pruned),
    ),
    wrong=(
        Wrong(
            "ranked-once",
            "You ranked the heads once and pruned them in that order. Two heads that do the same work both look "
            "unimportant while the other is there. Rank again after every step.",
            {
                LEFT: LEFT + "\n    ranking = None",
                BEST: "tried = [loss(each, len(left) - 1) for each in smaller]\n"
                "        ranking = list(np.argsort(tried, kind='stable')) if ranking is None else ranking\n"
                "        best = left.index(ranking.pop(0))",
            },
            "Michel et al. 2019, section 4.1, ranks once",
        ),
        Wrong(
            "order-within-what-is-left",
            "You wrote down each head's place among those that were left. Write down its number in the whole layer.",
            {ORDER: "left.pop(best)\n        order.append(best)"},
        ),
        Wrong(
            "head-zeroed",
            "You set the heads to zero. The loss is the same, but the layer multiplies as many numbers as before, and no "
            "time is saved. Remove them.",
            {
                LEFT: LEFT + "\n    size = len(kernels[3]) // num_heads\n\n"
                "    def without(head):\n"
                "        kept = np.repeat(np.arange(num_heads) != head, size)\n"
                "        return [*(kernel * kept for kernel in kernels[:3]), kernels[3] * kept[:, None]]\n",
                "output = layer(inputs, kernels, len(left))": "output = layer(inputs, kernels, num_heads)",
                SMALLER: "smaller = [without(head) for head in left]",
                TRIED: "loss(each, num_heads) for each in smaller",
            },
        ),
        Wrong(
            "most-important-first",
            "You pruned the head that is needed most. Prune the one without which the loss is smallest.",
            {BEST: BEST.replace("argmin", "argmax")},
        ),
        Wrong(
            "size-of-kernel-ranked",
            "You pruned the head with the smallest output kernel. Small numbers may still be needed, and large ones may "
            "cancel. Try the loss without each head.",
            {
                BEST: "best = int(np.argmin(np.square(kernels[3]).reshape(len(left), -1).sum(axis=1)))",
            },
        ),
        Wrong(
            "only-that-head-tried",
            "You looked for the head that does worst alone. Heads work together: try all of the others without it.",
            {
                TRIED: "loss([*(np.split(kernel, len(left), axis=1)[head] for kernel in kernels[:3]), "
                "np.split(kernels[3], len(left))[head]], 1) for head in range(len(left))",
                "np.argmin(": "np.argmax(",
            },
        ),
        Wrong(
            "trials-timed",
            "Your times contain the trials of the other heads. Time one call of the layer only.",
            {
                "        seconds.append(clock() - began)\n": "",
                ORDER: ORDER + "\n        seconds.append(clock() - began)",
                "        if len(left) == 1:\n": "        if len(left) == 1:\n            seconds.append(clock() - began)\n",
            },
        ),
        Wrong(
            "loss-timed",
            "Your times contain the loss. Read the clock again right after the call of the layer.",
            {
                "        seconds.append(clock() - began)\n": "",
                LOSS: LOSS + "        seconds.append(clock() - began)\n",
            },
        ),
        Wrong(
            "first-loss-timed",
            "The first of your times contains the loss. Read the clock again right after the call of the layer.",
            {
                "        seconds.append(clock() - began)\n": "        seconds += [clock() - began] if order else []\n",
                LOSS: LOSS + "        seconds += [] if order else [clock() - began]\n",
            },
        ),
        Wrong(
            "step-timed",
            "Your times are those of the whole steps: trying all heads, and removing one. Time one call of the layer "
            "that is left.",
            {
                "        seconds.append(clock() - began)\n": "        seconds += [] if order else [clock() - began]\n",
                SMALLER: "began = clock()\n        " + SMALLER,
                ORDER: ORDER + "\n        seconds.append(clock() - began)",
            },
        ),
        Wrong(
            "time-since-the-start",
            "You measured all times from the start of the loop. Read the clock before each call.",
            {BEGAN: "", LEFT: LEFT + "\n    began = clock()"},
        ),
        Wrong(
            "time-saved",
            "You returned the time that each step saved. Return the time of one call.",
            {'"seconds": np.array(seconds)': '"seconds": seconds[0] - np.array(seconds)'},
        ),
        Wrong(
            "losses-compared",
            "You returned how much the loss rose. Return the loss itself.",
            {'"losses": np.array(losses)': '"losses": np.array(losses) - losses[0]'},
        ),
        Wrong(
            "loss-summed",
            "You summed the squared differences. The loss is their mean over all elements.",
            {"losses.append(np.mean(": "losses.append(np.sum("},
        ),
        Wrong(
            "layer-not-told",
            "You called the smaller layer with the old number of heads, so it cuts its columns in the wrong places.",
            {"output = layer(inputs, kernels, len(left))": "output = layer(inputs, kernels, num_heads)"},
        ),
        Wrong(
            "kernels-not-replaced",
            "You never continued with the smaller kernels: every step begins with all heads.",
            {
                SMALLER: "smaller = [prune_head(*kernels, num_heads, head) for head in left]",
                "loss(each, len(left) - 1) for each": "loss(each, num_heads - 1) for each",
                "output = layer(inputs, kernels, len(left))": "output = layer(inputs, kernels, num_heads)",
                KERNELS: "",
            },
        ),
    ),
)
