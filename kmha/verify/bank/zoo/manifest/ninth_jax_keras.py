"""Entries of packages on JAX, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by the features instead of their root (`kattention`); masks that are ignored (`easyrec-python`); angles in
another order than the features that they turn (`rotary-embedding-tensorflow`); a softmax without a query
(`keras-attention`); sinusoids with the timescales of tensor2tensor, for one position alone (`gemma-llm`); positions of
the exact length alone (`transformer-in-transformer-flax`); a tree of positions (`circuit-transformer`, whose layers are
those of `tf-models-official`). `nextgenjax` loads models from a hub, `jax-image-models` imports kernels for
accelerators, and `keras-nac` a package that is missing. `zlynx`, `metoryx`, `sbgm`, `dewml`, `jaxglm`,
`flax-vision-models`, `toynet-ml` and `tensorflow-engram` need another Python. No attention was found in `pydynet`,
`jaxkit`, `jaxzoo`, `jaxtorch`, `hyper-nn`, `matchax`, `flax-former`, `filmtrfkeras`, `keras-gpt`, `vit-tf2`,
`skeraton`, `neograd`, `knoxtinytorch`, `minitorch`, `novagrad` and `kerasn`, and in no package of NumPy that
is not listed.
The layers of `gemma-llm` need positions and a mask, and either as many heads of keys as of queries, or one.
"""

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

_gemma = of("gemma-llm", "gemma.", "jax")

ENTRIES: tuple[Entry, ...] = (
    _gemma(
        "modules:Attention",
        "attention",
        args(num_heads=HEADS, num_kv_heads=HEADS, features=WIDTH, head_dim=SIZE),
        mask="attends",
    ),
    _gemma(
        "modules:Attention",
        "attention",
        args(num_heads=HEADS, num_kv_heads=1, features=WIDTH, head_dim=SIZE),
        mask="attends",
    ),
    _gemma(
        "modules:Block",
        "encoder",
        args(num_heads=HEADS, num_kv_heads=HEADS, embed_dim=WIDTH, head_dim=SIZE, hidden_dim=INNER),
        norm="pre",
        mask="attends",
    ),
    _gemma(
        "modules:Block",
        "encoder",
        args(num_heads=HEADS, num_kv_heads=1, embed_dim=WIDTH, head_dim=SIZE, hidden_dim=INNER),
        norm="pre",
        mask="attends",
    ),
    _gemma("positional_embeddings:apply_rope", "embedding"),
)
