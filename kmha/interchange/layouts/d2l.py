"""Four linear layers, each for all heads: "Dive into Deep Learning", section 11.5, and other courses.

The book's `W_q`, `W_k` and `W_v` hold the h projections of the formula side by side (`kmha.interchange.heads`).
"""

from kmha.interchange.layout import Entry, Layout, Rule

_SQUARE = Rule("E = H O", "the model, all heads together and the output have one width.")
_ROLES = ("query", "key", "value", "attention_output")


def _layout(name: str, says: str, layers: tuple[str, ...], kernel: str, into: str, out: str) -> Layout:
    """Return a layout with one linear layer for each role.

    Args:
        name: Name of the layout.
        says: Description of the layout.
        layers: Names of the layers of query, key, value and output.
        kernel: Name of a layer's matrix, with the separator before it.
        into: Axes of the matrices that project into heads.
        out: Axes of the output's matrix.
    """
    entries = []
    for layer, role, letter in zip(layers, _ROLES, "IJKE", strict=True):
        if role == "attention_output":
            patterns = f"{out} -> H O E", "E -> E"
        else:
            patterns = f"{into.replace('I', letter)} -> H {letter} O", "(H O) -> H O"
        entries += [
            Entry(layer + kernel, f"{role}/kernel", patterns[0]),
            Entry(f"{layer}{kernel[0]}bias", f"{role}/bias", patterns[1], optional="bias"),
        ]
    return Layout(name, says, tuple(entries), (_SQUARE,))


_D2L, _TORCH = ("W_q", "W_k", "W_v", "W_o"), (".weight", "(H O) I", "E (H O)")
LAYOUTS = (
    _layout("d2l", "the D2L book on torch: W_q, W_k, W_v, W_o (out, in)", _D2L, *_TORCH),
    _layout("d2l-keras", "the D2L book on TensorFlow: W_q, … (in, out)", _D2L, "/kernel", "I (H O)", "(H O) E"),
    _layout(
        "implemented-transformer",
        "The Implemented Transformer, on torch: Wq, Wk, Wv, Wo (out, in)",
        ("Wq", "Wk", "Wv", "Wo"),
        *_TORCH,
    ),
    _layout(
        "annotated-transformer",
        "The Annotated Transformer, on torch: linears.0 to linears.3 (out, in)",
        ("linears.0", "linears.1", "linears.2", "linears.3"),
        *_TORCH,
    ),
)
