"""`kmha`: the commands and their options."""

from pathlib import Path
from typing import Any

import click

from kmha import __version__
from kmha.bench import cases

DTYPES = ("float64", "float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
BACKENDS = ("tensorflow", "jax", "torch")


def _in_a_folder(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """So that what takes minutes to find out does not end in a folder that does not exist."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist.", context, option)
    return path


def _file(name: str, variable: str, text: str, dash: bool = False) -> Any:
    """An option that names a file to write."""
    kind = click.Path(dir_okay=False, writable=True, allow_dash=dash, path_type=Path)
    return click.option(name, variable, type=kind, metavar="FILE", callback=_in_a_folder, help=text)


def _choices(name: str, variable: str, values: Any, text: str) -> Any:
    return click.option(name, variable, type=click.Choice(values), multiple=True, help=text)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kmha")
def main() -> None:
    """Multi-head attention on Keras 3 that can be read, trusted and dropped in for the built-in layer."""


@main.command()
@click.option("--cases", type=click.IntRange(min=1), default=200, show_default=True, help="How many random cases.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random cases.")
@click.option("--dtype", type=click.Choice(DTYPES), help="For all cases. [default: float64 for most, all for some]")
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="tensorflow",
    show_default=True,
    envvar="KERAS_BACKEND",
    show_envvar=True,
    help="What Keras computes with.",
)
@click.option("--xla", is_flag=True, help="Compile every case with XLA too, not only every tenth.")
@click.option("--layer", metavar="MODULE:CLASS", help="Another layer with the built-in's arguments, in place of ours.")
@_file("--json", "json_file", "Write the whole report there too.")
def compare(**options: Any) -> None:
    """Compare a layer with keras.layers.MultiHeadAttention and with a float64 reference.

    Random configurations over all arguments, weights copied across, forward and gradients, eager and traced, and some
    compiled by XLA. The exit status is 1 if they differ, and then the smallest case that shows it is printed as code.

    \b
    Examples:
      kmha compare
      kmha compare --cases 1000 --dtype float32 --json report.json
      kmha compare --layer my_package.attention:MyAttention
    """
    from kmha.cli import comparison

    raise SystemExit(comparison.run(**options))


@main.command()
@click.option("--size", "sizes", multiple=True, metavar="SIZE", help="short, medium, long or BxT. [default: all three]")
@_choices("--kind", "kinds", cases.KINDS, "[default: plain; all of them from T = 2048 on]")
@_choices("--pass", "passes", cases.PASSES, "A step is forward and gradients. [default: both]")
@_choices("--mode", "modes", cases.MODES, "[default: graph]")
@_choices("--against", "against", (cases.BUILTIN, *cases.PEERS), "[default: all that are installed]")
@click.option("--width", type=click.IntRange(min=1), default=512, show_default=True, help="Of input and output.")
@click.option("--heads", type=click.IntRange(min=1), default=8, show_default=True, help="They divide the width.")
@click.option("--all", "everything", is_flag=True, help="All kinds, modes and memory, of all sizes chosen: hours.")
@click.option("--rounds", type=click.IntRange(min=1), default=9, show_default=True, help="Of each row, in turn.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=2.0, show_default=True, help="For the rounds of a row."
)
@click.option(
    "--memory/--no-memory", default=None, help="Of every row, or of none. [default: causal rows from T = 2048 on]"
)
@_file("--json", "json_file", "Write everything that was measured there, every round.")
@_file("--markdown", "markdown", "Write the table there, for a README; - is standard output.", dash=True)
@_file("--plot", "picture", "Draw time and memory against T there (png, svg, pdf); causal, T = 64 … 8192.")
def bench(**options: Any) -> None:
    """Measure time and memory against keras.layers.MultiHeadAttention and other peers.

    The built-in layer, the formulation of TensorFlow Addons, torch.nn.MultiheadAttention and torch's
    scaled_dot_product_attention ("sdpa") get the same numbers, must give the same results, and run in turn on the
    processor. Options that choose may be given more than once.

    \b
    Examples:
      kmha bench
      kmha bench --size long --size 2x1000 --kind causal --mode graph --mode xla
      kmha bench --json bench.json --markdown bench.md
      kmha bench --plot bench.png
    """
    from kmha.cli import benchmark

    chosen = ("sizes", "kinds", "passes", "modes", "against", "width", "heads", "everything")
    choice = benchmark.Choice(**{name: options.pop(name) for name in chosen})
    raise SystemExit(benchmark.run(choice, **options))
