"""The four linear layers of "Dive into Deep Learning", section 11.5: all heads in one kernel of `num_hiddens` features.

That book's `W_q`, `W_k` and `W_v` hold the h projections of the formula side by side (`kmha.interchange.heads`).
"""

from kmha.interchange.layout import Entry, Layout, Rule

_SQUARE = Rule("E = H O", "`num_hiddens` is both the width of all heads together and that of the output.")


def _layout(name: str, says: str, kernel: str, into: str, out: str) -> Layout:
    """A layout with one matrix for each role; `into` and `out` are the axes of those matrices."""
    entries = [
        Entry(f"W_o{kernel}", "attention_output/kernel", f"{out} -> H O E"),
        Entry(f"W_o{kernel[0]}bias", "attention_output/bias", "E -> E", optional="bias"),
    ]
    for role, letter in (("value", "K"), ("key", "J"), ("query", "I")):
        w = f"W_{role[0]}"
        entries[:0] = [
            Entry(w + kernel, f"{role}/kernel", f"{into.replace('I', letter)} -> H {letter} O"),
            Entry(f"{w}{kernel[0]}bias", f"{role}/bias", "(H O) -> H O", optional="bias"),
        ]
    return Layout(name, says, tuple(entries), (_SQUARE,))


LAYOUTS = (
    _layout("d2l", "the D2L book on torch: W_q, W_k, W_v, W_o (out, in)", ".weight", "(H O) I", "E (H O)"),
    _layout("d2l-keras", "the D2L book on TensorFlow: W_q, W_k, W_v, W_o (in, out)", "/kernel", "I (H O)", "(H O) E"),
)
