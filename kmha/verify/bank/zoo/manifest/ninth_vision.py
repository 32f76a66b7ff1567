"""Entries of torch packages for tables, cells, genomes, reactions, scenes, images and music.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
sums of queries times sums of keys, because an equation has two letters where it needs one (`crossformer`); heads where
positions should be (the attention of `omegavit`); normalized queries and keys (the large model of `bacformer`, and
`pdetransformer`); gates, and outputs without a projection (`atlasfold`); relative biases and memories among the keys
(`video-vit`); subtracted keys (the other attention of `nerfstudio-gnt`); rows and columns in turn (the layer of
`arc-stack`); positions of one time for each series (`tactis`). The layers of `rxngraphormer` import a compiled package:
its function is listed. `tabforge-ml` has a copy of `tabpfn` and `proteinnpt` one of `fair-esm`. `rin-pytorch` imports
`torchvision`, and `torch-nac` a package that is missing. `opentslm`, `scstate`, `kairos-fm` and `minimal-hubert` need
another Python.
The masks of `arc-stack` must be boolean.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, called, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _with_angles(found: Any) -> Any:
    """Make an attention of bacformer, and call it with rotary angles, as its model does."""
    from bacformer.modeling.modeling_base import precompute_freqs_cis

    def call(layer: Any, x: Any, mask: Any) -> Any:
        output, _ = layer(x, mask, *precompute_freqs_cis(SIZE, x.shape[1]))
        return output

    return called(found(WIDTH, HEADS, 0.0), call)


_bacteria = of("bacformer", "bacformer.modeling.")
_omega = of("omegavit", "omegavit.main:")
_predict = of("predictlm", "predictlm.model:")
_scene = of("nerfstudio-gnt", "GNT.gnt.transformer_network:")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "arc-stack",
        "stack.modules.attention:MultiHeadAttention",
        "attention",
        "torch",
        args(WIDTH, HEADS, 0.0),
        mask="hides",
    ),
    _bacteria("modeling_base:RotarySelfAttention", "attention", _with_angles, mask="attends"),
    _bacteria("modeling_base:apply_rotary_emb", "embedding"),
    _bacteria("modeling_base:precompute_freqs_cis", "embedding"),
    _bacteria("modeling_large:RotaryEmbedding", "embedding", args(SIZE)),
    _bacteria("modeling_large:apply_rotary_emb_torch", "embedding"),
    Entry("livechord-beat-refiner", "livechord_beat_refiner.model:_build_sinusoidal_pos_enc", "embedding", "torch"),
    _scene("Attention", "attention", args(WIDTH, HEADS, 0.0)),
    _scene("Transformer", "encoder", args(WIDTH, INNER, 0.0, HEADS, 0.0), norm="pre"),
    _omega("RotaryEmbedding", "embedding", args(SIZE)),
    _omega("apply_rotary_pos_emb", "embedding"),
    _predict("FlashPreLNAttention", "encoder", args(WIDTH, HEADS, INNER), norm="pre", mask="hides"),
    _predict(
        "FlashPreLNAttention",
        "encoder",
        args(WIDTH, HEADS, INNER, mlp_variant="swiglu", norm_variant="rmsnorm"),
        norm="pre",
        mask="hides",
    ),
    Entry("rxngraphormer", "rxngraphormer.utils:scaled_dot_product_attention", "attention", "torch", mask="attends"),
)
