"""What is checked of `cross_kv`, and what people take K and V to be."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard

KEY = 'key = np.einsum("BSI,HIO->BSHO", enc_output, key_kernel)'
VALUE = 'value = np.einsum("BSI,HIO->BSHO", enc_output, value_kernel)'


def draw(rng):
    """Pairwise different sizes, so that K and `enc_output` cannot be taken for each other."""
    batch, positions, features, heads, size = sizes(rng, 5)
    return {
        "enc_output": rng.normal(size=(batch, positions, features)),
        "key_kernel": rng.normal(size=(heads, features, size)),
        "value_kernel": rng.normal(size=(heads, features, size)),
    }


EXERCISE = Exercise(
    title="K and V of the decoder's second attention",
    question="Does `key=enc_output` mean that K is `enc_output`? (seed 000, a course's forum)",
    difficulty=1,
    minutes=10,
    checks=standard(draw, signature=1, shape=2, values=6, unchanged=1),
    wrong=(
        Wrong(
            "key-is-enc-output",
            "K is `enc_output` itself: `key=enc_output` names the input that K is made of, not K. The layer multiplies "
            "it by its key kernel first.",
            {KEY: "key = enc_output"},
            "seed 000",
        ),
        Wrong(
            "value-is-enc-output",
            "V is `enc_output` itself: the layer has a kernel for the values too.",
            {VALUE: "value = enc_output"},
            "seed 000",
        ),
        Wrong(
            "key-and-value-are-enc-output",
            "Both K and V are `enc_output` itself: that is what the layer is given; what it does first is to multiply "
            "it by a kernel for each.",
            {KEY: "key = enc_output", VALUE: "value = enc_output"},
            "seed 000",
        ),
        Wrong(
            "one-kernel",
            "V is made with the key's kernel: each role has its own.",
            {VALUE: VALUE.replace(", value_kernel", ", key_kernel")},
        ),
        Wrong(
            "kernels-exchanged",
            "K is made with the value's kernel and V with the key's, or they are returned in reverse: the "
            "order is K, V.",
            {KEY: KEY.replace("key_", "value_"), VALUE: VALUE.replace("value_", "key_")},
        ),
        Wrong(
            "heads-first",
            "The head axis stands before the positions: here the result is (B, S, H, O); heads move to the front only "
            "for the scores.",
            {KEY: KEY.replace("->BSHO", "->BHSO"), VALUE: VALUE.replace("->BSHO", "->BHSO")},
        ),
        Wrong(
            "heads-summed",
            "The heads are summed: H is missing from the result's letters, and a letter that is missing is "
            "summed over.",
            {KEY: KEY.replace("->BSHO", "->BSO"), VALUE: VALUE.replace("->BSHO", "->BSO")},
        ),
    ),
)
