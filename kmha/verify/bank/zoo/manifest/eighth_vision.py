"""Entries of torch packages for series, molecules, proteins, sets and physics, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by all features instead of those of a head (`molsetrep`); gates (`alphafold2-pytorch`), edges (`igfold-pytorch`)
or learned keys (`diffusion-pytorch-lib`) inside of the attention; normalized queries and keys beside the feed-forward
network (`ccpfn`); two groups of tokens of which one is not attended to (`brainpfn`); attention over channels and
windows (`spach-transformer`), or without residual connections (`spatialmst`); dropout that is active at inference
(`geoml-presto`); positions of keys that are added to the values, and a bias inside of the scale of a normalization
(`ane-transformers`); masks that are not used (the causal attention of `matra-genoa`, the attention of `nnts`, the
decoder for inference of `anarcii`); one position for all (`sequence-models`), positions that depend on what is padding
(`moltx`), and sinusoids of other frequencies (`transformer-dia`, `lbster`, the genomic ones of `cpgpt`). A positional
encoding of `evodiff` mixes examples and positions. The blocks that `minerva-dna` took from RiNALMo add the normalized
input instead of the input itself. `matra-genoa` and `moftransformer` import `pymatgen`, `celldiff` `scanpy`,
`transtimegrad` `gluonts`, `cpgpt` `lifelines`, and `maest-infer` `torchaudio`. `sstr` loads weights from a hub when it
is imported. The module of `mist-vae` is called `model`.
The attention of `anarcii` and `clinical-tabular` is torch's, in blocks of their own. The masks of
`universal-set-transformers` are how often a set has each element.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, config, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _physical(*before: Any) -> Any:
    """Return a function that makes a module of trphysx from the settings that it reads, and scales its scores."""
    return lambda found: found(*before, LENGTH, config("types:SimpleNamespace", **PHYSICAL), scale=True)


def _sequence(found: Any, **normalization: Any) -> Any:
    """Make an encoder layer of sequifier from the settings that it reads."""
    parts = {name: config("types:SimpleNamespace", **settings) for name, settings in SEQUENCE.items()}
    parts["normalization"] = config("types:SimpleNamespace", **normalization)
    architecture = config("types:SimpleNamespace", **parts, dim_model=WIDTH, dropout=0.0, max_context_length=LENGTH)
    return found(architecture)


AURORA: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "dropout_rate": 0.0}
MINERVA: dict[str, Any] = {"dim": WIDTH, "heads": HEADS, "vocab_size": VOCABULARY, "swiglu_multiple_of": 4}
PHYSICAL: dict[str, Any] = {
    "n_embd": WIDTH,
    "n_head": HEADS,
    "attn_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
}
SEQUENCE: dict[str, dict[str, Any]] = {
    "attention": {"n_heads": HEADS, "n_kv_heads": None, "type": "mha", "output_projection": True},
    "feed_forward": {"dim": INNER, "activation": "gelu"},
    "position_encoding": {"type": "learned", "theta": 10_000.0},
}

_anarcii = of("anarcii", "anarcii.classifii.model:")
_aurora = of("aurorax-model", "aurorax.")
_luca = of("lucagplm", "lucagplm.modeling_lucagplm:")
_minerva = of("minerva-dna", "minerva.modeling_minerva:")
_rinalmo = of("minerva-dna", "minerva.vendor_rinalmo.")
_physics = of("trphysx", "trphysx.transformer.")
_sequifier = of("sequifier", "sequifier.model.layers:")
_ust = of("universal-set-transformers", "ust.modules:")

_aurora_config = with_config("aurorax.configuration_aurorax:AuroraConfig", **AURORA)
_minerva_config = with_config("minerva.modeling_minerva:MinervaConfig", **MINERVA)

ENTRIES: tuple[Entry, ...] = (
    _anarcii("EncoderLayer", "encoder", args(WIDTH, HEADS, INNER, 0.0, "cpu"), norm="post", mask="hides"),
    _anarcii("DecoderLayer", "decoder", args(WIDTH, HEADS, INNER, 0.0, "cpu"), norm="post", mask="hides"),
    _aurora("modeling_aurorax:scaled_dot_product_attention", "attention", mask="hides"),
    _aurora("modeling_aurorax:AuroraAttention", "attention", _aurora_config, mask="hides"),
    _aurora(
        "modeling_aurorax:AuroraAttention",
        "attention",
        lambda found: found(config("aurorax.configuration_aurorax:AuroraConfig", **AURORA), use_rope=True),
        mask="hides",
    ),
    _aurora("utils:apply_rope", "embedding"),
    Entry(
        "clinical-tabular",
        "clinical_tabular.models.ft_transformer:TransformerEncoderBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS, INNER, 0.0),
        norm="pre",
    ),
    Entry("evodiff", "evodiff.model:PositionalEncoding1D", "embedding", "torch", args(WIDTH, LENGTH)),
    _luca("LucaGPLMMultiheadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _luca(
        "LucaGPLMMultiheadAttention",
        "attention",
        args(WIDTH, HEADS, self_attention=True, use_rotary_embeddings=True),
        mask="hides",
    ),
    _luca(
        "LucaGPLMTransformerLayer",
        "encoder",
        args(WIDTH, INNER, HEADS, add_bias_kv=False),
        norm="pre",
        mask="hides",
    ),
    _minerva("RotaryEmbedding", "embedding", args(SIZE)),
    _minerva("Attention", "attention", _minerva_config),
    _minerva("TransformerBlock", "encoder", _minerva_config, norm="pre"),
    _rinalmo("attention:dot_product_attention", "attention", mask="hides"),
    _rinalmo(
        "attention:MultiHeadAttention", "attention", args(WIDTH, HEADS, use_rot_emb=False, bias=True), mask="hides"
    ),
    _rinalmo("attention:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="hides"),
    _rinalmo("rope:RotaryPositionEmbedding", "embedding", args(SIZE)),
    Entry("nnts", "nnts.torch.models.timesnet:PositionalEmbedding", "embedding", "torch", args(WIDTH, LENGTH)),
    Entry(
        "odeformer",
        "odeformer.model.transformer:MultiHeadAttention",
        "attention",
        "torch",
        args(HEADS, WIDTH, WIDTH, 0.0, False),
        mask="attends",
    ),
    Entry(
        "protein-glm",
        "protein_glm.protein_glm:Attention",
        "attention",
        "torch",
        args(WIDTH, dim_head=SIZE, heads=HEADS),
    ),
    _sequifier("RotaryEmbedding", "embedding", args(SIZE, LENGTH)),
    _sequifier("SelfAttention", "attention", args(WIDTH, HEADS, None, "mha", 0.0, LENGTH), mask="attends"),
    _sequifier("SelfAttention", "attention", args(WIDTH, HEADS, 1, "mqa", 0.0, LENGTH, use_rope=True), mask="attends"),
    _sequifier(
        "SequifierEncoderLayer",
        "encoder",
        lambda found: _sequence(found, type="rmsnorm", norm_first=True),
        norm="pre",
        mask="attends",
    ),
    _sequifier(
        "SequifierEncoderLayer",
        "encoder",
        lambda found: _sequence(found, type="layernorm", norm_first=False),
        norm="post",
        mask="attends",
    ),
    Entry("tecsas", "TECSAS.TECSAS:PositionalEncoding", "embedding", "torch", args(WIDTH, 0.0, LENGTH)),
    _physics("attention:MaskedAttention", "attention", _physical(WIDTH), mask="adds"),
    _physics("phys_transformer_gpt2:Block", "encoder", _physical(), norm="pre", mask="adds"),
    _ust("MultiheadSetAttention", "attention", args(WIDTH, HEADS), mask="attends"),
    _ust("SelfSetAttentionBlock", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="attends"),
    _ust(
        "SelfSetAttentionBlock",
        "encoder",
        args(WIDTH, HEADS, INNER, 0.0, norm_first=False),
        norm="post",
        mask="attends",
    ),
)
