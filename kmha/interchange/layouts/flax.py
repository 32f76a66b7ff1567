"""`flax.nnx.MultiHeadAttention` and `flax.linen.MultiHeadDotProductAttention`, which use the same names.

The names are paths in the parameter tree, joined by slashes and without linen's `params`, as
`flax.traverse_util.flatten_dict(parameters, sep="/")` gives them.
"""

from kmha.interchange.layout import Entry, Item, Layout, Refused

ATTENTION: tuple[Item, ...] = (
    Entry("query/kernel", "query/kernel", "I H O -> H I O"),
    Entry("query/bias", "query/bias", "H O -> H O", optional="bias"),
    Entry("key/kernel", "key/kernel", "J G O -> G J O"),
    Entry("key/bias", "key/bias", "G O -> G O", optional="bias"),
    Entry("value/kernel", "value/kernel", "K G O -> G K O"),
    Entry("value/bias", "value/bias", "G O -> G O", optional="bias"),
    Entry("out/kernel", "attention_output/kernel", "H O E -> H O E"),
    Entry("out/bias", "attention_output/bias", "E -> E", optional="bias"),
    *(
        Refused(
            f"{role}_ln/scale",
            f"`normalize_qk` normalizes every head's {role} before the logits, and no other layout does that.",
        )
        for role in ("query", "key")
    ),
)

LAYOUTS = (
    Layout(
        "flax",
        "flax.nnx.MultiHeadAttention, flax.linen.MultiHeadDotProductAttention: kernels (I, H, O), names with slashes",
        ATTENTION,
        refusals={"gate/kernel": "Flax' attention has no gate."},
    ),
)
