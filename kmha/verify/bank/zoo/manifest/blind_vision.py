"""Entries of torch packages for images, series, molecules, shapes and robots, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
gates after the attention (`litespecformer`, `tabdpt`); normalized queries and keys with rotary angles in two dimensions
(`codelor-color`); weights for adjacency and distances (`soltrannet`, and the layers of `deepchem` for molecules);
sinusoids of another base (`peptdeep`) or of other frequencies (`encodec`, `multimolecule`, `nanodpo`), or with sines
first, then cosines (`gluonts`); batch normalization (`torchsketch`); a mask of -10,000 (`pretrained-vit-pytorch`); a
learned scale for each feature (the attention of `timesfm`); a normalization of each branch instead of the residual path
(LoFTR in `deepsuite`); a block that starts with cross-attention (`cod-vae`); a scale by the features of all heads, sums
of sines and cosines, and the attention of Informer and of Moirai, as in listed packages (parts of `sktime`); a window
of the past (`encodec`); weights that are not set before a checkpoint is loaded (`vit-prisma`); one block for an encoder
and for cross-attention (`srt-torch`); a positional encoding that fails (`translate-transformer`). The mask of Kronos in
`sktime` always raises an error, because its attention is causal: its entries have none. `basicts`, `torch-ecg`,
`deeplay`, `peptdeep` and `torchsketch` import packages that are missing, some of them compiled, and `rvit` imports
`torchvision`. `molactivity` has tensors of its own.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    SIZE,
    VOCABULARY,
    WIDTH,
    of,
    with_config,
    with_forward,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _alone(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer without its mask, which fails in the package."""

    def make(found: Any) -> Any:
        return with_forward(found(*arguments), lambda self, x: self.layer(x))

    return make


RNA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LENGTH,
}

_robot = of("robomimic", "robomimic.models.transformers:")
_rna = of("multimolecule", "multimolecule.models.rnabert.modeling_rnabert:")
_sktime = of("sktime", "sktime.")

_rna_config = with_config("multimolecule.models.rnabert.configuration_rnabert:RnaBertConfig", **RNA)

ENTRIES: tuple[Entry, ...] = (
    Entry("cod-vae", "cod_vae.torch.modules:SelfAttnBlock", "encoder", "torch", args(WIDTH, HEADS, 2.0), norm="pre"),
    Entry(
        "cortexflowx",
        "cortexflow.brain2text:TextDecoderBlock",
        "decoder",
        "torch",
        args(WIDTH, HEADS, WIDTH),
        norm="pre",
        mask="hides",
    ),
    Entry(
        "deepchem",
        "deepchem.models.torch_models.attention:ScaledDotProductAttention",
        "attention",
        "torch",
        mask="attends",
    ),
    Entry(
        "instanovo", "instanovo.transformer.layers:PositionalEncoding", "embedding", "torch", args(WIDTH, 0.0, LENGTH)
    ),
    Entry("jet-pytorch", "jet_pytorch.jet:Encoder1DBlock", "encoder", "torch", args(WIDTH, INNER, HEADS), norm="pre"),
    _rna("RnaBertSelfAttention", "attention", _rna_config, mask="adds"),
    _rna("RnaBertCrossAttention", "attention", _rna_config, mask="adds"),
    _rna("RnaBertLayer", "encoder", _rna_config, norm="post", mask="adds"),
    _rna("RnaBertEmbeddings", "embedding", _rna_config),
    _robot("CausalSelfAttention", "attention", args(WIDTH, HEADS, LENGTH, 0.0, 0.0)),
    _robot("SelfAttentionBlock", "encoder", args(WIDTH, HEADS, LENGTH, 0.0, 0.0), norm="pre"),
    _sktime("libs.kronos.module:MultiHeadAttentionWithRoPE", "attention", _alone(WIDTH, HEADS)),
    _sktime("libs.kronos.module:TransformerBlock", "encoder", _alone(WIDTH, HEADS, INNER), norm="pre"),
    _sktime("libs.kronos.module:RotaryPositionalEmbedding", "embedding", args(SIZE)),
    _sktime("networks.mvts_transformer:FixedPositionalEncoding", "embedding", args(WIDTH, 0.0, LENGTH)),
    _sktime("networks.mvts_transformer:LearnablePositionalEncoding", "embedding", args(WIDTH, 0.0, LENGTH)),
    Entry("timesfm", "timesfm.torch.transformer:RotaryPositionalEmbedding", "embedding", "torch", args(SIZE)),
    Entry("tisc", "tisc.modules.Transformer:PositionalEncoding", "embedding", "torch", args(WIDTH, 0.0, LENGTH)),
)
