# %% [markdown]
# # p_q h = p_o, and what it costs
#
# **The question.** The textbook sets p_q h = p_k h = p_v h = p_o and p_o = num_hiddens. Some readers take p_q for
# query_size. In the book's example, query_size and num_hiddens are both 100 and there are five heads, so they see a
# contradiction. Others expect h projections to have h times the parameters of one. Work out the widths and count the
# parameters.
#
# **The idea.** p_q is not query_size. query_size is the width of a query *before* its projection; p_q is the width of
# one head's query *after* it. A projection can map any width to any other. With num_hiddens = 100 and h = 5, p_q
# = p_k = p_v = 20, whether query_size is 100 or 30. And because each of the h matrices is h times narrower, all h
# together have as many parameters as one matrix of the whole width. So h heads cost as much as a single head of that
# width. There is only one condition: h must divide num_hiddens.
#
# **The shapes.** One head's query matrix is (query_size, p_q), and the large one is (query_size, num_hiddens). The last
# one, W_o, is (num_hiddens, num_hiddens). With biases, each matrix has one more number for every output column.
#
# **Worked example.** Take query_size = 30, num_hiddens = 100, h = 5 and no biases. Then p_q = 100 / 5 = 20. A small
# matrix has 30·20 = 600 parameters, and five of them have 3,000. The large matrix has 30·100 = 3,000 as well.

# %%


def head_widths(query_size, key_size, value_size, num_hiddens, num_heads, bias):
    """Return the widths of a head and the numbers of parameters.

    Args:
        query_size: Width of a query before its projection.
        key_size: Width of a key before its projection.
        value_size: Width of a value before its projection.
        num_hiddens: Width of all heads together (p_o).
        num_heads: Number of heads (h).
        bias: Whether the projections have biases.

    Returns:
        A dict of integers. "p_q", "p_k" and "p_v" are the widths of one head's query, key and value. "p_o" is the width
        of all heads together. "small" is the number of parameters of all h small query projections together. "large" is
        that of a single query projection onto num_hiddens. "layer" is that of the whole layer, with W_q, W_k, W_v and
        W_o.

    Raises:
        ValueError: `num_heads` does not divide `num_hiddens`.
    """
    ### BEGIN SOLUTION
    if num_hiddens % num_heads:
        raise ValueError(f"num_hiddens={num_hiddens} is not a multiple of num_heads={num_heads}")
    width, more = num_hiddens // num_heads, int(bias)
    inputs = (query_size, key_size, value_size, num_hiddens)
    return {
        "p_q": width,
        "p_k": width,
        "p_v": width,
        "p_o": num_hiddens,
        "small": num_heads * (query_size + more) * width,
        "large": (query_size + more) * num_hiddens,
        "layer": sum((size + more) * num_hiddens for size in inputs),
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Solve p_q h = num_hiddens for p_q. Neither query_size nor key_size appears in it.

# %% [markdown] tags=["hint"]
# A projection from n features to m has n·m parameters, and m more if it has biases. Count one small query projection
# this way and multiply by h. Compare with the large one: the two must be equal.

# %% [markdown] tags=["hint"]
# The layer has four such projections, all onto num_hiddens: from query_size, from key_size, from value_size, and W_o
# from num_hiddens. Before you count, look at the remainder of num_hiddens divided by num_heads, and raise if it is not
# 0.
