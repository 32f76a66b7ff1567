# %% [markdown]
# # Pruning heads, one after another
#
# **The question.** A textbook wants to prune the less important heads of a trained layer to make it faster. Which head
# goes first, which goes next, what happens to the loss, and how much time does each step save?
#
# **The idea.** You know how to measure a head (leave it out) and how to remove one. Put both in a loop. Before each
# step, try every head that is left: remove it alone, and compute the loss. Then really remove the one without which the
# loss is smallest, and measure the smaller layer: its loss, and the time of one call.
#
# Two things go wrong easily. First, *rank again after every step*. Two heads that do the same work look unimportant,
# both of them, because the other one is still there. After one of them has gone, the other is needed. A ranking made
# once does not know that. Second, *remove the head, do not set it to zero*. Zeros give the same loss, but they take as
# long to multiply as any other number. For a layer of width 768 with 12 heads and 128 positions, in NumPy on one core,
# a call took 10.6 ms, with six heads 4.2 ms, and with one head 0.7 ms. With eleven heads set to zero it took 10.6 ms,
# as before.
#
# **The shapes.** The query, key and value kernels are (I, H·O) and the output kernel is (H·O, E), as in `prune_head`.
# H heads need H − 1 steps until one is left, so there are H losses and H times, the first of them with all heads.
#
# **Worked example.** Three heads contribute 2, 2 and −1 to an output of 3. The target is 2, so the loss is 1. Without
# head 0 the output is 1 and the loss 1; without head 1, the same; without head 2 the output is 4 and the loss 4. The
# first to go is head 0. A ranking made once would remove head 1 next: the output is −1 and the loss 9. Rank again: of 2
# and −1, removing the −1 gives the output 2 and the loss 0. The order is [0, 2], with the losses [1, 1, 0].

# %%
import time

import numpy as np
from prune_head import prune_head  # you wrote it in the previous exercise


def prune_in_order(layer, kernels, inputs, target, num_heads, clock=time.perf_counter):
    """Prune all heads but one, always the head without which the loss is smallest.

    Args:
        layer: Function that computes the attention: `layer(inputs, kernels, heads)` returns the output (B, T, E).
            `kernels` are four arrays, and `heads` is the number of heads that they have.
        kernels: The query, key, value and output kernels of all heads: three (I, H·O) and one (H·O, E).
        inputs: Inputs of the layer, (B, T, I).
        target: Target of the output, (B, T, E). The loss is the mean over all elements of (output − target)².
        num_heads: Number of heads (H), at least 2.
        clock: Function that returns the time in seconds. Call it right before and right after one call of the layer.

    Returns:
        A dict of three arrays:
        "order": the heads in the order in which they were pruned, by their numbers in the whole layer, integers
        (H − 1,). If two heads are equally good to prune, the one with the smaller number goes first;
        "losses": the loss with all heads, and after each step, (H,);
        "seconds": the time of one call with all heads, and after each step, (H,).
    """
    ### BEGIN SOLUTION
    left, order, losses, seconds = list(range(num_heads)), [], [], []

    def loss(kernels, heads):
        return np.mean(np.square(layer(inputs, kernels, heads) - target))

    while True:
        began = clock()
        output = layer(inputs, kernels, len(left))
        seconds.append(clock() - began)
        losses.append(np.mean(np.square(output - target)))
        if len(left) == 1:
            return {"order": np.array(order), "losses": np.array(losses), "seconds": np.array(seconds)}
        smaller = [prune_head(*kernels, len(left), head) for head in range(len(left))]
        best = int(np.argmin([loss(each, len(left) - 1) for each in smaller]))
        kernels = smaller[best]
        order.append(left.pop(best))
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Keep a list of the heads that are left, by their numbers in the whole layer. `prune_head` counts within the kernels
# that it gets: after the first step, its head 2 may be head 3 of the whole layer.

# %% [markdown] tags=["hint"]
# One round: measure the time and the loss of the layer as it is. Stop if one head is left. Otherwise make the kernels
# without each head, compute their losses, take the smallest (`np.argmin` returns the first if there are several), and
# continue with those kernels. Tell the layer how many heads its kernels have.

# %% [markdown] tags=["hint"]
# `left.pop(place)` removes an entry from a list and returns it: append that to the order. Read the clock, call the
# layer once, and read the clock again. Nothing else stands between the two readings: not the trial of the other heads,
# nor the loss.
