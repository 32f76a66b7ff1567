"""Read what a candidate's docstrings and comments say about its masks."""

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.documentation import masks, meanings_of_mask, stated


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("x = y  # (1 - mask) * -inf computes 0 * -inf = NaN at allowed places", None),
        ("mask: bool (N, L), True at padded positions", "hides"),
        ("mask: (B, T), 1 for tokens to attend to, 0 for padding", "attends"),
        ("mask: 0 where attention is not allowed", "attends"),
        ("mask: True where attention is not allowed", "hides"),
        ("mask: 1 for tokens that are **not masked**, 0 for tokens that are **masked**", "attends"),
        ("mask: [b, t] boolean; False = padding", "attends"),
        ("mask: a True value says that the position of the key will be ignored", "hides"),
        ("weights = weights.where(mask == 0, 0)  # 0 means padding", "attends"),
        ("mask: where to attend", None),
        ("mask: True or False, for padding and for tokens", None),
        ("mask.masked_fill(mask == 0, -1e9), if 0 is real", "hides"),
        ("other: 1 is padding", None),
    ],
)
def test_what_a_line_says(line, meaning):
    assert next(iter(stated([line], "mask")), None) == meaning


def hides_by_comment(query, key, value, mask=None):  # mask (B, S), True at padding
    return attend(query, key, value, None if mask is None else ~mask[:, None])


def attends_against_comment(query, key, value, mask=None):  # mask (B, S), True at padding
    return attend(query, key, value, None if mask is None else mask[:, None])


def attends_without_comment(query, key, value, key_padding_mask=None):
    return attend(query, key, value, None if key_padding_mask is None else key_padding_mask[:, None])


def attend(query, key, value, allowed):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    logits = logits if allowed is None else np.where(allowed, logits, -1e9)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ value


def test_what_the_code_says_decides():
    assert meanings_of_mask(hides_by_comment, "mask") == ("hides",)
    assert "Is that meant?" not in str(diagnose(hides_by_comment))
    found = diagnose(attends_against_comment)
    assert found.ids == ("mask-inverted",)
    assert "a comment says that True hides in `mask`" in " ".join(str(found).split())
    assert "Right, if True attends in `key_padding_mask`" in " ".join(str(diagnose(attends_without_comment)).split())


def test_an_argument_is_a_mask_if_a_docstring_says_what_true_means():
    def attend(query, memory, pads=None, colour=None, seen=None):
        """seen: True for keys to attend to

        pads: True for padding
        colour: True or False
        """

    assert masks(attend, ["pads", "colour", "seen"]) == {"padding": "pads", "mask": "seen"}
