"""The mask makers of the course. True means *attend*, as everywhere here.

Where your course's masks have 1 for what is hidden, pass `mask == 0` to these layers.
"""

from typing import Any

from kmha.core import masks


def create_padding_mask(token_ids: Any, pad_id: int = 0) -> Any:
    """(B, 1, S), boolean: False at padding, for token ids (B, S); broadcasts over the queries.

    The encoder's mask, and the decoder's `padding_mask` too, come from the *source* ids: both attend to the source.

    >>> import numpy as np
    >>> print(np.array(create_padding_mask(np.array([[7, 6, 0]]))))
    [[[ True  True False]]]
    """
    return masks.padding(token_ids, pad_id)


def create_look_ahead_mask(sequence_length: int) -> Any:
    """(T, T), boolean: position t attends to s ≤ t only.

    >>> import numpy as np
    >>> print(np.array(create_look_ahead_mask(3)).astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 1]]
    """
    return masks.causal(sequence_length, sequence_length)
