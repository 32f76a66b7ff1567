# %% [markdown]
# # When num_hiddens is not query_size
#
# **The question.** The textbook's W_q takes query_size features. But a comment in its code says that the queries have
# num_hiddens features. Which one is right, and what happens if the two numbers differ? Follow all the shapes through
# the layer to find out.
#
# **The idea.** W_q is right. The comment holds only for the example, where all widths are 100. The layer has four
# widths. `query_size`, `key_size` and `value_size` are the widths of its inputs, and they may all differ. `num_hiddens`
# is the width inside the layer: each of the three matrices leads from the width of its own input to num_hiddens, so
# that query and key can be compared.
#
# The layer then cuts num_hiddens into `num_heads` pieces and moves the heads into the batch axis: (B·H, positions, O),
# with O = num_hiddens / num_heads. Joined again, the heads are num_hiddens wide. The last matrix keeps that width.
#
# **The shapes.** Queries are (B, T, query_size), keys (B, S, key_size) and values (B, S, value_size). Write each matrix
# as (in, out), so that the product is X · W. (`nn.Linear` stores the transpose, (out, in).)
#
# **Worked example.** Take queries (2, 4, 30), num_hiddens = 100 and five heads. W_q is (30, 100), the product is (2, 4,
# 100), and the split queries are (10, 4, 20).

# %%


def d2l_shapes(query_shape, key_shape, value_shape, num_hiddens, num_heads):
    """Return all shapes in the textbook's multi-head attention, by name.

    Args:
        query_shape: Shape of the queries, a tuple (B, T, query_size).
        key_shape: Shape of the keys, a tuple (B, S, key_size).
        value_shape: Shape of the values, a tuple (B, S, value_size).
        num_hiddens: Width inside the layer, a multiple of `num_heads`.
        num_heads: Number of heads (H).

    Returns:
        A dict of tuples of integers. "W_q", "W_k", "W_v" and "W_o" are the four matrices as (in, out). "queries" is the
        result of W_q, before the split. "split queries", "split keys" and "split values" have the heads in the batch
        axis. "scores" says how much each query attends to each key, after the softmax (the textbook's attention
        weights). "mixed" is the result of mixing the values with the scores, with the heads still in the batch axis.
        "joined" has the heads side by side. "output" is the output of the layer.
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
# Name the sizes first. The shapes give you B, T and S, and the three widths of the inputs. Where do these three widths
# appear once the matrices have been applied? Nowhere.

# %% [markdown] tags=["hint"]
# The product X · W has the shape of X except for the last axis, which comes from W. The split turns (B, positions,
# num_hiddens) into an array of as many numbers: B·H items, each H times narrower.

# %% [markdown] tags=["hint"]
# Scores have a row for every query and a column for every key, T and S, and no width. There are B·H such tables. Mixed
# again has a row for every query, and the width of the split values. The join is the inverse of the split.
