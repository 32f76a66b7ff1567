"""Entries of packages on JAX, TensorFlow and NumPy, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake: a scale by all features
instead of those of a head (the attention of `whiteboxlayer` and `mayini-framework`); a second normalization that reads
the input of the block (`gato-tf`); a mask that only zeroes values (the cross-attention of `flax-gated-linear-rnn`);
distances in place of products (the other attentions of `nmn`); a position that is one more feature (`airontools`);
projections with a rectifier (`keras-attention-block`); scores relative to positions (`bottleneck-transformer-flax`);
axial positions (`axial-positional-embedding` and its version for JAX); layers that wrap those of Haiku (`deepqmc`).
`kboxx`, `rannet`, `keras-attention-block` and `kashgari` need an old Keras. `newton-vision` compiles for minutes, and
`praxis` and `jaxmsst` import packages that no other entry needs. `aether-ml`, `onemoreepoch`, `jax-jynx` and `deciax`
need another Python. Nothing could be downloaded of `keras-gpt-2`, `merlin-models`, `malaya` and `omnizart`. No
attention of this kind was found in `jax-blox`, `astax`, `jaxflow`, `mynet`, `jaxdl`, `jax-toolkit`, `quantax`,
`rnn-jax`, `jax-nerf`, `jaxmarl`, `treex`, `dm-sonnet`, `dnax`, `evorl-jax`, `jaxnasium`, `jax-cddd`, `tensorlayer`,
`polus`, `keras-custom`, `fast-layers`, `dlomix`, `deeptoolkit`, `ddesignerapi`, `neuralspot-edge`, `tiramisu-ml`,
`ym-pure-ml`, `puretorch`, `synapgrad`, `vulpex`, `grnexus`, `nanonet-ml`, `txnet`, `notorch`, `nano-keras`,
`neuralflow-cpu`, `cotangent`, `kaitorch`, `munilagrad` and `torchling`.
"""

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, LENGTH, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

_linear = of("flax-gated-linear-rnn", "flax_gated_linear_rnn.", "jax")
_nmn = of("nmn", "nmn.nnx.layers.attention.", "jax")

ENTRIES: tuple[Entry, ...] = (
    _linear("attention:scaled_dot_product", "attention", mask="attends"),
    _linear(
        "attention:MultiHeadSelfAttention",
        "attention",
        args(d_model=WIDTH, d_h=WIDTH, n_head=HEADS, use_causal_mask=False),
        mask="attends",
    ),
    _linear(
        "attention:MultiHeadSelfAttention",
        "attention",
        args(d_model=WIDTH, d_h=WIDTH, n_head=HEADS, use_causal_mask=True),
        mask="attends",
    ),
    _linear(
        "base_models.sequence_model:SinusoidalPositionalEncoding",
        "embedding",
        args(max_seq_length=LENGTH, emb_dim=WIDTH),
    ),
    Entry("jungrad", "jungrad.nn.layers:_sinusoidal_table", "embedding", "numpy"),
    _nmn("dot_product:dot_product_attention", "attention", mask="attends"),
    _nmn("rotary_yat:precompute_freqs_cis", "embedding"),
    _nmn("rotary_yat:apply_rotary_emb", "embedding"),
    Entry("whiteboxlayer", "whiteboxlayer.extensions.attention:positional_encoding", "embedding", "tensorflow"),
)
