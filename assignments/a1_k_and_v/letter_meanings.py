# %% [markdown]
# # What every letter means
#
# **The question.** A forum explains the letters of the Addons layer: N and M are said to count the features of query
# and key, O to be the width of the output. Is that so?
#
# **The idea.** Ask of every axis what one step along it is. In the query (…, N, I) one step along N goes to the next
# *position*: N counts positions, and so does M for key and value. Features are counted by I. O is what a head makes of
# the I features, its head size; the output's width appears only when the heads have been put together again. And a
# letter is valid only within its equation: the layer uses some of its letters again, in later equations, for axes that
# mean something else.
#
# The layer's six equations, by the name of the step:
#
# | step | equation | left operand | right operand |
# | --- | --- | --- | --- |
# | "query" | `...NI , HIO -> ...NHO` | the query | its kernel |
# | "key" | `...MI , HIO -> ...MHO` | the key | its kernel |
# | "value" | `...MI , HIO -> ...MHO` | the value | its kernel |
# | "logits" | `...NHO , ...MHO -> ...HNM` | the result of "query" | the result of "key" |
# | "mix" | `...HNM , ...MHI -> ...NHI` | the softmax of "logits" | the result of "value" |
# | "output" | `...NHI , HIO -> ...NO` | the result of "mix" | the output kernel |
#
# **The shapes.** There are six meanings: "heads", "query positions", "source positions" (the positions of key and
# value), "input features" (the width of the layer's query, key or value), "head size" (the width of one head), "output
# features" (the width of the layer's output).
#
# **One line, worked.** "logits": H is "heads", N is "query positions", M is "source positions"; O, which is summed
# over, is the last axis of what "query" and "key" made, the "head size".

# %%


def letter_meanings(step):
    """What the letters mean in an equation of the layer.

    Args:
        step: "query", "key", "value", "logits", "mix" or "output", as in the table.

    Returns:
        A dict: for every letter of the step's equation one of "heads", "query positions", "source positions",
        "input features", "head size" and "output features". The dots are not in it.
    """
    ### BEGIN SOLUTION
    letters = {"query": "NIHO", "key": "MIHO", "value": "MIHO", "logits": "NHOM", "mix": "HNMI", "output": "NHIO"}
    meanings = {"H": "heads", "N": "query positions", "M": "source positions", "I": "input features", "O": "head size"}
    if step == "mix":
        meanings["I"] = "head size"
    if step == "output":
        meanings.update(I="head size", O="output features")
    return {letter: meanings[letter] for letter in letters[step]}
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Begin with "query": its left operand is the layer's query, (batch, positions, features), and the kernel has an axis
# for heads, one for what comes in and one for what goes out of a head. "key" and "value" are the same for other
# positions.

# %% [markdown] tags=["hint"]
# Then follow the axes. What is the third axis of the "value" step's result? It is the right operand of "mix", where
# that axis has another letter. It cannot have got another meaning on the way.

# %% [markdown] tags=["hint"]
# In the last two equations I is no longer what it was in the first three: the features of the inputs have long been
# summed over. In "output" the kernel's last axis is what the whole layer gives, and the other letters are those of the
# left operand.
