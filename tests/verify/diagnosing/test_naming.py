import pytest

from kmha.verify.diagnosing import naming


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("q", "query"),
        ("queries", "query"),
        ("x", "self"),
        ("enc_output", "memory"),
        ("attn_mask", "mask"),
        ("look_ahead_mask", "look_ahead"),
        ("is_causal", "causal"),
        ("key_padding_mask", "padding"),
        ("self_attn_padding_mask", "padding"),
        ("num_heads", "heads"),
        ("nHead", "heads"),
        ("key_dim", "size"),
        ("d_model", "width"),
        ("fully_connected_dim", "inner"),
        ("return_attention_scores", "scores"),
        ("layernorm_eps", "epsilon"),
        ("query_input", "query"),
        ("to_tensor", "memory"),
        ("encoder_representation", "memory"),
        ("self_mask", "mask"),
        ("dim_per_head", "size"),
        ("d_inner_hid", "inner"),
        ("colour", None),
    ],
)
def test_arguments(name, part):
    assert naming.argument(name) == part


def test_no_name_has_two_roles():
    names = [name for names in naming.ARGUMENTS.values() for name in set(names.split())]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == set(), "each of these would be whichever part comes last"


def test_a_size_is_the_width_unless_something_else_is():
    assert naming.roles_of(["size", "num_heads"])["width"] == "size"
    assert naming.roles_of(["size", "d_model"])["width"] == "d_model"
    assert "width" not in naming.roles_of(["query", "key", "value", "size"])


def test_first_name_of_a_role_counts():
    assert naming.roles_of(["query", "q", "num_heads"]) == {"query": "query", "heads": "num_heads"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("to_key_values.weight", ("key_value", False)),
        ("to_queries_keys_values.bias", ("packed", True)),
        ("to_kvs.kernel", ("key_value", False)),
        ("wq", ("query", False)),
        ("mat_q", ("query", False)),
        ("W_k.weight", ("key", False)),
        ("attention/value_dense/kernel", ("value", False)),
        ("self_attn.out_proj.bias", ("attention_output", True)),
        ("b_q", ("query", True)),
        ("q_linear.bias", ("query", True)),
        ("c_attn.weight", ("packed", False)),
        ("in_proj_bias", ("packed", True)),
        ("to_qkv.weight", ("packed", False)),
        ("dense_4/kernel", (None, False)),
    ],
)
def test_weights(path, found):
    assert naming.weight(path) == found
