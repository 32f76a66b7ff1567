"""KerasHub's `TransformerEncoder` and `TransformerDecoder`, with the names in the variables' paths.

`normalize_first`, the activation and the epsilon are settings, not weights. A decoder block that was built without an
encoder's output has no cross-attention, so it is an encoder block with a causal mask.
"""

from kmha.interchange.layout import Entry, Item, Layout, Rule, at

_SELF_WHY = "self-attention reads query, key and value from one tensor, so all three have its width."
_SIZE = Rule("O = E // H", "KerasHub's blocks compute the head size themselves and have no `key_dim`.")


def _attention(kv: str) -> tuple[Item, ...]:
    """Return the entries of an attention layer with queries of width E, and keys and values of width `kv`."""
    why = _SELF_WHY if kv == "E" else "key and value are projected from one tensor, so both have its width."
    items: list[Item] = []
    for role, width in (("query", "E"), ("key", kv), ("value", kv)):
        items.append(Entry(f"{role}/kernel", f"{role}/kernel", f"{width} H O -> H {width} O", why=why))
        items.append(Entry(f"{role}/bias", f"{role}/bias", "H O -> H O"))
    items.append(Entry("attention_output/kernel", "attention_output/kernel", "H O E -> H O E"))
    items.append(Entry("attention_output/bias", "attention_output/bias", "E -> E"))
    return tuple(items)


NORM: tuple[Item, ...] = (Entry("gamma", "gamma", "E -> E"), Entry("beta", "beta", "E -> E"))
FEED_FORWARD: tuple[Item, ...] = (
    Entry("feedforward_intermediate_dense/kernel", "feed_forward/inner/kernel", "E F -> E F"),
    Entry("feedforward_intermediate_dense/bias", "feed_forward/inner/bias", "F -> F"),
    Entry("feedforward_output_dense/kernel", "feed_forward/outer/kernel", "F E -> F E"),
    Entry("feedforward_output_dense/bias", "feed_forward/outer/bias", "E -> E"),
    *at(NORM, "feedforward_layer_norm/", "feed_forward_norm/"),
)
SELF_NORM = at(NORM, "self_attention_layer_norm/", "self_attention_norm/")
CROSS = (
    *at(_attention("J"), "cross_attention/", "cross_attention/", ("cross_attention",)),
    *at(NORM, "cross_attention_layer_norm/", "cross_attention_norm/", ("cross_attention",)),
)

LAYOUTS = (
    Layout(
        "keras-hub-encoder",
        "keras_hub.layers.TransformerEncoder: kernels (I, H, O), norm after each sublayer or before it",
        (*at(_attention("E"), "self_attention_layer/", "self_attention/"), *SELF_NORM, *FEED_FORWARD),
        rules=(_SIZE,),
    ),
    Layout(
        "keras-hub-decoder",
        "keras_hub.layers.TransformerDecoder, with cross-attention or without: kernels (I, H, O), causal",
        (*at(_attention("E"), "self_attention/", "self_attention/"), *SELF_NORM, *CROSS, *FEED_FORWARD),
        rules=(_SIZE,),
    ),
)
