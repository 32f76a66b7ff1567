"""Mistakes that no chain computes, because their numbers are random, or are those of the layer alone.

`kmha.verify.diagnosing.evidence` finds these mistakes: it calls the candidate again, and changes its inputs and
weights.
"""

from kmha.verify.mistakes.entry import register_without_numbers

PAPER = "Vaswani et al. 2017, section 3.2"
for _id, _says, _look, _source in (
    (
        "random-at-inference",
        "You draw random numbers at inference, so two calls with the same inputs give two results. Leave them out.",
        "dropout, noise, and whatever else draws random numbers in the call",
        "Srivastava et al. 2014, section 4",
    ),
    (
        "weights-made-in-call",
        "You make new weights in every call, so nothing can be learned. Make them once, in the constructor or `build`.",
        "the layers or random arrays that the call itself makes",
        PAPER,
    ),
    (
        "state-kept",
        "You keep something between calls, so the same inputs give another result the second time. Keep no state.",
        "attributes that the call assigns, such as a cache",
        PAPER,
    ),
    (
        "output-constant",
        "You return the same output for all inputs. Compute it from query, key and value.",
        "the value that you return",
        PAPER,
    ),
    (
        "context-ignored",
        "You never use the key and the value that the caller passes. Attend to them.",
        "the arguments of the call that nothing reads",
        "Vaswani et al. 2017, section 3.2.3",
    ),
    (
        "query-ignored",
        "You never use the query that the caller passes. Compute the logits from it.",
        "the arguments of the call that nothing reads",
        PAPER,
    ),
    (
        "value-ignored",
        "You never use the value that the caller passes. Mix it with the scores.",
        "the arguments of the call that nothing reads",
        PAPER,
    ),
    (
        "key-ignored",
        "You never use the key that the caller passes. Compute the logits from it.",
        "the arguments of the call that nothing reads",
        PAPER,
    ),
    (
        "weight-unused",
        "You never use one of the layer's weights, or only where it cannot change the result. Use it, or remove it.",
        "the weight that the evidence names",
        "Vaswani et al. 2017, section 3.2.2",
    ),
    (
        "parts-not-registered",
        "You keep modules in a plain list, so torch does not train, save or move their weights. Use nn.ModuleList.",
        "the list of modules that the constructor makes",
        "the documentation of torch.nn.ModuleList",
    ),
    (
        "softmax-in-half-precision",
        "You computed the softmax in float16 or bfloat16, although the inputs are more precise. Keep their dtype.",
        "the dtype of the softmax, and casts before it",
        "Micikevicius et al. 2018, section 3.3",
    ),
    (
        "mask-number-in-thousands",
        "You hid logits with a number such as -1,000, so logits in the thousands leak. Set them to -∞.",
        "the line that applies the mask to the logits",
        "huggingface/transformers#10484",
    ),
    (
        "softmax-over-one",
        "You took the softmax over an axis of length 1, so that each weight is 1. Take it over the keys.",
        "the axis of the softmax",
        "Bahdanau et al. 2015, section 3.1",
    ),
    (
        "relative-bias-shared",
        "You gave several offsets in a window one entry of the table. Multiply the offsets of rows by 2 · width - 1.",
        "the lines that compute the index of relative positions",
        "Liu et al. 2021 (Swin Transformer), section 3.2",
    ),
    (
        "relative-bias-misplaced",
        "You gave a pair of positions a bias that is not that of its offset. Bring the heads first by a transposition.",
        "the line that makes (H, T, S) of the bias (T, S, H): a reshape to this shape mixes heads and positions",
        "Raffel et al. 2020, section 2.1",
    ),
    (
        "patches-mixed",
        "You put parts of several patches of the image into one token. Move the axes of a patch side by side first.",
        "the reshape that makes tokens: (B, H/P, P, W/P, P, C) needs a transposition (0, 1, 3, 2, 4, 5) before it",
        "Dosovitskiy et al. 2021, section 3.1",
    ),
):
    register_without_numbers(_id, _says, _look, _source)
