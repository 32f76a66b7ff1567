"""The `MultiHeadAttention` of TensorFlow Addons and of `kmha.layers.addons`."""

from kmha.interchange.layout import Entry, Layout

LAYOUTS = (
    Layout(
        "addons",
        "tensorflow_addons.layers.MultiHeadAttention: kernels (heads, in, head size), only an output bias",
        (
            Entry("query_kernel", "query/kernel", "H I O -> H I O"),
            Entry("key_kernel", "key/kernel", "H J O -> H J O"),
            Entry("value_kernel", "value/kernel", "H K O -> H K O", why="query, key and value have one `head_size`."),
            Entry("projection_kernel", "attention_output/kernel", "H O E -> H O E"),
            Entry("projection_bias", "attention_output/bias", "E -> E", optional="bias"),
        ),
    ),
)
