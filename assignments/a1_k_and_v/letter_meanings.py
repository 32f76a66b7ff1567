# %% [markdown]
# # What does each letter mean?
#
# **The question.** A forum explains the letters of the Addons layer like this: N and M count the features of query and
# key, and O is the width of the output. Is that right? If you misread one letter, you misread the whole layer, so go
# through its equations letter by letter.
#
# **The idea.** For every axis, ask what one step along it means. In the query (…, N, I), one step along N takes you to
# the next *position*. So N counts positions, and so does M for key and value. I counts the features. O is the number of
# features that a head makes from those I, its head size. The width of the output appears only when the heads are put
# back together. And a letter is valid only within its own equation: the layer reuses some letters in later equations
# for axes that mean something else.
#
# These are the layer's six equations, by the name of the step:
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
# value), "input features" (the width of the layer's query, key or value), "head size" (the width of one head) and
# "output features" (the width of the layer's output).
#
# **Worked example.** In "logits", H is "heads", N is "query positions" and M is "source positions". O is summed over.
# It is the last axis of the results of "query" and "key", so it is the "head size".

# %%


def letter_meanings(step):
    """Return the meaning of each letter in one equation of the layer.

    Args:
        step: One of "query", "key", "value", "logits", "mix" and "output", as in the table.

    Returns:
        A dict from every letter of the step's equation to one of "heads", "query positions", "source positions", "input
        features", "head size" and "output features". It has no entry for the dots.
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
# Begin with "query". Its left operand is the layer's query, (batch, positions, features). Its kernel has an axis for
# the heads, one for what goes into a head, and one for what comes out. "key" and "value" are the same, with other
# positions.

# %% [markdown] tags=["hint"]
# Then follow the axes. What is the last axis of the result of "value"? That result is the right operand of "mix", where
# the axis has another letter. Its meaning cannot have changed on the way.

# %% [markdown] tags=["hint"]
# In the last two equations, I no longer means what it meant in the first three. The input features were summed over
# long before. In "output", the kernel's last axis is the width of what the whole layer returns. The other letters are
# those of the left operand.
