import collections
import configparser
import inspect
import re
from pathlib import Path

import pytest

from kmha.verify.bank.zoo.entry import HELD_OUT, KINDS, TUNED
from kmha.verify.bank.zoo.manifest import ENTRIES, PACKAGES, WITHOUT_REQUIREMENTS, how_to_install, missing

WIDTH, HEADS, SIZE, INNER, VOCABULARY, BATCH, TIME = 12, 3, 4, 20, 17, 2, 5

# Values of the constructors' arguments, by name.
WIDTHS = """
    dim d_model embed_dim embedding_dim embedding_size hidden_size query_dim n_feat size d_embedding depth_att depth_out
    depth_key_value d_in d_out model_dim n_embd emb_size emb_dim context_dim embed_count num_q_input_channels
    num_kv_input_channels channels input_dim d_hid n_model
"""
SIZES = {
    **dict.fromkeys(WIDTHS.split(), WIDTH),
    **dict.fromkeys(["num_heads", "n_heads", "heads", "nhead", "n_head", "h", "head_count"], HEADS),
    **dict.fromkeys(["d_k", "d_v", "head_dim", "dim_head", "key_size", "value_size"], SIZE),
    **dict.fromkeys(["mlp_dim", "intermediate_size", "dim_feedforward"], INNER),
    **dict.fromkeys(["dropout", "dropout_rate", "dropout_prob", "hidden_dropout_prob", "attn_dropout_prob"], 0.0),
    **dict.fromkeys(["dropout_p", "att_drop", "proj_drop"], 0.0),
    **dict.fromkeys(["max_seq_len", "max_len", "seq_len", "context_length", "block_size", "n_position"], 64),
    **{"n_vocab": VOCABULARY, "hidden_act": "relu", "layer_norm_eps": 1e-5, "bias": True},
}
# Constructors' arguments whose defaults do not go together with a width of 12.
ALWAYS = (
    *("depth_att", "depth_out", "depth_key_value", "d_model", "size", "heads", "num_heads", "n_head"),
    *("hidden_states", "input_ids"),
)
IDS = ("input_ids", "piece_ids", "pos_id")
IDS_AS_X = (
    "EmbeddingsWithPositionalEncoding",
    "EmbeddingsWithLearnedPositionalEncoding",
    "AbsolutePositionalEmbedding",
    "AbEmbeddings",
    "toroidal.models:TextEmbedding",
)
SHAPES = {  # of inputs that are not (B, T, I)
    "layers:FullAttention": dict.fromkeys(("queries", "keys", "values"), (BATCH, TIME, HEADS, SIZE)),
    "blocks:FullAttention": dict.fromkeys(("queries", "keys", "values"), (BATCH, TIME, HEADS, SIZE)),
    "linear_attention:FullAttention": dict.fromkeys(("queries", "keys", "values"), (BATCH, TIME, HEADS, SIZE)),
    "ch03:SelfAttention_v": {"x": (TIME, WIDTH)},
    "palm_rlhf_pytorch": {"q": (BATCH, HEADS, TIME, SIZE)},
}
SHAPES |= {
    "attention:DotAttention": dict.fromkeys("QKV", (BATCH, TIME, SIZE)),
    "ding.torch_utils.network.transformer:ScaledDot": dict.fromkeys("qkv", (BATCH, HEADS, TIME, SIZE)),
    "model:PositionEmbs": {"x": (BATCH, 64, WIDTH)},
}
HEADS_FIRST = ("ding.torch_utils.network.transformer:ScaledDot",)  # entries whose inputs are all (B, H, T, S)
SHAPES["palm_rlhf_pytorch"] |= dict.fromkeys("kv", (BATCH, TIME, SIZE))
# Arguments that have a default, and are needed.
NEEDED = {
    "BertCrossAttention": ["encoder_hidden_states"],
    "x_transformers:Decoder": ["context"],
    "torchtune.modules:MultiHeadAttention": ["y"],
    "TransformerCrossAttentionLayer": ["encoder_input"],
    "modeling_distilbert:TransformerBlock": ["attn_mask"],
    "onmt.decoders": ["layer_in", "enc_out", "src_pad_mask", "tgt_pad_mask"],
    "core.modules:CrossAttentionLayer": ["x_q", "x_kv"],
    "core.modules:CrossAttention": ["x_kv"],
    "core.modules:SelfAttentionLayer": ["x"],
    "tabicl._model.layers:MultiheadAttentionBlock": [],
    "tabicl._model.layers:MultiheadAttention": ["key", "value"],
    "parlai.agents.transformer.modules:MultiHeadAttention": ["mask"],
}
# Shapes of masks that must not be `None`.
MASKS = {
    "pytorch_transformers.modeling_xlm": (BATCH, TIME),
    "pytorch_transformers.modeling_distilbert": (BATCH, TIME),
    "min_dalle": (BATCH, 1, 1, TIME),
    "onmt.decoders": (BATCH, 1, TIME),
    "parlai.agents.transformer.modules:MultiHead": (BATCH, TIME),
    "parlai.agents.transformer.modules:Transformer": (BATCH, TIME),
    "bert4rec.model": (BATCH, TIME),
}


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # a function in C
        return ["query", "key", "value"]
    some = [each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return [each.name for each in some if each.default is each.empty or each.name in ALWAYS]


def torch_inputs(entry, function):
    """Return random inputs for the required arguments of a torch function."""
    import torch

    given = dict(entry.options.get("arguments", {}))
    shapes = next((shapes for where, shapes in SHAPES.items() if where in entry.where), {})
    needed = next((names for where, names in NEEDED.items() if where in entry.where), [])
    for name in [*parameters(function), *needed]:
        if name in given:
            continue
        if name in SIZES:
            given[name] = SIZES[name]
        elif "compression" in name:
            given[name] = None
        elif "mask" in name:
            shape = next((shape for where, shape in MASKS.items() if where in entry.where), None)
            given[name] = torch.full(shape, entry.mask == "attends") if shape else None
            given[name] = torch.zeros(1, 1, 1, 1) if entry.mask == "adds" else given[name]
        elif name in IDS or (name in ("x", "src") and entry.where.endswith(IDS_AS_X)):
            given[name] = torch.randint(VOCABULARY, (BATCH, TIME))
        else:
            given[name] = torch.randn(*shapes.get(name, (BATCH, TIME, WIDTH)))
    return given


@pytest.fixture
def installed(request):
    absent = missing([request.getfixturevalue("entry").package])
    if absent:
        pytest.skip(how_to_install(absent))


def label(entry):
    return f"{entry.package}-{entry.where.partition(':')[2]}-{entry.norm or entry.kind}"


@pytest.mark.zoo
@pytest.mark.filterwarnings("ignore")  # of the packages, about each other
@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_an_entry_is_made(entry, installed):
    made = entry.made()
    assert callable(made)
    assert entry.make is not None or made is entry.load()


@pytest.mark.zoo
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.framework == "torch"], ids=label)
def test_a_torch_entry_runs_and_mixes_positions(entry, installed):
    import torch

    torch.manual_seed(0)
    layer = entry.made()
    if isinstance(layer, type):
        layer = layer(**{name: SIZES[name] for name in parameters(layer)})
    is_module = isinstance(layer, torch.nn.Module)
    layer = layer.eval() if is_module else layer
    for parameter in layer.parameters() if is_module else ():
        torch.nn.init.normal_(parameter, std=0.5)  # some are zero at first, so that the output is, too
    function = type(layer).forward if is_module else layer
    given = torch_inputs(entry, function)
    given.pop("self", None)
    found = inspect.signature(function).parameters.values() if is_module else ()
    in_order = any(each.kind is each.VAR_POSITIONAL for each in found)
    if entry.kind == "decoder" and any(each.name == "cross_attention_src" for each in found):
        given["cross_attention_src"] = torch.randn(BATCH, TIME, WIDTH)

    def call(given):
        copies = {name: each.clone() if hasattr(each, "clone") else each for name, each in given.items()}
        with torch.no_grad():
            result = layer(*copies.values()) if in_order else layer(**copies)
        result = result[0] if isinstance(result, tuple) else result
        return result if result.ndim > 2 else result[None]

    def by_position(array):
        return array.transpose(1, 2) if entry.where.startswith(HEADS_FIRST) else array

    output = call(given)
    assert output.isfinite().all()
    torch.testing.assert_close(call(given), output)
    if entry.kind == "embedding":
        assert output.shape[-1] == WIDTH
        return
    floats = [name for name, each in given.items() if getattr(each, "ndim", 0) >= 2 and "mask" not in name]
    for name in floats:
        given[name] = given[name].clone()
        batch = given[name] if given[name].ndim > 2 else given[name][None]
        by_position(batch)[:1, :1, ..., 0] += 1.0
    changed = by_position(call(given) - output).abs().flatten(2).amax(-1) > 1e-6
    assert changed.sum() > 1


def test_the_zoo_is_large_enough():
    assert len(ENTRIES) >= 100
    assert len(PACKAGES) >= 30


def test_each_half_has_packages_of_its_own():
    packages = {half: {entry.package for entry in ENTRIES if entry.half == half} for half in (TUNED, HELD_OUT)}
    assert packages[TUNED] & packages[HELD_OUT] == set()
    assert len(packages[HELD_OUT]) >= 10
    assert sum(entry.half == HELD_OUT for entry in ENTRIES) >= 30
    assert max(collections.Counter(entry.package for entry in ENTRIES if entry.half == HELD_OUT).values()) <= 11


def test_no_entry_is_listed_twice():
    listed = collections.Counter(
        (entry.where, entry.norm, str(entry.options), how_it_is_made(entry.make)) for entry in ENTRIES
    )
    assert [each for each, count in listed.items() if count > 1] == []


def how_it_is_made(make):
    return "" if make is None else f"{make.__qualname__} {inspect.getclosurevars(make).nonlocals}"


def test_every_entry_is_described_in_known_words():
    for entry in ENTRIES:
        assert entry.kind in KINDS
        assert entry.framework in ("torch", "keras", "tensorflow", "jax", "numpy")
        assert entry.norm in ("", "pre", "post")
        assert entry.mask in ("", "attends", "hides", "adds")
        assert entry.norm or entry.kind in ("attention", "embedding")


def test_what_is_missing_is_named_with_the_command_that_installs_it():
    assert missing(["numpy", "no-such-package"]) == ("no-such-package",)
    assert how_to_install(["no-such-package"]).endswith("pip install no-such-package")
    assert how_to_install(["rtdl"]).endswith("pip install --no-deps rtdl")


def test_the_extra_lists_every_package():
    text = configparser.ConfigParser()
    text.read(Path(__file__).parents[4] / "setup.cfg")
    extras = dict(text["options.extras_require"])
    required = "\n".join(extras[name] for name in ("zoo", "jax", "torch", "flax")) + text["options"]["install_requires"]
    listed = set(re.findall(r"^ *([a-z0-9-]+)", required, re.MULTILINE))
    assert set(PACKAGES) - listed - set(WITHOUT_REQUIREMENTS) == set()
