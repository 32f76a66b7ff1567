# %% [markdown]
# # What a dot product can say about two words
#
# **The question.** An article ends with the words that attention "captures the relationship between each word with each
# other word", and asks what that means. Why should a product of numbers know anything about words?
#
# **The idea.** A dot product adds up, feature by feature, how well two vectors agree. Between the words themselves that
# only says how *alike* they are. A verb is not like its subject, and every word is most like itself. So the words are
# first multiplied by two kernels. Read the O features of a head as O *questions*. The query kernel says how strongly a
# word asks each question, and the key kernel says how well it answers each. Their product is large if what one word
# asks is what the other one answers: asks · answers, summed over the O questions. That is a relation, from one kind of
# word to another, and it has a direction: verbs ask for nouns, and nouns need not ask for verbs.
#
# In a trained model nobody writes these kernels. Training finds them. But they can say no more than this, so it is worth
# writing a pair by hand.
#
# **The shapes.** `words` is (T, I): T words, I features of each. A relation is a pair of features, (asks, answers), with
# a strength. R relations make two kernels (I, R), so the head size O is R: column r belongs to relation r. The logits
# are (T, T), with a row for each word that asks. They are not scaled here.
#
# **Worked example.** The features are noun, verb, singular and plural. In "the dogs near the cat bark", take dogs = [1,
# 0, 0, 1], cat = [1, 0, 1, 0] and bark = [0, 1, 0, 1]. The relations are verb asks noun with the strength 2, singular
# asks singular with 1, and plural asks plural with 1. Then bark asks [2, 0, 1], and the others answer: dogs [1, 0, 1],
# cat [1, 1, 0], and bark itself [0, 0, 1]. The logits of bark are 3 for dogs, 2 for cat and 1 for bark: it finds its
# subject. By likeness alone, they would be 1, 0 and 2, and bark would look at itself.

# %%
import numpy as np


def word_relations(words, pairs, strengths):
    """Write the kernels of a head by hand, and compare its logits with the likeness of the words.

    Args:
        words: Features of the words, (T, I).
        pairs: Relations, (R, 2) integers: the feature that asks, and the feature that answers. A feature may occur in
            several relations, and so may a pair.
        strengths: Strength of each relation, (R,). It belongs to the query's side.

    Returns:
        A dict of arrays: "query_kernel" and "key_kernel", (I, R); "logits", (T, T), not scaled; and "likeness", (T, T),
        the dot products of the words themselves.
    """
    ### BEGIN SOLUTION
    relations = np.arange(len(pairs))
    query_kernel = np.zeros((words.shape[1], len(pairs)))
    key_kernel = np.zeros_like(query_kernel)
    query_kernel[pairs[:, 0], relations] = strengths
    key_kernel[pairs[:, 1], relations] = 1
    return {
        "query_kernel": query_kernel,
        "key_kernel": key_kernel,
        "logits": (words @ query_kernel) @ (words @ key_kernel).T,
        "likeness": words @ words.T,
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Both kernels begin as zeros, and each column gets one number. In the query kernel it stands in the row of the feature
# that asks. Where does it stand in the key kernel, and which number is it?

# %% [markdown] tags=["hint"]
# A word asks what its features ask: `words @ query_kernel` is (T, R). It answers what its features answer, likewise. Row
# t and column s of the logits are the dot product of what t asks with what s answers.

# %% [markdown] tags=["hint"]
# Loop over the relations with `enumerate(pairs)`. In round r, set `query_kernel[asks, r]` to the strength and
# `key_kernel[answers, r]` to 1. For the logits, the second factor is transposed. The likeness needs no kernel at all.
