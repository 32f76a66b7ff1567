# %% [markdown]
# # Why query, key and value?
#
# **The question.** In self-attention, query, key and value come from the same words. Why three kernels? The article that
# explains all the steps ends by asking just this. Take a role away, twice, and look at what is lost.
#
# **The idea.** *Query and key with one kernel.* The logit of t for s is then the logit of s for t: q_t · q_s = q_s · q_t.
# A verb cannot look for its noun without being looked for as much. And a word tends to look at itself: of any two words
# with different queries, at least one has a larger logit for itself than for the other one, because 2 · q_t · q_s is
# smaller than q_t · q_t + q_s · q_s. A head that has to look at the *next* word cannot be made this way.
#
# *Key and value with one kernel.* What a word is found by is then what it hands over. A key that says "plural noun" lets
# a verb find the noun, but the verb wants to know *which* noun. The result is an average of keys, and has only what the
# search needed.
#
# So: the query is what a word looks for, the key is what it is found by, and the value is what it hands over.
#
# **The shapes.** The inputs are (B, T, I), each kernel is (I, O), and there is one head. The scores are (B, T, T) and
# the results (B, T, O). Logits are divided by √O. They may reach several thousand.
#
# **Worked example.** Three words are the rows of the identity. The query kernel shifts them (word t asks for t + 1, the
# last for the first), times 9. The key kernel is the identity. Each word gives the next one the score 0.99: e^(9/√3) =
# 181 against 1 and 1. With the query kernel for the keys too, the logits are 81/√3 for the word itself and 0 for the
# others: each word looks at itself only, whatever the kernel shifts.

# %%
import numpy as np


def three_roles(inputs, query_kernel, key_kernel, value_kernel):
    """Attend with three roles, with one kernel for query and key, and with one kernel for key and value.

    Args:
        inputs: Words, (B, T, I), from which all three roles are projected.
        query_kernel: Query kernel, (I, O).
        key_kernel: Key kernel, (I, O).
        value_kernel: Value kernel, (I, O).

    Returns:
        A dict of arrays:
        "scores": the scores with all three kernels, (B, T, T);
        "three": the result with all three kernels, (B, T, O);
        "query_is_key_scores": the scores if the query kernel is the key kernel too, (B, T, T);
        "query_is_key": the result with these scores, and with the values of the value kernel, (B, T, O);
        "key_is_value": the result with the scores of all three kernels, if the key is the value too, (B, T, O).
    """
    ### BEGIN SOLUTION
    query, key, value = inputs @ query_kernel, inputs @ key_kernel, inputs @ value_kernel

    def attend(query, key):
        logits = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    scores, shared = attend(query, key), attend(query, query)
    return {
        "scores": scores,
        "three": scores @ value,
        "query_is_key_scores": shared,
        "query_is_key": shared @ value,
        "key_is_value": scores @ key,
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write one function that makes scores from a query and a key. You need it with two different keys. The value never
# enters it.

# %% [markdown] tags=["hint"]
# Taking a role away changes one thing and leaves the rest. With one kernel for query and key, the scores change and the
# values stay. With one kernel for key and value, the scores stay and what they mix changes.

# %% [markdown] tags=["hint"]
# Project three times. The second scores compare the projected query with itself. The last result mixes the projected
# key. Symmetric *logits* do not make symmetric scores, because each row is divided by its own sum: do not try to make
# the scores symmetric.
