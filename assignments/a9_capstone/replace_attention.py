# %% [markdown]
# # Replace the attention of a trained model
#
# **The question.** The model is trained, and the attention in it is not yours. Take it out and put yours in, without
# training again. How do you know that you succeeded?
#
# **The idea.** A Keras model knows how its layers are connected. `keras.models.clone_model(model, clone_function=…)`
# makes the same connections again. It calls your function with each old layer, and uses the layer that your function
# returns. It does not ask for the inputs, whose names may change. So you return an `OwnAttention` where the old layer is a
# `keras.layers.MultiHeadAttention`, and the same layer made anew everywhere else. The clone has *new* weights, so all
# of them have to be taken over: those of the attention with `take_weights`, those of the other layers with
# `set_weights`.
#
# Then compare the logits, element by element. It is not enough that the model still works. We put fourteen mistakes into
# the layer, one at a time: no scale, no padding mask, no biases, and so on. With seven of them, the model still wrote
# each of a thousand words backwards without an error, while logits of at most 14 were wrong by 7 to 15. A test of what
# the model *does* would have found half of the mistakes.
#
# **The shapes.** The model reads words (B, S) and what is written so far (B, T), both with 7 positions: 0 is padding, on
# the left of the word, 1 starts a written word, and 2 to 12 are the letters. It returns logits (B, T, 13). Its two
# attention layers have 2 heads of size 4 and 3 heads of size 5, in a model that is 12 wide. A check also uses a model
# with more attention layers, and other names, numbers of heads and head sizes.
#
# **Worked example.** The word [0, 0, 0, 0, 5, 2, 9], with [1, 9, 2, 0, 0, 0, 0] written so far, has its largest logits
# at the letters 9, 2 and 5 in the first three positions: each position says what comes next. The clone must give these
# logits too, to about six digits, because float32 has no more.
#
# Try your layer outside of the checks as well: in the folder of `OwnAttention.py`, `kmha diagnose
# OwnAttention:OwnAttention` names the mistake in it, if there is one. (It also tries float16, and rows with nothing to
# attend to. This model has neither. The exercise `attention_scores` of a6 is about both.)

# %%
import keras
from OwnAttention import OwnAttention  # you wrote these two
from take_weights import take_weights


def replace_attention(model):
    """Return a copy of a model that has your attention instead of the built-in's, and the same weights.

    Args:
        model: A functional Keras model. It contains `keras.layers.MultiHeadAttention` layers, with biases, each with its
            own number of heads (`num_heads`) and head size (`key_dim`). They are called with `attention_mask` or
            `use_causal_mask`. Some layers may be frozen (`trainable` is False); they need not be frozen in the copy.

    Returns:
        A new model in which each of these layers is an `OwnAttention` of the same name. All layers have the weights of
        the given model, which does not change, even if the copy is trained.
    """
    ### BEGIN SOLUTION

    def clone(layer):
        if isinstance(layer, keras.layers.MultiHeadAttention):
            return OwnAttention(layer.num_heads, layer.key_dim, name=layer.name)
        return layer.__class__.from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=clone)
    for old, new in zip(model.layers, copy.layers, strict=True):
        if isinstance(new, OwnAttention):
            take_weights(old, new)
        else:
            new.set_weights(old.get_weights())
    return copy
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write the function for one layer first. `isinstance` says what kind of layer it got. A layer is made anew from its
# configuration: `layer.__class__.from_config(layer.get_config())`.

# %% [markdown] tags=["hint"]
# `model.layers` and the clone's `layers` are in the same order. Go through both together. For each pair, which of the
# two ways of taking weights fits?

# %% [markdown] tags=["hint"]
# Give your layer the old one's `num_heads`, `key_dim` and `name`. For all other layers, `get_weights` of the old one
# returns what `set_weights` of the new one takes; layers without weights do no harm.
