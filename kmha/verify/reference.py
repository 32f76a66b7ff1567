"""Multi-head attention in float64 NumPy, written as loops, to be read beside Vaswani et al. 2017, section 3.2.

Each function below is one step. t runs over query positions, s over key and value positions, and h over heads. The
equations leave out b, which runs over the batch.

| step | equation | shapes |
| --- | --- | --- |
| project | q_th = x_t W_h + b_h; k_sh and v_sh alike, with their own kernels | (B, T, I), (H, I, O) → (B, T, H, O) |
| scores | p_hts = softmax over s of (q_th · k_sh / √O), among the s that t may attend to | → (B, H, T, S) |
| mix | m_th = Σ_s p_hts v_sh | (B, H, T, S), (B, S, H, O) → (B, T, H, O) |
| merge | y_t = Σ_h m_th W^O_h + b^O | (B, T, H, O), (H, O, E) → (B, T, E) |

The gradients follow from these equations by the chain rule, step by step in reverse.

This module imports NumPy alone, because a reference that shared code with what it checks would prove nothing. The
module is slow on purpose.
"""

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def attention(
    query: Any, key: Any, value: Any, weights: Arrays, allowed: Any = None, kept: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the output (B, T, E) and the scores (B, H, T, S) of multi-head attention.

    Args:
        query: Queries (B, T, I).
        key: Keys (B, S, I).
        value: Values (B, S, I).
        weights: Arrays, keyed by the names that `kmha.interchange.canonical` lists. Gate and biases are optional.
        allowed: Boolean mask (B, H, T, S), True where t may attend to s. `None` allows every t to attend to every s.
            A row without any True gives zeros.
        kept: Dropout factors of the scores (B, H, T, S), each 0 or 1 / (1 - rate), or `None` for no dropout.
    """
    steps = _forward(query, key, value, weights, allowed, kept)
    return steps["output"], steps["scores"]


def gradients(
    upstream: Any, query: Any, key: Any, value: Any, weights: Arrays, allowed: Any = None, kept: Any = None
) -> Arrays:
    """Return the gradients of Σ output · upstream with respect to "query", "key", "value" and each of `weights`."""
    steps = _forward(query, key, value, weights, allowed, kept)
    result = {name: np.zeros(np.shape(array)) for name, array in weights.items()}
    dmixed = dgated = _merge_back(np.asarray(upstream, "float64"), steps["gated"], weights, result)
    result["query"] = np.zeros(np.shape(query))
    if "gate" in steps:
        gate = steps["gate"]
        dmixed = dgated * gate
        dgate = dgated * steps["mixed"] * gate * (1 - gate)  # the derivative of a sigmoid σ is σ (1 - σ)
        result["query"] += _project_back("gate", dgate, query, weights, result)
    dq, dk, dv = _attend_back(dmixed, steps)
    result["query"] += _project_back("query", dq, query, weights, result)
    result["key"] = _project_back("key", dk, key, weights, result)
    result["value"] = _project_back("value", dv, value, weights, result)
    return result


def _forward(query: Any, key: Any, value: Any, weights: Arrays, allowed: Any, kept: Any) -> Arrays:
    """Return the results of all steps, keyed by step name."""
    steps: Arrays = {
        "q": _project("query", query, weights),
        "k": _project("key", key, weights),
        "v": _project("value", value, weights),
    }
    (batch, rows, heads, _), columns = steps["q"].shape, steps["k"].shape[1]
    everywhere = np.ones((batch, heads, rows, columns))
    steps["kept"] = everywhere if kept is None else np.asarray(kept, "float64")
    steps["scores"] = _scores(steps["q"], steps["k"], everywhere > 0 if allowed is None else allowed)
    steps["mixed"] = steps["gated"] = _mix(steps["scores"] * steps["kept"], steps["v"])
    if "gate/kernel" in weights:
        steps["gate"] = 1 / (1 + np.exp(-_project("gate", query, weights)))
        steps["gated"] = steps["mixed"] * steps["gate"]
    steps["output"] = _merge(steps["gated"], weights)
    return steps


def _project(role: str, x: Any, weights: Arrays) -> np.ndarray:
    """Return x_p W_h + b_h for every position p and head h: (B, P, I) → (B, P, H, O)."""
    x, kernel = np.asarray(x, "float64"), np.asarray(weights[f"{role}/kernel"], "float64")
    bias = weights.get(f"{role}/bias", np.zeros((kernel.shape[0], kernel.shape[2])))
    heads = np.zeros((*x.shape[:2], kernel.shape[0], kernel.shape[2]))
    for b, p, h in np.ndindex(*heads.shape[:3]):
        heads[b, p, h] = x[b, p] @ kernel[h] + bias[h]
    return heads


def _scores(q: np.ndarray, k: np.ndarray, allowed: Any) -> np.ndarray:
    """Return softmax_s(q_th · k_sh / √O) among the s that t may attend to (equation 1): (B, H, T, S)."""
    (batch, rows, heads, size), columns = q.shape, k.shape[1]
    scores = np.zeros((batch, heads, rows, columns))
    for b, h, t in np.ndindex(batch, heads, rows):
        logits = {s: q[b, t, h] @ k[b, s, h] / math.sqrt(size) for s in range(columns) if allowed[b, h, t, s]}
        largest = max(logits.values(), default=0.0)  # subtracted from every logit, so that no exp overflows
        total = sum(math.exp(logit - largest) for logit in logits.values())
        for s, logit in logits.items():
            scores[b, h, t, s] = math.exp(logit - largest) / total
    return scores


def _mix(scores: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return Σ_s p_hts v_sh: (B, H, T, S), (B, S, H, O) → (B, T, H, O)."""
    batch, heads, rows, columns = scores.shape
    mixed = np.zeros((batch, rows, heads, v.shape[-1]))
    for b, h, t, s in np.ndindex(batch, heads, rows, columns):
        mixed[b, t, h] += scores[b, h, t, s] * v[b, s, h]
    return mixed


def _merge(mixed: np.ndarray, weights: Arrays) -> np.ndarray:
    """Return Concat(m_t1, …, m_tH) W^O + b^O, which is Σ_h m_th W^O_h + b^O: (B, T, H, O) → (B, T, E)."""
    kernel = np.asarray(weights["attention_output/kernel"], "float64")
    output = np.zeros((*mixed.shape[:2], kernel.shape[-1]))
    for b, t in np.ndindex(*mixed.shape[:2]):
        output[b, t] = weights.get("attention_output/bias", 0.0)
        for h in range(mixed.shape[2]):
            output[b, t] += mixed[b, t, h] @ kernel[h]
    return output


def _merge_back(upstream: np.ndarray, gated: np.ndarray, weights: Arrays, result: Arrays) -> np.ndarray:
    """Return the gradient of the merge's input (B, T, H, O). Add the gradients of W^O and b^O to `result`."""
    kernel = np.asarray(weights["attention_output/kernel"], "float64")
    back = np.zeros(gated.shape)
    for b, t, h in np.ndindex(*gated.shape[:3]):
        back[b, t, h] = kernel[h] @ upstream[b, t]
        result["attention_output/kernel"][h] += np.outer(gated[b, t, h], upstream[b, t])
    if "attention_output/bias" in weights:
        result["attention_output/bias"] += upstream.sum(axis=(0, 1))
    return back


def _attend_back(dmixed: np.ndarray, steps: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients dq (B, T, H, O), dk and dv (B, S, H, O), given the gradient of the mixed values."""
    q, k, v, scores, kept = (steps[name] for name in ("q", "k", "v", "scores", "kept"))
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    batch, heads, rows, columns = scores.shape
    for b, h, t in np.ndindex(batch, heads, rows):
        dscore = np.zeros(columns)
        for s in range(columns):
            dscore[s] = kept[b, h, t, s] * (dmixed[b, t, h] @ v[b, s, h])
            dv[b, s, h] += scores[b, h, t, s] * kept[b, h, t, s] * dmixed[b, t, h]
        # For a softmax p of logits z: dz_s = p_s (dp_s - Σ_r p_r dp_r).
        mean = scores[b, h, t] @ dscore
        for s in range(columns):
            dlogit = scores[b, h, t, s] * (dscore[s] - mean) / math.sqrt(q.shape[-1])
            dq[b, t, h] += dlogit * k[b, s, h]
            dk[b, s, h] += dlogit * q[b, t, h]
    return dq, dk, dv


def _project_back(role: str, heads: np.ndarray, x: Any, weights: Arrays, result: Arrays) -> np.ndarray:
    """Return the gradient of a projection's input (B, P, I). Add the gradients of kernel and bias to `result`."""
    x, kernel = np.asarray(x, "float64"), np.asarray(weights[f"{role}/kernel"], "float64")
    back = np.zeros(x.shape)
    for b, p, h in np.ndindex(*heads.shape[:3]):
        back[b, p] += kernel[h] @ heads[b, p, h]
        result[f"{role}/kernel"][h] += np.outer(x[b, p], heads[b, p, h])
        if f"{role}/bias" in weights:
            result[f"{role}/bias"][h] += heads[b, p, h]
    return back
