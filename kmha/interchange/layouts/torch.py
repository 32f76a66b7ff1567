"""torch's `MultiheadAttention`, its encoder and decoder layers, their stacks, and `Transformer`.

The attention is packed (one `in_proj_weight`) or separate (with `kdim`, `vdim`). torch's matrices are (out, in); the
transposed layouts have (in, out), as in code that multiplies x @ w. `norm_first`, `layer_norm_eps` (1e-5 in
torch, 1e-6 in kmha) and `activation` are arguments of a layer, not weights.
"""

from kmha.interchange.layout import Entry, Item, Layout, Refused, Rule, at

_EXTRA = "`add_bias_kv` appends a learned key and value to every sequence, and no projection does that."
_SQUARE = Rule("E = H O", "`embed_dim` is the width of all heads together and of the output.")
_WIDTH = (
    "One matrix projects query, key and value, so they have one width and one head size. For a single attention, "
    "`torch-separate` allows other widths of key and value."
)
RULES = (_SQUARE, Rule("I = H O", "the query has `embed_dim` features, the width of all heads together."))
_ROLES = ("query", "key", "value")

_BIASES = (
    Entry("in_proj_bias", "{P}/bias", "(P H O) -> P H O", "bias", _ROLES, "Query, key and value have one head size."),
    Entry("out_proj.bias", "attention_output/bias", "E -> E", "bias"),
    Refused("bias_k", _EXTRA),
    Refused("bias_v", _EXTRA),
)


def _packed(axes: str, out: str) -> tuple[Entry | Refused, ...]:
    return (
        Entry("in_proj_weight", "{P}/kernel", f"{axes} -> P H I O", packed=_ROLES, why=_WIDTH),
        Entry("out_proj.weight", "attention_output/kernel", f"{out} -> H O E"),
        *_BIASES,
    )


def _separate(axes: str, out: str) -> tuple[Entry | Refused, ...]:
    letters = zip(_ROLES, "IJK", strict=True)
    into = (
        Entry(f"{role[0]}_proj_weight", f"{role}/kernel", f"{axes.replace('I', letter)} -> H {letter} O")
        for role, letter in letters
    )
    return (*into, Entry("out_proj.weight", "attention_output/kernel", f"{out} -> H O E"), *_BIASES)


PACKED = _packed("(P H O) I", "E (H O)")
_TORCH = "torch.nn.MultiheadAttention"
_ATTENTIONS = (
    Layout("torch", f"{_TORCH}, packed: in_proj_weight (3 * out, in)", PACKED, RULES),
    Layout("torch-separate", f"{_TORCH} with kdim or vdim: (out, in)", _separate("(H O) I", "E (H O)"), RULES),
    Layout("torch-transposed", f"{_TORCH}, packed, transposed: (in, 3 * out)", _packed("I (P H O)", "(H O) E"), RULES),
    Layout(
        "torch-separate-transposed",
        f"{_TORCH} with kdim or vdim, transposed: (in, out)",
        _separate("I (H O)", "(H O) E"),
        RULES,
    ),
)

_FEED_FORWARD = (
    Entry("linear1.weight", "feed_forward/inner/kernel", "F E -> E F"),
    Entry("linear1.bias", "feed_forward/inner/bias", "F -> F", optional="bias"),
    Entry("linear2.weight", "feed_forward/outer/kernel", "E F -> F E"),
    Entry("linear2.bias", "feed_forward/outer/bias", "E -> E", optional="bias"),
)
_NORM = (Entry("weight", "gamma", "E -> E"), Entry("bias", "beta", "E -> E", optional="bias"))

ENCODER_LAYER = (
    *at(PACKED, "self_attn.", "self_attention/"),
    *_FEED_FORWARD,
    *at(_NORM, "norm1.", "self_attention_norm/"),
    *at(_NORM, "norm2.", "feed_forward_norm/"),
)
DECODER_LAYER = (
    *at(PACKED, "self_attn.", "self_attention/"),
    *at(PACKED, "multihead_attn.", "cross_attention/"),
    *_FEED_FORWARD,
    *at(_NORM, "norm1.", "self_attention_norm/"),
    *at(_NORM, "norm2.", "cross_attention_norm/"),
    *at(_NORM, "norm3.", "feed_forward_norm/"),
)


def _stack(layer: tuple[Item, ...], letter: str, side: str) -> tuple[Item, ...]:
    """Return the layers that `letter` counts and the norm after them, which is optional in torch."""
    layers = at(layer, f"layers.{{{letter}}}.", f"layer_{{{letter}}}/")
    return (*layers, *at(_NORM, "norm.", "norm/", (f"{side} norm",)))


_TRANSFORMER = (
    *at(_stack(ENCODER_LAYER, "n", "encoder"), "encoder.", "encoder/"),
    *at(_stack(DECODER_LAYER, "m", "decoder"), "decoder.", "decoder/"),
)
_ENDS = "torch's stacks begin after the embedding and end before the logits. Convert the weights without it"
_REFUSALS = dict.fromkeys(("embedding/table", "position/table", "logits/kernel", "logits/bias"), _ENDS)


def _layout(name: str, of: str, items: tuple[Item, ...]) -> Layout:
    return Layout(name, f"torch.nn.{of}", items, RULES, _REFUSALS)


LAYOUTS = (
    *_ATTENTIONS,
    _layout("torch-encoder-layer", "TransformerEncoderLayer", ENCODER_LAYER),
    _layout("torch-decoder-layer", "TransformerDecoderLayer", DECODER_LAYER),
    _layout("torch-encoder", "TransformerEncoder, any number of layers", _stack(ENCODER_LAYER, "n", "encoder")),
    _layout("torch-decoder", "TransformerDecoder, any number of layers", _stack(DECODER_LAYER, "n", "decoder")),
    _layout("torch-transformer", "Transformer, any number of layers", _TRANSFORMER),
)
