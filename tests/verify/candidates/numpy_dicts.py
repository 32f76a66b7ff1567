"""Functions that read their weights from dicts, as in small language models in NumPy."""

import numpy as np


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def norm(x, g, b, eps=1e-5):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def affine(x, w, b):
    return x @ w + b


def network(x, c_fc, c_proj):
    return affine(np.maximum(affine(x, **c_fc), 0), **c_proj)


def heads(x, count, hidden):
    query, key, value = (np.split(each, count, axis=-1) for each in np.split(x, 3, axis=-1))
    mixed = [softmax(q @ k.T / np.sqrt(q.shape[-1]) - hidden) @ v for q, k, v in zip(query, key, value, strict=True)]
    return np.concatenate(mixed, axis=-1)


def attend(x, c_attn, c_proj, n_head):
    hidden = (1 - np.tri(len(x))) * 1e10
    return affine(heads(affine(x, **c_attn), n_head, hidden), **c_proj)


def attend_without_scale(x, c_attn, c_proj, n_head):
    x = affine(x, **c_attn)
    query, rest = np.split(x, [x.shape[-1] // 3], axis=-1)
    x = np.concatenate([query * np.sqrt(query.shape[-1] / n_head), rest], axis=-1)
    return affine(heads(x, n_head, (1 - np.tri(len(x))) * 1e10), **c_proj)


def block(x, mlp, attn, ln_1, ln_2, n_head):
    x = x + attend(norm(x, **ln_1), **attn, n_head=n_head)
    return x + network(norm(x, **ln_2), **mlp)


def block_without_residual(x, mlp, attn, ln_1, ln_2, n_head):
    x = attend(norm(x, **ln_1), **attn, n_head=n_head)
    return x + network(norm(x, **ln_2), **mlp)


def with_one_dict(x, params, num_heads):
    """Reads dicts in one dict, and passes one of them on."""
    first, second = params["ln1"], params["ffn"]
    x = norm(x + from_keys(x, params["attn"], num_heads), params["ln1"]["gamma"], first["beta"])
    inner = np.maximum(x @ params["ffn"]["W1"] + params["ffn"]["b1"], 0)
    return norm(x + inner @ params["ffn"]["W2"] + second["b2"], params["ln2"]["gamma"], params["ln2"]["beta"])


def from_keys(x, params, num_heads):
    packed = np.concatenate([x @ params["Wq"], x @ params["Wk"] + params["bk"], x @ params["Wv"]], axis=-1)
    return heads(packed, num_heads, 0) @ params["Wo"]


def with_unknown_names(x, params, num_heads):
    return heads(x @ params["Wqkv"], num_heads, 0) @ params["Wo"] * params["colour"]


def with_states(params, x, num_heads, cache=None, state=None, masks=None):
    """Takes other dicts too, which hold no weights."""
    if state is not None:
        state["step"] += 1
    packed = np.concatenate([x @ params["Wq"], x @ params["Wk"], x @ params["Wv"]], axis=-1)
    mixed = heads(packed, num_heads, 0 if masks is None else masks["causal"])
    return (mixed if cache is None else mixed + cache["k"] + cache["v"]) @ params["Wo"]


class Product:
    __hash__ = None

    def __call__(self, x, w):
        return x @ w


product = Product()


def with_an_object(params, x, num_heads):
    block = params["block"]
    attn = block["attn"]
    packed = np.concatenate([product(x, attn["Wq"]), product(x, attn["Wk"]), product(x, attn["Wv"])], axis=-1)
    return product(heads(packed, num_heads, 0), attn["Wo"])


def one_key_head(query, key, value, num_heads, scaled):
    batch, length, width = query.shape
    query = query.reshape(batch, length, num_heads, -1).transpose(0, 2, 1, 3)
    logits = query @ key[:, None].swapaxes(2, 3)
    scores = softmax(logits / np.sqrt(key.shape[-1]) if scaled else logits)
    return (scores @ value[:, None]).transpose(0, 2, 1, 3).reshape(batch, length, width)


def multi_query(weights, x, num_heads):
    """One key and one value for all heads."""
    mixed = one_key_head(x @ weights["w_q"], x @ weights["w_k"], x @ weights["w_v"], num_heads, True)
    return mixed @ weights["w_o"]


def without_scale(weights, x, num_heads):
    """Multi-query attention."""
    mixed = one_key_head(x @ weights["w_q"], x @ weights["w_k"], x @ weights["w_v"], num_heads, False)
    return mixed @ weights["w_o"]


def with_two_dicts(weights, parameters, x, num_heads):
    """One of several dicts is called as the one that kmha makes."""
    mixed = heads(x @ weights["w_qkv"] + parameters["b_qkv"], num_heads, 0)
    return mixed @ weights["w_o"]
