"""Functions of NumPy arrays in the styles of course notebooks."""

import numpy as np


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def mehrkopf(eingabe, Wq, Wk, Wv, Wo, koepfe):
    parts = [(eingabe @ w).reshape(*eingabe.shape[:2], koepfe, -1).transpose(0, 2, 1, 3) for w in (Wq, Wk, Wv)]
    weights = softmax(parts[0] @ parts[1].swapaxes(2, 3) / np.sqrt(parts[1].shape[-1]))
    return (weights @ parts[2]).transpose(0, 2, 1, 3).reshape(*eingabe.shape[:2], -1) @ Wo


def atencion(consulta, clave, valor, mascara=None):
    """Divides by O, without a root."""
    logits = consulta @ clave.swapaxes(-1, -2) / clave.shape[-1]
    return softmax(logits if mascara is None else np.where(mascara, logits, -1e30)) @ valor


def aufmerksamkeit(wert, anfrage, schluessel, maske):
    """Takes the value first, and a mask in which True hides."""
    logits = anfrage @ schluessel.swapaxes(-1, -2) / np.sqrt(anfrage.shape[-1])
    return softmax(np.where(maske, -1e30, logits)) @ wert


def of_padding(Q, K, V, padding_mask):
    """Takes a mask (B, S) in which 1 is padding, and never `None`."""
    logits = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    return softmax(logits + padding_mask[:, None, :] * -1e9) @ V


def of_added(q, k, v, mask):
    """Takes a mask (B, 1, 1, S) that it adds, and never `None`. It does not scale."""
    return softmax(q @ k.swapaxes(-1, -2) + mask[:, :, :1, :]) @ v


def may_be_causal(q, k, v, causal=False, works=True):
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(k.shape[-1])
    if causal and works:
        logits = np.where(np.tril(np.ones(logits.shape[-2:])) > 0, logits, -1e30)
    return softmax(logits) @ v


def causal_mask(n):
    return np.tril(np.ones((n, n)))


def encodage(longueur, largeur):
    angles = np.arange(longueur)[:, None] / 10000 ** (np.arange(largeur) // 2 * 2 / largeur)
    return np.where(np.arange(largeur) % 2, np.cos(angles), np.sin(angles))


def of_hidden(q, k, v, mask=None):
    """True hides. It does not scale."""
    logits = q @ k.swapaxes(-1, -2)
    return softmax(logits if mask is None else np.where(mask, -1e9, logits)) @ v
