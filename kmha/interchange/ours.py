"""Our own layers: `kmha.MultiHeadAttention` is the canonical layout itself; the blocks have the names of the course."""

from kmha.interchange.layout import Entry, Layout

ATTENTION = (
    Entry("query/kernel", "query/kernel", "H I O -> H I O"),
    Entry("query/bias", "query/bias", "H O -> H O", optional="bias"),
    Entry("key/kernel", "key/kernel", "H J O -> H J O"),
    Entry("key/bias", "key/bias", "H O -> H O", optional="bias"),
    Entry("gate/kernel", "gate/kernel", "H I V -> H I V", optional="gate"),
    Entry("gate/bias", "gate/bias", "H V -> H V", optional=("gate", "bias")),
    Entry("value/kernel", "value/kernel", "H K V -> H K V"),
    Entry("value/bias", "value/bias", "H V -> H V", optional="bias"),
    Entry("attention_output/kernel", "attention_output/kernel", "H V ... -> H V ..."),
    Entry("attention_output/bias", "attention_output/bias", "... -> ...", optional="bias"),
)
LAYOUTS = (Layout("ours", "kmha.MultiHeadAttention: kernels (heads, in, head size)", ATTENTION),)
