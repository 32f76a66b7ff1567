# %% [markdown]
# # The bias that is not printed
#
# **The question.** The article writes Q = X Wq, and prints X, Wq and Q. If you multiply the first two as printed, you
# do not get the third. Is there a mistake in the article? Find out what is missing.
#
# **The idea.** There is no mistake, but the formula leaves something out. The layer is a `torch.nn.Linear`, which has a
# bias. It computes Q = X W^T + b, with a transpose because torch stores a weight as (out, in). Subtract X W^T from Q,
# and what is left is b: the same in every row, apart from small rounding errors in either direction. So the best
# estimate of b is the mean over all rows. Here b is about (0.16, -0.05, -0.23, 0.21, -0.06,
# -0.22, -0.10, -0.20), and the rows scatter around it by 0.015 to 0.035.
#
# **The shapes.** X is (B, T, I): B sentences, T positions, I features. The weight is (E, I): I features come in, E go
# out. Q is (B, T, E), and b is (E,). In the article B = 3, T = 6 and I = E = 8.
#
# **Worked example.** Take one sentence with two positions, I = 2 and E = 1. X has the rows (1, 2) and (3, 0), and the
# weight is (0.5, 1). X W^T has the rows 2.5 and 1.5. If Q has the rows 2.71 and 1.69, then 0.21 and 0.19 are left, and
# b is 0.20.

# %%
import numpy as np

# As printed in the article.
X = np.array(
    [
        [-3.45, -1.34, 4.12, -3.33, -0.81, -1.93, -0.28, 8.25],
        [7.36, -1.09, 2.32, 1.52, 3.5, 1.42, 0.46, -0.95],
        [-2.26, 0.53, -1.02, 1.49, -3.97, -2.19, 2.86, -0.59],
        [-3.87, -2.02, 1.46, 6.78, 0.88, 1.08, -2.97, 1.45],
        [1.12, -2.09, 1.19, 3.87, 0.0, 3.73, -0.88, 1.12],
        [-0.35, -0.02, 3.98, -0.2, 7.05, 1.55, 0.0, -0.83],
        [-4.27, 0.17, -2.08, 0.94, -6.35, 1.99, 5.23, 5.18],
        [0.0, -5.05, -7.19, 3.27, 1.49, -7.11, -0.59, 0.52],
        [0.54, -2.33, -1.1, -2.02, -0.88, -3.15, 0.38, 5.26],
        [0.87, -2.98, 2.67, 3.32, 1.16, 0.0, 1.74, 5.28],
        [-5.58, -2.09, 0.96, -2.05, -4.23, 2.11, 0.0, 0.61],
        [6.39, 2.15, -2.78, 2.45, 0.3, 1.58, 2.12, 3.2],
        [4.51, -1.22, 2.04, 3.48, 1.63, 3.42, 1.21, 2.33],
        [-2.34, 0.0, -1.13, 1.51, -3.99, -2.19, 2.86, -0.59],
        [-4.65, -6.12, -7.08, 3.26, 1.5, -7.11, -0.59, 0.52],
        [-0.32, -2.97, -0.99, -2.05, -0.87, 0.0, 0.39, 5.26],
        [-0.12, -2.61, 2.77, 3.28, 1.17, 0.0, 1.74, 5.28],
        [-5.64, 0.49, 2.32, 0.0, -0.44, 4.06, 3.33, 3.11],
    ]
).reshape(3, 6, 8)
WEIGHT = np.array(
    [
        [0.19, 0.34, -0.12, -0.22, 0.26, -0.06, 0.12, -0.28],
        [0.09, 0.22, 0.32, 0.11, 0.21, 0.03, -0.35, 0.31],
        [-0.34, -0.21, -0.11, 0.34, -0.28, 0.03, 0.26, -0.22],
        [-0.35, 0.11, 0.17, 0.21, -0.19, -0.29, 0.22, 0.2],
        [0.19, 0.04, -0.07, -0.02, 0.01, -0.2, 0.3, -0.19],
        [0.23, 0.15, 0.22, 0.26, 0.17, 0.16, 0.23, 0.18],
        [0.01, 0.06, -0.31, 0.19, 0.22, 0.08, 0.15, -0.04],
        [-0.11, 0.24, -0.2, 0.26, -0.01, -0.14, 0.29, -0.32],
    ]
)
Q = np.array(
    [
        [-3.13, 2.71, -2.07, 3.54, -2.25, -0.26, -2.8, -4.31],
        [1.7, 1.63, -2.9, -2.9, 1.15, 3.01, 0.49, -1.14],
        [-0.69, -2.38, 3.0, 3.09, 0.97, -0.98, -0.1, 2.16],
        [-3.52, 2.08, 2.36, 2.16, -2.48, 0.58, 0.33, -0.26],
        [-1.99, 1.18, 0.64, -0.45, -1.32, 1.61, 0.28, -1.18],
        [1.66, 2.46, -2.39, -0.97, -0.47, 1.83, 0.36, -1.06],
        [-3.13, -2.43, 3.85, 4.34, -0.6, -0.03, 0.04, 0.62],
        [-0.82, -2.67, 1.82, 0.89, 1.3, -2.65, 2.01, 1.56],
        [-1.42, 0.11, -1.4, 1.36, -0.21, -0.87, -0.88, -2.24],
        [-2.7, 1.88, -0.1, 1.95, -0.75, 2.54, -0.14, -1.91],
        [-2.67, -1.58, 2.46, 1.93, -1.78, -2.44, -1.76, -1.23],
        [1.23, 0.78, -1.93, -1.12, 1.07, 2.98, 1.82, 0.18],
        [-0.71, 1.9, -1.12, -0.97, -0.23, 3.54, 0.65, -1.39],
        [-0.87, -2.54, 3.16, 3.04, 0.94, -1.1, -0.1, 2.07],
        [-2.06, -3.3, 3.63, 2.39, 0.38, -3.87, 1.86, 1.79],
        [-2.0, 0.02, -0.9, 0.68, -1.03, -0.63, -0.7, -2.77],
        [-2.76, 1.9, 0.14, 2.34, -0.93, 2.38, -0.17, -1.75],
        [-1.82, 0.15, 1.79, 2.87, -1.65, 0.97, -0.21, -0.54],
    ]
).reshape(3, 6, 8)


def query_bias(inputs, weight, query):
    """Return the bias of a linear layer, given its inputs, its weight and its output.

    Args:
        inputs: Inputs of the layer, (B, T, I).
        weight: Weight as torch stores it, (E, I).
        query: Output of the layer, rounded, (B, T, E).

    Returns:
        The bias, (E,): the mean, over all positions of all sentences, of the part of the output that the weight does
        not explain.
    """
    ### BEGIN SOLUTION
    residual = query - inputs @ weight.T
    return residual.mean(axis=(0, 1))
    ### END SOLUTION


# With the article's arrays: print(query_bias(X, WEIGHT, Q).round(2))


# %% [markdown] tags=["hint"]
# Q has two parts: one depends on the inputs, and the other is the same for every token. You can compute the first part.

# %% [markdown] tags=["hint"]
# Look at the shapes. The inputs end in I, and I is the second axis of the weight. What must you do to the weight so
# that the product sums over I and gives (B, T, E)?

# %% [markdown] tags=["hint"]
# Subtract that product from `query`. Take one mean of the result, (B, T, E), over the first two axes together. That
# leaves (E,).
