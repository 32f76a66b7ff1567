"""Entries of torch packages for images, series, molecules, proteins and physics, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
relative biases (`deep-rapm`, `alphagenome-pt`); heads that are mixed with positions (`torch-timeseries`); rotary
positions of half of the features (`matcha-tts`); attention over cuboids (`earthformer`), over windows (`widit`), over
wavelets (`waveletvit`) or over channels (`pylocron`); sinusoids whose cosines have other frequencies than their sines
(`pytorch-wrapper`). `deepmirt` and `tahoe-x1` keep the layers of torch, `xuance` has a copy of `vit-pytorch` and
`unirec` one of `recbole`. `cortex-mae` and `slg-nimrod` import `timm`, which imports `torchvision`, and `bonenet`,
`deepts-forecasting` and `transformerocr` import it too. `esm-efficient` and `spatialformer` are made for
FlashAttention. All of `clay-foundation-model` is in a package that is called `src`. `scageclock` and `plantbgc-demo`
need another Python. `pytorch-wrapper` imports `hyperopt`. Where the queries of `torch-molecule` are masked, they attend
to all keys.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, VOCABULARY, WIDTH, config, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _molgpt(found: Any) -> Any:
    return found(config("torch_molecule.generator.molgpt.gpt:GPTConfig", **MOLGPT))


MOLGPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_len": LENGTH,
    "num_task": 0,
    "scaffold_maxlen": 0,
    "num_head": HEADS,
    "hidden_size": WIDTH,
}
VPLM: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "attn_impl": "naive",
}

_diffusion = of("stable-diffusion-pytorch", "stable_diffusion_pytorch.attention:")
_kappa = of("kappamodules", "kappamodules.")
_molecule = of("torch-molecule", "torch_molecule.")
_thulium = of("thulium-htr", "thulium.models.sequence.transformer_heads:")
_vplm = of("vplm", "vplm.models.vplm.modeling_transformer:")
_wave = of("wavedl", "wavedl.models.vit:")

_vplm_config = with_config("vplm.models.vplm.configuration_transformer:TransformerConfig", **VPLM)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "azula",
        "azula.nn.attention:MultiheadSelfAttention",
        "attention",
        "torch",
        args(WIDTH, attention_heads=HEADS, qk_norm=False),
        mask="attends",
    ),
    Entry(
        "deepecgkit",
        "deepecgkit.models.layers:PositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, LENGTH, 0.0),
    ),
    _kappa("attention:DotProductAttention1d", "attention", args(WIDTH, HEADS), mask="attends"),
    _kappa("attention:PerceiverAttention1d", "attention", args(WIDTH, num_heads=HEADS), mask="attends"),
    _kappa("vit:VitBlock", "encoder", args(WIDTH, HEADS, INNER), norm="pre"),
    _kappa("vit:VitBlock", "encoder", args(WIDTH, HEADS, INNER, use_flash_attention=False), norm="pre"),
    Entry("m6aformer", "m6aformer.model:SinusoidalPositionalEncoding", "embedding", "torch", args(WIDTH, LENGTH)),
    Entry("molgen", "molgen.vae:PositionalEncoding", "embedding", "torch", args(WIDTH, LENGTH)),
    _diffusion("SelfAttention", "attention", args(HEADS, WIDTH)),
    _diffusion("CrossAttention", "attention", args(HEADS, WIDTH, WIDTH)),
    _thulium("SinusoidalPositionalEncoding", "embedding", args(WIDTH, LENGTH, 0.0)),
    _thulium("LearnablePositionalEncoding", "embedding", args(WIDTH, LENGTH, 0.0)),
    _molecule("nn.attention:AttentionWithNodeMask", "attention", args(WIDTH, HEADS), mask="attends"),
    _molecule("generator.molgpt.gpt:Block", "encoder", _molgpt, norm="pre"),
    _vplm("SelfAttention", "attention", _vplm_config, mask="adds"),
    _vplm("TransFormerLayer", "encoder", _vplm_config, norm="pre", mask="adds"),
    _wave("MultiHeadAttention", "attention", args(WIDTH, HEADS)),
    _wave("TransformerBlock", "encoder", args(WIDTH, HEADS), norm="pre"),
)
