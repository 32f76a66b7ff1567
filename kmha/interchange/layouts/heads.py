"""Heads with three small linear layers each, as courses write them (`kmha.interchange.heads`)."""

from kmha.interchange.layout import Entry, Layout


def _layout(name: str, says: str, into: dict[str, str], out: str) -> Layout:
    """Return a layout with one linear layer (out, in) per head and role, and one for the output of all heads."""
    entries = []
    for (role, theirs), letter in zip(into.items(), "IJK", strict=True):
        size = "V" if role == "value" else "O"
        entries += [
            Entry(f"{theirs}.weight", f"{role}/kernel", f"H {size} {letter} -> H {letter} {size}"),
            Entry(f"{theirs}.bias", f"{role}/bias", f"H {size} -> H {size}", "bias"),
        ]
    entries += [
        Entry(f"{out}.weight", "attention_output/kernel", "E (H V) -> H V E"),
        Entry(f"{out}.bias", "attention_output/bias", "E -> E", "output bias"),
    ]
    return Layout(name, says, tuple(entries))


LAYOUTS = (
    _layout(
        "heads",
        "h heads with three linear layers each, named as in nanoGPT's lecture: heads.0.query.weight (out, in), proj",
        {role: f"heads.{{H}}.{role}" for role in ("query", "key", "value")},
        "proj",
    ),
    _layout(
        "heads-qkv",
        "h heads with three linear layers each: heads.0.q.weight (out, in), output_linear",
        {role: f"heads.{{H}}.{role[0]}" for role in ("query", "key", "value")},
        "output_linear",
    ),
)
