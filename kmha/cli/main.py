"""`kmha`: the commands and their options."""

import errno
from pathlib import Path
from typing import Any

import click

from kmha import __version__
from kmha.bench import cases
from kmha.cli import checks
from kmha.cli.course import course
from kmha.cli.options import EXISTING, FILE, FOLDER, Number, choices, in_a_folder, searching, to_write

TRAINED = ("float32", "mixed_float16", "mixed_bfloat16")
_SEED = click.IntRange(0, 2**32 - 1)  # as NumPy takes them
_MODEL = click.argument("folder", metavar="DIR", type=FOLDER)


class _Commands(click.Group):
    """Says in a line what the system would not do."""

    def invoke(self, context: click.Context) -> Any:
        """As click's."""
        try:
            return super().invoke(context)
        except OSError as error:
            if error.errno == errno.EPIPE:  # who read our output has gone: click ends without a word
                raise
            from kmha.cli import common  # which takes a quarter of the time in which `--help` starts

            raise click.ClickException(common.told(error)) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kmha")
def main() -> None:
    """Multi-head attention on Keras 3 that can be read, trusted and dropped in for the built-in layer."""


main.add_command(checks.compare)
main.add_command(checks.diagnose)
main.add_command(course)


@main.command()
@click.option("--size", "sizes", multiple=True, metavar="SIZE", help="short, medium, long or BxT. [default: all three]")
@choices("--kind", "kinds", cases.KINDS, "[default: plain; all kinds from T = 2048]")
@choices("--pass", "passes", cases.PASSES, "A step is a forward pass and gradients. [default: both]")
@choices("--mode", "modes", cases.MODES, "[default: graph]")
@click.option("--model", "models", is_flag=True, help="Measure a Transformer's training step and decoding instead.")
@choices("--against", "against", (cases.BUILTIN, *cases.ALL_PEERS), "[default: all that are installed]")
@click.option(
    "--width", type=click.IntRange(min=1), default=cases.WIDTH, show_default=True, help="Input and output features."
)
@click.option(
    "--heads",
    type=click.IntRange(min=1),
    default=cases.HEADS,
    show_default=True,
    help="Number of heads; must divide the width.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Measure all kinds, modes and memory for the sizes; takes hours."
)
@click.option("--rounds", type=click.IntRange(min=1), default=9, show_default=True, help="Rounds per row.")
@click.option("--seconds", type=Number(min=0), default=2.0, show_default=True, help="Time for the rounds of a row.")
@click.option(
    "--memory/--no-memory",
    default=None,
    help="Measure memory for all rows or none. [default: causal rows from T = 2048]",
)
@to_write("--json", "json_file", "Write all measurements to FILE, every round included.")
@to_write("--markdown", "markdown", "Write the table to FILE as Markdown; - is standard output.", dash=True)
@to_write("--plot", "picture", "Draw time and memory against T to FILE (png, svg, pdf): causal, T = 64 … 8192.")
def bench(**options: Any) -> None:
    """Measure time and memory against keras.layers.MultiHeadAttention and other peers.

    kmha, the built-in layer, the einsums of TensorFlow Addons, torch.nn.MultiheadAttention and torch's
    scaled_dot_product_attention ("sdpa") get the same inputs and must give the same results. They run in turn, on the
    CPU. Options that select sizes, kinds, passes, modes and peers can be repeated. --model compares whole Transformers
    instead, made of the layers of Keras, kmha, KerasHub and torch.

    \b
    Examples:
      kmha bench
      kmha bench --size long --size 2x1000 --kind causal --mode graph --mode xla
      kmha bench --json bench.json --markdown bench.md
      kmha bench --plot bench.png
      kmha bench --model --seconds 60
    """
    from kmha.cli import benchmark

    chosen = ("sizes", "kinds", "passes", "modes", "against", "width", "heads", "everything", "models")
    selected = benchmark.BenchmarkOptions(**{name: options.pop(name) for name in chosen})
    raise SystemExit(benchmark.run_benchmark(selected, **options))


@main.command()
@_MODEL
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@searching
@click.option("--n-best", type=click.IntRange(min=1), default=1, help="So many of each, after their number and score.")
@click.option("--sample", is_flag=True, help="Draw translations at random, as the model finds them probable.")
@click.option("--temperature", type=Number(min=1e-6), metavar="T", help="Below 1: more probable.")
@click.option("--top-k", type=click.IntRange(min=1), metavar="N", help="Draw among the N most probable tokens.")
@click.option("--top-p", type=Number(0, 1, min_open=True), metavar="P", help="Or among those that hold P.")
@click.option("--seed", type=click.IntRange(min=0), help="Of what is drawn: the same gives the same.")
@click.option("--attention", is_flag=True, help="Show what was looked at, as characters; the mean over the heads.")
@click.option("--attention-layer", "layer", type=int, default=-1, metavar="N", help="From 1. [default: the last]")
@click.option("--attention-head", "head", type=int, metavar="N", help="One, from 1, in place of the mean.")
@to_write(
    "--picture", "picture", "Draw the attention of one TEXT there (png, svg): of all heads, unless one is chosen."
)
@click.option("--json", "as_json", is_flag=True, help="Print an object for each text, a line each.")
def translate(folder: Path, texts: tuple[str, ...], **options: Any) -> None:
    """Translate with the model that `kmha train --out DIR` made.

    Texts come from the command line, a line each from a pipe, or, if there is neither, from a prompt. Translations are
    written to standard output, a line for each line; what is to be said of a text goes to standard error.

    \b
    Examples:
      kmha translate model "the 3rd of May 1984"
      kmha translate model --n-best 3 --attention "ein Hund läuft"
      kmha translate model < captions.en > captions.de
      kmha translate model
    """
    from kmha.cli import translation

    shown = {name: options.pop(name) for name in ("as_json", "attention", "picture", "layer", "head")}
    raise SystemExit(translation.run(folder, texts, translation.Search(**options), translation.Shown(**shown)))


@main.command()
@_MODEL
@click.option(
    "--data",
    "data_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With the files of multi30k, for a model of these.",
)
@click.option("--source", type=EXISTING, metavar="FILE", help="Any text, a line each, plain or gz,")
@click.option("--target", type=EXISTING, metavar="FILE", help="and its translation.")
@click.option("--test", "tests", multiple=True, metavar="NAME", help="Of the task's sets. [default: all test sets]")
@searching
@click.option("--step", type=click.IntRange(min=1), metavar="N", help="The model as of this step, if it was kept.")
@to_write("--json", "json_file", "Write everything there that was measured.")
@to_write("--output", "output", "Write the translations of a test set there.")
def evaluate(folder: Path, step: int | None, json_file: Path | None, output: Path | None, **options: Any) -> None:
    """Measure how well and how fast a model translates.

    BLEU as sacreBLEU computes it: of the text as it is, lowercased, and lowercased and tokenized as papers on Multi30k
    report it; chrF2; for dates how many are right; each with its signature. Tokens a second are those of the
    translations.

    \b
    Examples:
      kmha evaluate model
      kmha evaluate model --data multi30k --test test_2016_flickr --beam 5 --output flickr.de
      kmha evaluate model --source mine.en --target mine.de --json scores.json
    """
    from kmha.cli import evaluation, translation

    data = evaluation.Data(*(options.pop(name) for name in ("data_folder", "source", "target", "tests")))
    search = translation.Search(**options)
    raise SystemExit(evaluation.run(folder, data, search, step=step, json_file=json_file, output=output))


@main.command()
@click.argument(
    "task", type=click.Choice(("dates", "multi30k", "files")), required=False, metavar="[dates|multi30k|files]"
)
@click.option(
    "--out", type=FOLDER, metavar="DIR", help="The model folder to make, or to go on in. [default: TASK-model]"
)
@click.option("--data", type=FOLDER, metavar="DIR", help="The files of Multi30k.")
@click.option("--direction", type=click.Choice(("en-de", "de-en")), help="Of Multi30k. [default: en-de]")
@click.option("--source", type=FILE, metavar="FILE", help="Text of your own, a sentence a line; plain or .gz.")
@click.option("--target", type=FILE, metavar="FILE", help="Its translation, line by line.")
@click.option("--validation-source", type=FILE, metavar="FILE", help="[default: some of the text is set aside]")
@click.option("--validation-target", type=FILE, metavar="FILE", help="Its translation.")
@click.option("--profile", default="cpu", show_default=True, metavar="cpu|base|FILE", help="Settings, or a TOML file.")
@click.option("--set", "entries", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting over the profile's.")
@click.option("--minutes", type=Number(min=0, min_open=True), help="End in time, with a finished model.")
@click.option("--seed", type=_SEED, default=0, show_default=True, help="Of weights, dropout and order.")
@click.option("--dtype", type=click.Choice(TRAINED), default="float32", show_default=True, help="To compute in.")
@click.option("--restart", is_flag=True, help="Begin again in a used folder, without what is there.")
def train(**options: Any) -> None:
    """Train a Transformer that translates: dates (the default), Multi30k, or text of your own.

    A run that was stopped, in whatever way, goes on where its last check was when the same command is given again, and
    ends with the same weights. The folder holds config, tokenizer, weights and logs, and is all that `kmha translate`
    needs.

    \b
    Examples:
      kmha train dates
      kmha train multi30k --data multi30k --direction de-en --minutes 60 --out de-en
      kmha train --source train.de.gz --target train.en.gz --set training.steps=2000
      kmha train dates --profile my.toml
    """
    from kmha.cli import training

    raise SystemExit(training.run(training.Choice(**options)))


@main.command()
@click.argument("in_file", metavar="IN", type=EXISTING, required=False)
@click.argument("out_file", metavar="[OUT]", type=FILE, required=False, callback=in_a_folder)
@click.option("--from", "source", default="auto", show_default=True, metavar="LAYOUT|auto", help="Layout of IN.")
@click.option("--to", "target", metavar="LAYOUT", help="Layout of OUT.")
@click.option(
    "--heads", type=click.IntRange(min=1), metavar="N", help="Number of heads, if the shapes do not determine it."
)
@click.option("--fold", is_flag=True, help="Fold weights that OUT has no place for into others, where that is exact.")
@click.option("--prefix", metavar="TEXT", help="Convert only names that begin with TEXT, such as one layer of a model.")
@click.option("--list", "list_layouts", is_flag=True, help="Print all layouts.")
@to_write("--json", "json_file", "Write to FILE which array became which.")
def convert(
    in_file: Path | None, out_file: Path | None, list_layouts: bool, json_file: Path | None, **options: Any
) -> None:
    """Convert the weights in a file from one layer's layout to another's.

    Reads .weights.h5, .keras, .npz, .safetensors, and torch's .pt, .pth and .bin; writes all of these except .keras. No
    code in a file is run. Prints which array became which, and what was folded, left out or filled with zeros.
    Without OUT, nothing is written. The exit status is 2 if the weights do not determine their layout.

    \b
    Examples:
      kmha convert --list
      kmha convert attention.pt attention.weights.h5 --to keras --heads 8
      kmha convert model.keras block2.npz --prefix block2/ --to ours
      kmha convert attention.npz addons.npz --from keras --to addons --fold
    """
    from kmha.cli import conversion

    if list_layouts:
        raise SystemExit(conversion.print_layouts(json_file))
    if in_file is None:
        raise click.UsageError("Missing argument 'IN', a file of weights.")
    if options["target"] is None:
        raise click.UsageError("Missing option '--to', a layout. `kmha convert --list` prints them.")
    raise SystemExit(conversion.convert_file(in_file, out_file, conversion.Conversion(**options), json_file))
