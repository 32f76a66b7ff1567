"""NumPy functions of public threads, in own words; what was MXNet or CNTK there, too."""

import numpy as np


def softmax(logits, axis=-1):
    powers = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def key_for_value(query, key, value, query_dense, key_dense, value_dense, output_dense):
    """fchollet/deep-learning-with-python-notebooks#261: in the loop over the heads, the scores mix the keys.

    There, the names were also overwritten from head to head; that runs with no weights, so here each has its own.
    """
    heads = []
    for to_query, to_key, to_value in zip(query_dense, key_dense, value_dense, strict=True):
        head_query, head_key, _head_value = query @ to_query, key @ to_key, value @ to_value
        logits = np.einsum("btd,bsd->bts", head_query, head_key) / np.sqrt(to_query.shape[-1])
        heads.append(np.einsum("bts,bsd->btd", softmax(logits), head_key))
    return np.concatenate(heads, axis=-1) @ output_dense.reshape(-1, output_dense.shape[-1])


def tiny_language_model(x, w_q, w_k, w_v, w_o, num_heads):
    """harvard-edge/cs249r_book#1785: a mask of 0 and -inf meets code that takes 1 for allowed and adds (1 - mask)·-1e9.

    What is allowed loses 1e9 as well, and float32 has steps of 64 there: the logits are rounded away.
    """
    batch, length = x.shape[:2]

    def heads(array):
        return array.reshape(batch, length, num_heads, -1).transpose(0, 2, 1, 3).astype(np.float32)

    query, key, value = heads(x @ w_q), heads(x @ w_k), heads(x @ w_v)
    mask = np.triu(np.full((length, length), -np.inf, np.float32), k=1)
    logits = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
    logits = logits + (1 - mask) * np.float32(-1e9)
    mixed = softmax(logits) @ value
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w_o


def divided_by_dimension(query, key, value, mask=None):
    """delzac/cntkx#10 (CNTK): the logits are divided by the dimension, its root is forgotten."""
    logits = query @ np.swapaxes(key, -1, -2) / query.shape[-1]
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    return softmax(logits) @ value


def temporal_fusion(query, key, value, mask=None):
    """awslabs/gluonts#1401 (MXNet): hidden logits become 1e-9, where -1e9 is meant."""
    logits = np.matmul(query, key.swapaxes(-1, -2)) / query.shape[-1] ** 0.5
    if mask is not None:
        logits = np.where(mask, logits, 1e-9)
    scores = softmax(logits)
    return np.matmul(scores, value), scores


def renormalised(query, key, value, mask=None):
    """abisee/pointer-generator#88: masked after the softmax, and every row is divided by its new sum.

    The thread fears sums of less than one: wrongly. But where hidden logits are far larger, nothing is left to divide.
    """
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores = scores / scores.sum(-1, keepdims=True)
    if mask is not None:
        scores = scores * mask
        scores = scores / scores.sum(-1, keepdims=True)
    return scores @ value, scores


def bert_of_graph(query, key, value, w_q, w_k, w_v, w_o):
    """flexflow/flexflow-train#467: the softmax is commented out, and nothing is divided by the root."""
    query, key, value = (np.einsum("bti,hio->bhto", a, w) for a, w in ((query, w_q), (key, w_k), (value, w_v)))
    scores = np.einsum("bhto,bhso->bhts", query, key)
    return np.einsum("bhts,bhso,hoe->bte", scores, value, w_o)
