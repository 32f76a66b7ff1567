# %% [markdown]
# # p_q h = p_o, and what it costs
#
# **The question.** The textbook sets p_q h = p_k h = p_v h = p_o and p_o = num_hiddens. Readers take p_q for
# query_size, find that both widths are 100 in the example, and with five heads have a contradiction. Others expect
# that h projections have h times the parameters of one.
#
# **The idea.** p_q is not query_size. query_size is how wide a query is *before* its projection; p_q is how wide one
# head's query is *after* it, and a projection may lead from any width to any other. With num_hiddens = 100 and h = 5
# it is p_q = p_k = p_v = 20, be query_size 100 or 30. And since each of the h matrices is h times narrower, all h have
# together as many parameters as one matrix of the whole width: h heads cost what a single head of that width costs.
# The one condition is that h divides num_hiddens.
#
# **The shapes.** One head's query matrix is (query_size, p_q); the large one is (query_size, num_hiddens); the last
# one, W_o, is (num_hiddens, num_hiddens). With biases every output column of each has one number more.
#
# **One line, worked.** query_size = 30, num_hiddens = 100, h = 5, no biases: p_q = 100 / 5 = 20, a small matrix has
# 30·20 = 600 parameters, five have 3,000, and the large one has 30·100 = 3,000.

# %%


def head_widths(query_size, key_size, value_size, num_hiddens, num_heads, bias):
    """The widths of a head, and how many parameters there are.

    Args:
        query_size: the width of a query before its projection; likewise `key_size` and `value_size`.
        key_size: of a key.
        value_size: of a value.
        num_hiddens: p_o, the width of all heads together.
        num_heads: h.
        bias: whether the projections have biases.

    Returns:
        A dict of integers. "p_q", "p_k", "p_v": the widths of one head's query, key and value; "p_o": of all heads
        together. "small": the parameters of the h small query projections, all together. "large": those of one query
        projection onto num_hiddens. "layer": those of the whole layer, with W_q, W_k, W_v and W_o.

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
# Solve p_q h = num_hiddens for p_q. Neither query_size nor key_size is in it.

# %% [markdown] tags=["hint"]
# A projection from n features to m has n·m parameters, and m more if it has biases. Count one small query projection
# so, take it h times, and compare with the large one: they must be equal.

# %% [markdown] tags=["hint"]
# The layer has four such projections, all onto num_hiddens, from query_size, key_size, value_size, and W_o from
# num_hiddens. Check the remainder of num_hiddens divided by num_heads first, and raise if there is one.
