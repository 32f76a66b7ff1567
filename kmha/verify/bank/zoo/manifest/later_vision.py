"""Entries of torch packages for images, molecules, series and puzzles, chosen last, from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
windows in `bio-attention`, whose causal mask hides a position from itself; a scale by the number of positions in
`time-series-transformer`; `torch-spatiotemporal`, `deepvision-toolkit`, `vision-transformer` and
`decepticonsinalexandria`; shared values in `tft-torch` and `panelformer`; a factor for each head in
`insurance-credibility-transformer`; a normalization of an unbiased deviation (the layers of `transvae`); residual
connections inside the attention (`freerec`). `attentionmechanism` is a copy of a listed package. `vietocr`,
`transformer-implementations`, `self-attention-cv` and `pyhealth` import `torchvision`.
`vit-pytorch-implementation` has the module name of `vit-pytorch`. `yoyodyne` and `tnpml` import `wandb`, `deeptab` a
package that pins more, and `scgpt` and `nmtlab` import `torchtext`.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

DUAL: dict[str, Any] = {"d_model": WIDTH, "n_heads": HEADS, "dff": INNER, "dropout_rate": 0.0}


def _without_options(**settings: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer with an empty namespace of options, so that it takes its defaults."""

    def make(found: Any) -> Any:
        from types import SimpleNamespace

        return found(SimpleNamespace(), WIDTH, INNER, HEADS, dropout=0.0, **settings)

    return make


_astro_config = with_config("astropt.model:GPTConfig", n_embd=WIDTH, n_head=HEADS, block_size=LENGTH)

_astro = of("astropt", "astropt.model:")
_dual = of("dual-attention", "dual_attention.")
_mix = of("torchmix", "torchmix.components.")
_transvae = of("transvae", "transvae.")
_vision = of("vision-transformers", "vision_transformers.models.")

ENTRIES: tuple[Entry, ...] = (
    _astro("SelfAttention", "attention", _astro_config),
    _astro("Block", "encoder", _astro_config, norm="pre"),
    _dual("attention:Attention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _dual(
        "transformer_blocks:EncoderBlock",
        "encoder",
        args(**DUAL, activation="gelu", norm_first=True, norm_type="rmsnorm"),
        norm="pre",
    ),
    _dual(
        "transformer_blocks:DecoderBlock",
        "decoder",
        args(**DUAL, n_heads_cross=HEADS, activation="relu", norm_first=False, causal=True),
        norm="post",
    ),
    _dual("positional_encoding:SinusoidalPositionalEncoding", "embedding", args(WIDTH, dropout=0.0, max_len=LENGTH)),
    _mix("attention.base:Attention", "attention", args(WIDTH, HEADS)),
    _mix("embedding:SinusoidalEmbedding", "embedding", args(WIDTH)),
    _transvae("tvae_util:attention", "attention", mask="attends"),
    _transvae("trans_models:MultiHeadedAttention", "attention", mask="attends"),
    _transvae("trans_models:PositionalEncoding", "embedding", args(WIDTH, 0.0, LENGTH)),
    _vision("mobile_vit:MHSA", "attention"),
    _vision("mobile_vit:TransformerEncoder", "encoder", _without_options(), norm="pre"),
    Entry("berteam", "BERTeam.networks.positional_encoder:ClassicPositionalEncoding", "embedding", "torch"),
    Entry("glucotrace", "glucotrace.model:SinusoidalPositionEncoding", "embedding", "torch", args(WIDTH, LENGTH)),
    Entry("trecover", "trecover.model:PositionalEncoding", "embedding", "torch"),
)
