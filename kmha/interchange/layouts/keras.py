"""Keras' own attention layers: canonical names, but kernels (I, H, O) instead of (H, I, O)."""

from kmha.interchange.layout import Entry, Layout

_NO_GATE = "`GroupQueryAttention` has no gate"


def _into(role: str, letters: str, *groups: str) -> tuple[Entry, Entry]:
    """Return kernel and bias of a projection into heads. `letters` are the axes of the canonical kernel."""
    heads, wide, size = tuple(letters)
    kernel = f"{wide} {heads} {size} -> {heads} {wide} {size}"
    return (
        Entry(f"{role}/kernel", f"{role}/kernel", kernel, groups),
        Entry(f"{role}/bias", f"{role}/bias", f"{heads} {size} -> {heads} {size}", (*groups, "bias")),
    )


def _out(letters: str) -> tuple[Entry, Entry]:
    kernel = f"{' '.join(letters)} ... -> {' '.join(letters)} ..."
    return (
        Entry("attention_output/kernel", "attention_output/kernel", kernel),
        Entry("attention_output/bias", "attention_output/bias", "... -> ...", "bias"),
    )


ATTENTION = (
    *_into("query", "HIO"),
    *_into("key", "HJO"),
    *_into("gate", "HIV", "gate"),
    *_into("value", "HKV"),
    *_out("HV"),
)
BUILTIN = Layout(
    "keras",
    "keras.layers.MultiHeadAttention: kernels (in, heads, head size)",
    ATTENTION,
    keras_layer="multi_head_attention",
)
LAYOUTS = (
    BUILTIN,
    Layout(
        "keras-grouped",
        "keras.layers.GroupQueryAttention: fewer heads for keys and values, kernels (in, heads, head size)",
        (*_into("query", "HIO"), *_into("key", "GJO"), *_into("value", "GKO"), *_out("HO")),
        refusals={"gate/kernel": _NO_GATE, "gate/bias": _NO_GATE},
        keras_layer="grouped_query_attention",
    ),
)
