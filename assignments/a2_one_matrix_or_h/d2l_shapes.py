# %% [markdown]
# # When num_hiddens is not query_size
#
# **The question.** The textbook's W_q takes query_size features, and its comment says that the queries have
# num_hiddens of them. Which is right, and what if the two numbers differ?
#
# **The idea.** W_q is right; the comment holds only for the example, where all widths are 100. The layer is given four
# widths of its own. `query_size`, `key_size` and `value_size` are those of what comes in, and may all differ.
# `num_hiddens` is the width of what goes on: each of the three matrices leads from its own input's width to it, so
# that from there on query and key can be compared. It is cut into `num_heads` pieces, and the heads move into the
# batch axis: (B·H, positions, O) with O = num_hiddens / num_heads. Joined again, the heads are num_hiddens wide, and
# the last matrix keeps that.
#
# **The shapes.** Queries (B, T, query_size), keys (B, S, key_size), values (B, S, value_size). Matrices are meant here
# as (in, out), such that X · W is the product. (`nn.Linear` stores the transposed one, (out, in).)
#
# **One line, worked.** Queries (2, 4, 30), num_hiddens = 100, five heads: W_q is (30, 100), the product (2, 4, 100),
# and the split queries are (10, 4, 20).

# %%


def d2l_shapes(query_shape, key_shape, value_shape, num_hiddens, num_heads):
    """All shapes in the textbook's multi-head attention, by name.

    Args:
        query_shape: (B, T, query_size), a tuple.
        key_shape: (B, S, key_size), a tuple.
        value_shape: (B, S, value_size), a tuple.
        num_hiddens: the width of what goes on, a multiple of `num_heads`.
        num_heads: H.

    Returns:
        A dict of tuples of integers. "W_q", "W_k", "W_v" and "W_o": the four matrices as (in, out). "queries":
        after W_q, before the split. "split queries", "split keys", "split values": with the heads in the batch axis.
        "scores": who attends how much to whom, after the softmax (the textbook's attention weights). "mixed": what
        the scores make of the values, heads still in the batch axis. "joined": with the heads side by side.
        "output": of the layer.
    """
    ### BEGIN SOLUTION
    batch, rows, query_size = query_shape
    columns, key_size, value_size = key_shape[1], key_shape[2], value_shape[2]
    folded, size = batch * num_heads, num_hiddens // num_heads
    return {
        "W_q": (query_size, num_hiddens),
        "W_k": (key_size, num_hiddens),
        "W_v": (value_size, num_hiddens),
        "W_o": (num_hiddens, num_hiddens),
        "queries": (batch, rows, num_hiddens),
        "split queries": (folded, rows, size),
        "split keys": (folded, columns, size),
        "split values": (folded, columns, size),
        "scores": (folded, rows, columns),
        "mixed": (folded, rows, size),
        "joined": (batch, rows, num_hiddens),
        "output": (batch, rows, num_hiddens),
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Name the sizes first: B, T and S come from the shapes, and so do three widths. Where does each of the three widths
# appear once the matrices have been applied? Nowhere.

# %% [markdown] tags=["hint"]
# A product X · W has the shape of X but for the last axis, which is W's. The split makes of (B, positions,
# num_hiddens) an array with as many numbers: B·H items, and a width that is H times smaller.

# %% [markdown] tags=["hint"]
# Scores have a row for every query and a column for every key, T and S, and no width; they are B·H such tables. Mixed
# has a row for every query again, and the split values' width. The join is the opposite of the split.
