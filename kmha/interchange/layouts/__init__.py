'''The layouts, one module for each library, book or course. `registry.py` finds all of them.

**To add a layout**, add a module to this folder and its test to `tests/interchange/layouts`. The module defines
`LAYOUTS`, and nothing else has to change: `kmha convert --list` then prints the new layout too.

    """Attention of my course."""

    from kmha.interchange.layout import Entry, Layout

    LAYOUTS = (
        Layout(
            "my-attention",
            "attention of my course: x @ w, heads in one axis",
            (
                Entry("w{q}.kernel", "query/kernel", "I (H O) -> H I O"),
                ...
                Entry("out.kernel", "attention_output/kernel", "(H O) E -> H O E"),
                Entry("out.bias", "attention_output/bias", "E -> E", optional="bias"),
            ),
        ),
    )

`layout.py` describes what an entry can say, `axes.py` the patterns, and `canonical.py` the canonical paths and shapes.
'''
