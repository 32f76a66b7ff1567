"""Checks of `cross_kv`, and what people take K and V to be."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard

KEY = 'key = np.einsum("BSI,HIO->BSHO", enc_output, key_kernel)'
VALUE = 'value = np.einsum("BSI,HIO->BSHO", enc_output, value_kernel)'


def draw(rng):
    """Draw inputs of pairwise different sizes, so that K and `enc_output` cannot be confused."""
    batch, positions, features, heads, size = sizes(rng, 5)
    return {
        "enc_output": rng.normal(size=(batch, positions, features)),
        "key_kernel": rng.normal(size=(heads, features, size)),
        "value_kernel": rng.normal(size=(heads, features, size)),
    }


EXERCISE = Exercise(
    title="K and V of the decoder's second attention",
    question="Does `key=enc_output` mean that K is `enc_output`? (seed 000, a course forum)",
    difficulty=1,
    minutes=10,
    checks=standard(draw, signature=1, shape=2, values=6, unchanged=1),
    wrong=(
        Wrong(
            "key-is-enc-output",
            "You returned `enc_output` itself as K. `key=enc_output` names the input that K is made from. The layer "
            "first multiplies it by its key kernel.",
            {KEY: "key = enc_output"},
            "seed 000",
        ),
        Wrong(
            "value-is-enc-output",
            "You returned `enc_output` itself as V. The layer has a kernel for the values too: multiply by it first.",
            {VALUE: "value = enc_output"},
            "seed 000",
        ),
        Wrong(
            "key-and-value-are-enc-output",
            "You returned the layer's input, `enc_output`, as both K and V. The layer first multiplies it by one "
            "kernel to get K and by another to get V.",
            {KEY: "key = enc_output", VALUE: "value = enc_output"},
            "seed 000",
        ),
        Wrong(
            "one-kernel",
            "You used the key kernel to make V. Each role has its own kernel: make V with the value kernel.",
            {VALUE: VALUE.replace(", value_kernel", ", key_kernel")},
        ),
        Wrong(
            "kernels-exchanged",
            "You exchanged K and V: either each was made with the other's kernel, or they are returned in reverse. "
            "Return K first, then V.",
            {KEY: KEY.replace("key_", "value_"), VALUE: VALUE.replace("value_", "key_")},
        ),
        Wrong(
            "kernel-reshaped",
            "You reshaped the kernels (H, I, O) to (I, H·O). A reshape keeps the order of the numbers, so these are not the "
            "heads side by side. First transpose to (I, H, O), or name the axes with `einsum`.",
            {
                KEY: "key = (enc_output @ key_kernel.reshape(key_kernel.shape[1], -1)).reshape(*enc_output.shape[:2], *key_kernel.shape[::2])",
                VALUE: "value = (enc_output @ value_kernel.reshape(value_kernel.shape[1], -1)).reshape(*enc_output.shape[:2], *value_kernel.shape[::2])",
            },
        ),
        Wrong(
            "heads-first",
            "You put the head axis before the positions. The result here is (B, S, H, O); the heads move to the front "
            "only later, for the scores.",
            {KEY: KEY.replace("->BSHO", "->BHSO"), VALUE: VALUE.replace("->BSHO", "->BHSO")},
        ),
        Wrong(
            "heads-summed",
            "You summed over the heads. A letter that is missing from the result is summed over, and H is missing "
            "from yours.",
            {KEY: KEY.replace("->BSHO", "->BSO"), VALUE: VALUE.replace("->BSHO", "->BSO")},
        ),
    ),
)
