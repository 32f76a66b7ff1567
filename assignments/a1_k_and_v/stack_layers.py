# %% [markdown]
# # Why the output is as wide as the input
#
# **The question.** The layer's output kernel can have any width E. In the Transformer, E is always the width of the
# input: outputs "have to be equal in dimension to inputs", writes somebody who has read the code. Have to? Which line
# of the model would fail otherwise?
#
# **The idea.** Nothing in attention itself fails. Two things around it do.
#
# - *Residual connections* add a layer's input to its output. For that, both need the same width: E = I.
# - *Stacking* puts the output of one layer into the next. For that, the next layer's I must be this layer's E. All
#   layers of a Transformer have the same shapes, so the widths stay the same from the first layer to the last.
#
# What happens *inside* a layer is free. H and O may be anything, and H · O need not be I: the output kernel brings the
# width back. Residual connections buy something for this rule. A layer whose output kernel is zero changes nothing, so
# every layer starts from its input and learns only what to add to it.
#
# One case is treacherous. If E is 1, `inputs + output` raises no error: NumPy, TensorFlow and torch all *broadcast* the
# one feature to all I. The shape is right and the model is wrong. `np.einsum` broadcasts an axis of size 1 too. So check
# the widths yourself.
#
# **The shapes.** A layer's query, key and value kernels are (H, I, O), and its output kernel is (H, O, E). The inputs
# are (B, T, I) with the first layer's I. Layers attend to themselves and have no biases. The logits may reach ten
# thousand and more.
#
# **Worked example.** One layer has one head, I = O = E = 1, and kernels 1, 1, 1 and 0.5. One position holds 4. It
# attends to itself, so the layer returns 2, and the stack 4 + 2 = 6. A second layer of the same kind turns 6 into 6 + 3
# = 9. Without residual connections the results are 2 and then 1.

# %%
import numpy as np


def stack_layers(inputs, layers, residual=True):
    """Apply self-attention layers one after another.

    Args:
        inputs: Inputs of the first layer, (B, T, I).
        layers: List of at least one layer. Each is a dict of arrays: "query_kernel", "key_kernel" and "value_kernel", all
            (H, I, O), and "output_kernel", (H, O, E). H, O and E may differ from layer to layer.
        residual: Whether each layer's input is added to its output.

    Returns:
        The last layer's output, (B, T, E), with its residual connection.

    Raises:
        ValueError: A layer's I is not the width of what comes in, or, with `residual`, its E is not its I.
    """
    ### BEGIN SOLUTION
    for number, layer in enumerate(layers):
        width = layer["query_kernel"].shape[1]
        if width != inputs.shape[-1]:
            raise ValueError(f"layer {number} expects {width} features, and gets {inputs.shape[-1]}")
        if residual and layer["output_kernel"].shape[-1] != width:
            raise ValueError(f"layer {number} turns {width} features into {layer['output_kernel'].shape[-1]}")
        query, key, value = (
            np.einsum("BTI,HIO->BTHO", inputs, layer[f"{role}_kernel"]) for role in ("query", "key", "value")
        )
        logits = np.einsum("BTHO,BSHO->BHTS", query, key) / np.sqrt(query.shape[-1])
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        scores = powers / powers.sum(axis=-1, keepdims=True)
        output = np.einsum("BHTS,BSHO,HOE->BTE", scores, value, layer["output_kernel"])
        inputs = inputs + output if residual else output
    return inputs
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Loop over the layers, with one variable that holds what goes into the next layer. Compute one layer as in "The whole
# layer in six equations", with query, key and value from the same array.

# %% [markdown] tags=["hint"]
# Two checks stand at the start of each round. One compares axis 1 of the kernels with the last axis of what comes in.
# The other one is needed only with residual connections, and compares two axes of the layer's own kernels. Neither
# looks at H or O.

# %% [markdown] tags=["hint"]
# With residual connections, the next layer gets the sum of this layer's input and its output. Make a new array for the
# sum: with `+=` you would change the array that you were given.
