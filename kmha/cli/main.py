"""`kmha`: the commands and their options."""

from pathlib import Path
from typing import Any

import click

from kmha import __version__

DTYPES = ("float64", "float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
BACKENDS = ("tensorflow", "jax", "torch")


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
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the whole report there too.",
)
def compare(json_file: Path | None, **options: Any) -> None:
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

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {json_file.parent} does not exist.", param_hint="'--json'")
    raise SystemExit(comparison.run(json_file=json_file, **options))
