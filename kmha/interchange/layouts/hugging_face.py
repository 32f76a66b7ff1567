"""BERT, GPT-2 and T5, with the names in the state dicts of Hugging Face's PyTorch models.

The matrices have all heads in one axis, so give `num_heads`. In a whole model, the names have a prefix such as
"bert.encoder.layer.0.": give it as `prefix`. kmha's blocks need these settings:

| layout | block | norm | activation | epsilon |
| --- | --- | --- | --- | --- |
| `bert-layer` | `EncoderLayer`; with cross-attention `DecoderLayer` | "post" | "gelu" | 1e-12 |
| `gpt2-layer` | the same, with a causal mask | "pre" | gelu with the tanh approximation | 1e-5 |

GPT-2's settings `scale_attn_weights=False` and `scale_attn_by_inverse_layer_idx=True` change its logits but not its
weights, so a conversion cannot notice them.

T5's attention (Raffel et al. 2020, arXiv 1910.10683) has no biases and does not divide the logits by √O. It adds a
relative position bias to the logits of every self-attention. The first layer of a stack has it for all layers.
"""

from kmha.interchange.layout import Entry, Ignored, Item, Layout, Refused, Rule, at

_WIDTH = Rule("E = H O", "the heads divide the width of the model among themselves.")
_ONE_WIDTH = "query, key, value and output have the width of the model."
_RESIDUAL = "it belongs to the residual connection around the attention, which is part of `bert-layer`."
_CAUSAL = "it is the causal mask, not a weight; kmha takes it as an argument of the call."


def _norm(name: str, path: str) -> tuple[Item, ...]:
    return Entry(f"{name}.weight", f"{path}/gamma", "E -> E"), Entry(f"{name}.bias", f"{path}/beta", "E -> E")


def _feed_forward(inner: str, outer: str, into: str, out: str) -> tuple[Item, ...]:
    """Return the items of two dense layers. `into` and `out` are the axes of their matrices."""
    return (
        Entry(f"{inner}.weight", "feed_forward/inner/kernel", f"{into} -> E F"),
        Entry(f"{inner}.bias", "feed_forward/inner/bias", "F -> F"),
        Entry(f"{outer}.weight", "feed_forward/outer/kernel", f"{out} -> F E"),
        Entry(f"{outer}.bias", "feed_forward/outer/bias", "E -> E"),
    )


# `torch.nn.Linear` has matrices (out, in).
BERT_ATTENTION: tuple[Item, ...] = (
    *(
        item
        for role in ("query", "key", "value")
        for item in (
            Entry(f"self.{role}.weight", f"{role}/kernel", "(H O) E -> H E O", why=_ONE_WIDTH),
            Entry(f"self.{role}.bias", f"{role}/bias", "(H O) -> H O"),
        )
    ),
    Entry("output.dense.weight", "attention_output/kernel", "E (H O) -> H O E"),
    Entry("output.dense.bias", "attention_output/bias", "E -> E"),
)
_BERT_CROSS = (
    *at(BERT_ATTENTION, "crossattention.", "cross_attention/"),
    *_norm("crossattention.output.LayerNorm", "cross_attention_norm"),
)
BERT_LAYER = (
    *at(BERT_ATTENTION, "attention.", "self_attention/"),
    *_norm("attention.output.LayerNorm", "self_attention_norm"),
    *at(_BERT_CROSS, "", "", ("cross_attention",)),
    *_feed_forward("intermediate.dense", "output.dense", "F E", "E F"),
    *_norm("output.LayerNorm", "feed_forward_norm"),
)


def _gpt2_attention(*roles: str) -> tuple[Item, ...]:
    """Return the items of GPT-2's attention layer. Its matrices are (in, out). `c_attn` packs these roles."""
    query: tuple[Item, ...] = (
        Entry("q_attn.weight", "query/kernel", "E (H O) -> H E O", why=_ONE_WIDTH),
        Entry("q_attn.bias", "query/bias", "(H O) -> H O"),
    )
    return (
        *(() if "query" in roles else query),
        Entry("c_attn.weight", "{P}/kernel", "E (P H O) -> P H E O", packed=roles, why=_ONE_WIDTH),
        Entry("c_attn.bias", "{P}/bias", "(P H O) -> P H O", packed=roles),
        Entry("c_proj.weight", "attention_output/kernel", "(H O) E -> H O E"),
        Entry("c_proj.bias", "attention_output/bias", "E -> E"),
        *(Ignored(name, _CAUSAL) for name in ("bias", "masked_bias")),
    )


GPT2_ATTENTION, GPT2_CROSS_ATTENTION = _gpt2_attention("query", "key", "value"), _gpt2_attention("key", "value")
_GPT2_CROSS = (
    *_norm("ln_cross_attn", "cross_attention_norm"),
    *at(GPT2_CROSS_ATTENTION, "crossattention.", "cross_attention/"),
)
GPT2_LAYER = (
    *_norm("ln_1", "self_attention_norm"),
    *at(GPT2_ATTENTION, "attn.", "self_attention/"),
    *at(_GPT2_CROSS, "", "", ("cross_attention",)),
    *_norm("ln_2", "feed_forward_norm"),
    *_feed_forward("mlp.c_fc", "mlp.c_proj", "E F", "F E"),
)

T5_ATTENTION: tuple[Item, ...] = (
    *(
        Entry(f"{name}.weight", f"{role}/kernel", "(H O) E -> H E O", why=_ONE_WIDTH)
        for name, role in (("q", "query"), ("k", "key"), ("v", "value"))
    ),
    Entry("o.weight", "attention_output/kernel", "E (H O) -> H O E"),
    Refused(
        "relative_attention_bias.weight",
        "it adds a bias that depends on the distance to the logits of this layer and, in T5, of all layers after it. "
        "Without this weight, the rest can be converted, for calls without positions.",
    ),
)

LAYOUTS = (
    Layout(
        "bert-attention",
        "Hugging Face's BertAttention, without the norm of the residual connection",
        (*BERT_ATTENTION, *(Ignored(f"output.LayerNorm.{end}", _RESIDUAL) for end in ("weight", "bias"))),
        (_WIDTH,),
    ),
    Layout("bert-layer", "Hugging Face's BertLayer, with cross-attention or without", BERT_LAYER, (_WIDTH,)),
    Layout("gpt2-attention", "Hugging Face's GPT2Attention: packed, (in, 3 · out)", GPT2_ATTENTION, (_WIDTH,)),
    Layout(
        "gpt2-cross-attention",
        "Hugging Face's GPT2Attention(is_cross_attention=True): key and value packed, (in, 2 · out)",
        GPT2_CROSS_ATTENTION,
        (_WIDTH,),
    ),
    Layout("gpt2-layer", "Hugging Face's GPT2Block, with cross-attention or without", GPT2_LAYER, (_WIDTH,)),
    Layout(
        "t5-attention",
        "Hugging Face's T5Attention: no biases, and logits that are not divided by √O",
        T5_ATTENTION,
        note="T5 adds the relative position bias of a stack's first layer to the logits of every self-attention in the "
        "stack. These weights give T5's output only where it adds none, as in cross-attention.",
        unscaled=True,
    ),
)
