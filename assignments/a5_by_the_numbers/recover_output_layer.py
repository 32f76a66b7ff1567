# %% [markdown]
# # W_O by least squares
#
# **The question.** The article prints the joined heads A and the output, but not the output layer between them. Are
# these two arrays enough to recover its weight and bias? And how would you know that the result is right?
#
# **The idea.** Every token gives one equation for each output feature: the I numbers of A times an unknown column of
# the kernel, plus an unknown bias. There are 18 tokens, and only 8 + 1 unknowns for each column. With more equations
# than unknowns, least squares finds the column that fits best, and the part that it cannot fit is a test. If you give A
# a column of ones, the bias becomes a row of the kernel.
#
# How well must it fit? A number that is printed with two decimals is off by at most half a step, 0.005. In one equation
# these errors add up: half a step for the output, and half a step for each number of A, times its weight. So the error
# is at most ½ · step · (1 + Σ|w|), with the sum over the column. If the two arrays belong together, the root mean
# square of the residual stays within this bound. For the article, the root mean square of the residual is between
# 0.0016 and 0.0029, and the bound between 0.010 and 0.013. For comparison, a merge without the transpose leaves a
# residual of 0.29 to 0.62.
#
# **The shapes.** A is (B, T, I) and the output (B, T, E): B sentences, T positions, I features in, E out. The kernel is
# (I, E), as in A @ kernel, and the bias is (E,).
#
# **Worked example.** Take I = E = 1. A is 0, 1, 2 and the output is 1.00, 1.51, 1.99. The best line has the slope 0.495
# and starts at 1.005. It misses by -0.005, 0.01 and -0.005. The root mean square is 0.0071, below the bound ½ · 0.01 ·
# (1 + 0.495) = 0.0075.

# %%
import numpy as np

# As printed in the article.
JOINED = np.array(
    [
        [0.41, -0.71, 0.63, -0.22, 0.79, -3.58, 0.11, 1.71],
        [-0.15, 0.93, 0.5, -0.4, -0.43, -1.36, 0.11, 1.64],
        [-1.05, -1.58, -0.14, -1.42, 0.12, 0.21, -0.54, -0.52],
        [0.31, -0.65, -0.17, -1.33, 0.84, -3.78, -0.02, 0.41],
        [0.58, -0.83, -0.56, -1.17, 0.83, -3.7, 0.11, 1.65],
        [-0.17, 0.99, 0.58, -0.32, 0.65, -3.14, 0.11, 1.61],
        [-1.08, -1.93, -1.62, 3.69, 0.62, -0.34, -1.88, -2.31],
        [-1.17, -1.84, -1.76, 1.62, 0.6, -0.4, -2.56, -1.59],
        [-1.29, -0.52, -0.89, -1.06, 0.31, 0.07, 0.9, 1.69],
        [-0.9, -0.07, -1.43, 1.97, 1.16, -1.3, 0.73, 1.51],
        [-1.09, -1.92, -1.61, 2.89, -0.21, 0.92, 0.55, 1.32],
        [-0.92, -1.14, -0.95, -1.66, 0.28, -0.7, -0.91, -0.78],
        [-0.27, 0.87, -1.54, -3.73, 1.0, -1.33, -0.8, 0.07],
        [-1.13, -1.86, -1.22, 0.61, -0.47, 0.15, -0.1, -3.3],
        [-1.04, -1.82, -1.48, 0.91, -0.7, 0.45, -1.37, -0.49],
        [-0.37, 0.57, -1.24, -1.56, -0.29, 0.44, -0.97, 0.25],
        [-0.22, 1.1, -0.89, -0.33, 1.02, -1.33, -0.8, 0.19],
        [-0.37, 0.62, -1.02, 0.15, 0.8, -1.09, -0.37, -0.42],
    ]
).reshape(3, 6, 8)
OUTPUT = np.array(
    [
        [-0.39, -0.45, -0.17, 0.18, -0.24, -1.68, -0.35, -0.56],
        [0.38, 0.02, 0.28, -0.42, -0.7, -0.81, 0.05, 0.03],
        [1.01, -0.72, 0.12, 0.18, 1.2, -0.29, 1.1, -0.59],
        [-0.5, -0.84, -0.07, 0.22, 0.49, -1.58, 0.13, -0.9],
        [-0.15, -0.95, -0.35, 0.17, 0.15, -1.65, -0.27, -0.79],
        [-0.47, -0.04, 0.15, 0.03, -0.83, -1.24, -0.04, -0.15],
        [-1.29, -0.85, -1.02, 1.56, 0.32, -0.08, -0.14, 0.4],
        [-0.45, -1.19, -0.7, 1.23, 0.75, -0.42, 0.46, -0.38],
        [1.33, -0.58, -0.34, 0.1, -0.13, 0.15, 0.44, 0.38],
        [-0.42, -0.32, -0.97, 0.89, -1.19, 0.01, -0.66, 1.11],
        [0.66, -0.75, -1.36, 0.73, -0.69, 0.47, -0.79, 1.29],
        [0.6, -1.03, 0.01, 0.29, 1.2, -0.5, 1.07, -0.78],
        [0.61, -0.66, 0.54, -0.06, 0.97, -0.68, 1.3, -1.08],
        [-0.22, -1.02, -0.38, 0.62, 1.46, 0.3, 0.74, 0.1],
        [0.67, -1.23, -0.65, 0.47, 0.58, -0.18, 0.31, -0.09],
        [0.94, -0.43, 0.3, -0.22, 0.4, -0.23, 0.78, -0.36],
        [-0.46, -0.03, 0.16, 0.37, -0.23, -0.55, 0.34, -0.11],
        [-0.54, -0.15, -0.03, 0.46, -0.06, -0.29, 0.26, 0.13],
    ]
).reshape(3, 6, 8)


def recover_output_layer(joined, output, step=0.01):
    """Return the kernel and bias of the layer between two printed arrays, and how well they fit.

    Args:
        joined: Joined heads, rounded, (B, T, I).
        output: Output of the layer, rounded, (B, T, E).
        step: Step of the rounding, 0.01 for two decimals.

    Returns:
        Four arrays: the kernel (I, E); the bias (E,); for every output feature, the root mean square of the residual
        over all tokens, (E,); and for every output feature, the bound ½ · step · (1 + Σ|w|) with the recovered kernel,
        (E,).
    """
    ### BEGIN SOLUTION
    rows = joined.reshape(-1, joined.shape[-1])
    targets = output.reshape(-1, output.shape[-1])
    known = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    found = np.linalg.lstsq(known, targets, rcond=None)[0]
    kernel, bias = found[:-1], found[-1]
    residual = np.sqrt(np.mean((targets - known @ found) ** 2, axis=0))
    bound = 0.5 * step * (1 + np.abs(kernel).sum(axis=0))
    return kernel, bias, residual, bound
    ### END SOLUTION


# With the article's arrays: print(*(found.round(4) for found in recover_output_layer(JOINED, OUTPUT)), sep="\n")


# %% [markdown] tags=["hint"]
# A token is a row, whichever sentence it belongs to. Stack all B·T of them. `np.linalg.lstsq` takes all
# E columns of the output at once.

# %% [markdown] tags=["hint"]
# A bias is the weight of an input that is always 1. Put a column of ones beside the rows. Its row in the result of
# least squares is the bias.

# %% [markdown] tags=["hint"]
# If the ones are the last column, the last row of the result is the bias, and the rest is the kernel. Multiply the
# widened rows by the whole result and compare with the output. Square, average over the rows (axis 0), and take the
# root. The sum in the bound also goes over axis 0, the kernel's I.
