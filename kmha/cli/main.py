"""`kmha`: the commands and their options."""

import errno
import io
import sys
from pathlib import Path
from typing import Any

import click

from kmha import __version__
from kmha.bench import cases
from kmha.cli import verify
from kmha.cli.course import course
from kmha.cli.options import (
    EXISTING,
    EXISTING_FOLDER,
    FILE,
    FOLDER,
    N_BEST,
    Number,
    SearchChoice,
    choices,
    in_a_folder,
    integer,
    search_options,
    to_write,
)
from kmha.sandbox.control_characters import visible

TRAINING_DTYPES = ("float32", "mixed_float16", "mixed_bfloat16")
_SEED = click.IntRange(0, 2**32 - 1)  # NumPy's range
_MODEL = click.argument("folder", metavar="DIR", type=FOLDER)


class _Commands(click.Group):
    """A group whose commands report errors of the operating system in one line, and no error controls a terminal."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return self._invoke(context)
        except click.ClickException as error:
            vars(error)["message"] = visible(error.message)  # it can quote any file; click declares it final
            raise

    def _invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has gone: click exits silently
                raise
            from kmha.cli import common  # importing it takes a quarter of the time of `--help`

            raise click.ClickException(common.describe_os_error(error)) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kmha")
def main() -> None:
    """Multi-head attention on Keras 3 that can be read, trusted and dropped in for the built-in layer."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name in another script must not end a command
        sys.stdout.reconfigure(errors="replace")


main.add_command(verify.compare)
main.add_command(verify.diagnose)
main.add_command(course)


@main.command(short_help="Measure time and memory.")
@click.option("--size", "sizes", multiple=True, metavar="SIZE", help="short, medium, long or BxT. [default: all three]")
@choices("--kind", "kinds", cases.KINDS, "Kind of attention. [default: plain; all kinds from T = 2048]")
@choices("--pass", "passes", cases.PASSES, "A step is a forward pass and gradients. [default: both]")
@choices("--mode", "modes", cases.MODES, "How the functions run. [default: graph; xla on JAX, eager on torch]")
@click.option(
    "--backend", type=click.Choice([*cases.BACKENDS]), default="tensorflow", show_default=True, help="Keras' backend."
)
@click.option("--dtype", type=click.Choice(cases.DTYPES), default="float32", show_default=True, help="Dtype policy.")
@click.option("--model", "models", is_flag=True, help="Measure a Transformer's training step and decoding instead.")
@click.option("--cache", is_flag=True, help="Measure generation with a cache against KerasHub. [no other options]")
@click.option(
    "--collectives", is_flag=True, help="Count what devices exchange if they split the heads (JAX). [no other options]"
)
@choices("--against", "against", (cases.BUILTIN, *cases.ALL_PEERS), "Peer. [default: all that are installed]")
@integer("--width", "Input and output features.", default=cases.WIDTH)
@integer("--heads", "Number of heads; must divide the width.", default=cases.HEADS)
@click.option(
    "--all", "everything", is_flag=True, help="Measure all kinds, modes and memory for the sizes; takes hours."
)
@integer("--rounds", "Rounds per row.", default=9)
@click.option("--seconds", type=Number(min=0), default=2.0, show_default=True, help="Time for the rounds of a row.")
@click.option(
    "--memory/--no-memory", default=None, help="Measure memory for all rows or none. [default: causal from T = 2048]"
)
@to_write("--json", "json_file", "Write all measurements to FILE, every round included.")
@to_write("--markdown", "markdown", "Write the table to FILE as Markdown; - is standard output.", dash=True)
@to_write("--plot", "picture", "Draw time and memory against T to FILE (png, svg, pdf): causal, T = 64 … 8192.")
def bench(**options: Any) -> None:
    """Measure time and memory against keras.layers.MultiHeadAttention and other peers.

    kmha, the built-in layer, the einsums of TensorFlow Addons, torch.nn.MultiheadAttention and torch's
    scaled_dot_product_attention ("sdpa") get the same inputs and must give the same results. They run in turn, on
    the CPU. With --backend jax or torch, kmha and the built-in layer run on the device that JAX or torch chooses, such
    as a GPU. Options that select sizes, kinds, passes, modes and peers can be repeated. --model compares whole
    Transformers instead, made of the layers of Keras, kmha, KerasHub and torch. --cache measures how long the layers
    take to generate a position. --collectives measures no time: it compiles a block for 8 simulated devices, and
    computes what training costs on a thousand.

    \b
    Examples:
      kmha bench
      kmha bench --size long --size 2x1000 --kind causal --mode graph --mode xla
      kmha bench --json bench.json --markdown bench.md
      kmha bench --plot bench.png
      kmha bench --model --seconds 60
      kmha bench --backend torch --dtype mixed_bfloat16 --size 8x2048
    """
    from kmha.cli import benchmark

    for name, run in (("cache", benchmark.print_generating), ("collectives", benchmark.print_collectives)):
        if options.pop(name):
            run()
            return
    chosen = [
        "sizes",
        "kinds",
        "passes",
        "modes",
        "against",
        "width",
        "heads",
        "everything",
        "models",
        "backend",
        "dtype",
    ]
    selected = benchmark.BenchmarkOptions(**{name: options.pop(name) for name in chosen})
    raise SystemExit(benchmark.run_benchmark(selected, **options))


@main.command(short_help="Translate text.")
@_MODEL
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@search_options()
@click.option("--attention", is_flag=True, help="Show the attention to the source as text, averaged over the heads.")
@click.option(
    "--attention-layer", "layer", type=int, default=-1, metavar="N", help="Layer to show, from 1. [default: the last]"
)
@click.option("--attention-head", "head", type=int, metavar="N", help="Head to show, counted from 1. [default: mean]")
@to_write("--picture", "picture", "Draw the attention for one TEXT (png, svg): all heads, or the chosen one.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each text, one per line.")
def translate(folder: Path, texts: tuple[str, ...], **options: Any) -> None:
    """Translate with the model that `kmha train --out DIR` has trained.

    Texts come from the command line, from a pipe (one text per line), or otherwise from a prompt. Standard output gets
    one line for each text, and standard error gets the warnings.

    \b
    Examples:
      kmha translate model "the 3rd of May 1984"
      kmha translate model --n-best 3 --attention "ein Hund läuft"
      kmha translate model < captions.en > captions.de
      kmha translate model
    """
    from kmha.cli import translation

    search = SearchChoice.take(options)
    raise SystemExit(translation.translate(folder, texts, search, translation.OutputChoice(**options)))


@main.command(short_help="Write a page with pictures of attention.")
@_MODEL
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@search_options(N_BEST)
@click.option(
    *("-o", "--output"),
    type=FILE,
    metavar="FILE",
    default="attention.html",
    show_default=True,
    callback=in_a_folder,
    help="HTML file to write.",
)
@click.option("--steps", is_flag=True, help="Add the steps of each head with their numbers: project, logits, … merge.")
def attention(folder: Path, texts: tuple[str, ...], output: Path, steps: bool, **options: Any) -> None:
    """Translate texts, and write the attention of every head to a page.

    The page is one HTML file that opens in any browser and needs no network. There you choose text, layer and head, and
    look at the attention as a heat map or as arcs between tokens. Standard output gets the path of the file.

    \b
    Examples:
      kmha attention model "the 3rd of May 1984"
      kmha attention model --beam 5 -o dogs.html "ein Hund läuft" "zwei Hunde laufen"
      kmha attention model --steps "ein Hund läuft"
    """
    from kmha.cli import attention as page

    raise SystemExit(page.write(folder, texts, SearchChoice.take(options), output, steps))


@main.command(short_help="Score a translation model.")
@_MODEL
@click.option(
    "--data", "data_folder", type=EXISTING_FOLDER, metavar="DIR", help="Files of Multi30k, for a model trained on them."
)
@click.option("--source", type=EXISTING, metavar="FILE", help="Any text, one sentence per line; plain or .gz.")
@click.option("--target", type=EXISTING, metavar="FILE", help="Translation of --source, line by line.")
@click.option("--test", "tests", multiple=True, metavar="NAME", help="Test set; can be repeated. [default: all]")
@search_options(N_BEST)
@integer("--step", "Use the model after this step, if its weights were kept.", metavar="N")
@to_write("--json", "json_file", "Write all results to FILE.")
@to_write("--output", "output", "Write the translations of a test set to FILE.")
def evaluate(folder: Path, step: int | None, json_file: Path | None, output: Path | None, **options: Any) -> None:
    """Measure how well and how fast a model translates.

    Reports BLEU as sacreBLEU computes it (of the plain text; lowercased; lowercased and tokenized as in papers on
    Multi30k) and chrF2; for dates, the percentage of exact matches. Each score comes with its signature. Tokens per
    second count the tokens of the translations.

    \b
    Examples:
      kmha evaluate model
      kmha evaluate model --data multi30k --test test_2016_flickr --beam 5 --output flickr.de
      kmha evaluate model --source mine.en --target mine.de --json scores.json
    """
    from kmha.cli import evaluation

    search = SearchChoice.take(options)
    data = evaluation.DataChoice(*(options.pop(name) for name in ("data_folder", "source", "target", "tests")))
    raise SystemExit(evaluation.evaluate(folder, data, search, step=step, json_file=json_file, output=output))


@main.command(short_help="Remove the least important heads of a translation model.")
@_MODEL
@click.option(
    "--keep", type=Number(min=0, max=1, min_open=True), default=0.5, show_default=True, help="Share of heads to keep."
)
@integer("--steps", "Number of steps. [default: one for each head, at most 12]", metavar="N")
@click.option(
    "--rank",
    type=click.Choice(("gradient", "ablation")),
    default="gradient",
    show_default=True,
    help="Rank by the gradient of a gate at each head, or by the loss without each head, which takes longer.",
)
@click.option(
    "--data", "data_folder", type=EXISTING_FOLDER, metavar="DIR", help="Files of Multi30k, for a model trained on them."
)
@click.option("--source", type=EXISTING, metavar="FILE", help="Text to validate on, one sentence per line.")
@click.option("--target", type=EXISTING, metavar="FILE", help="Translation of --source, line by line.")
@click.option("--out", "-o", type=FOLDER, metavar="DIR", callback=in_a_folder, help="New folder for the pruned model.")
@to_write("--csv", "csv_file", "Write the table to FILE as CSV.")
@to_write("--json", "json_file", "Write all results to FILE.")
def prune(folder: Path, **options: Any) -> None:
    """Remove heads from a model step by step, and print loss, score and time after each step.

    Each step ranks all heads on the validation set, never on a test set, and removes those of least importance (Michel
    et al. 2019). Each attention layer keeps at least one head. Nothing is trained. The score is BLEU or, for dates,
    the percentage of exact matches; the time is that of translating the validation set greedily. The model in DIR
    stays as it is: --out writes the pruned one, for `kmha translate` and `kmha evaluate`.

    \b
    Examples:
      kmha prune dates-model
      kmha prune multi30k-model --data multi30k --keep 0.75 --out smaller
      kmha prune model --source mine.en --target mine.de --rank ablation --steps 3 --csv steps.csv
    """
    from kmha.cli import evaluation, pruning

    data = evaluation.DataChoice(*(options.pop(name) for name in ("data_folder", "source", "target")))
    raise SystemExit(pruning.prune(folder, data, pruning.PruningChoice(**options)))


@main.command(short_help="Train a translation model.")
@click.argument(
    "task", type=click.Choice(("dates", "multi30k", "files")), required=False, metavar="[dates|multi30k|files]"
)
@click.option("--out", type=FOLDER, metavar="DIR", help="Model folder to create, or to resume. [default: TASK-model]")
@click.option("--data", type=FOLDER, metavar="DIR", help="Folder with the files of Multi30k.")
@click.option("--direction", type=click.Choice(("en-de", "de-en")), help="Direction for Multi30k. [default: en-de]")
@click.option("--source", type=FILE, metavar="FILE", help="Your own text, one sentence per line; plain or .gz.")
@click.option("--target", type=FILE, metavar="FILE", help="Translation of --source, line by line.")
@click.option(
    "--validation-source", type=FILE, metavar="FILE", help="Text to validate on. [default: split off from --source]"
)
@click.option("--validation-target", type=FILE, metavar="FILE", help="Translation of --validation-source.")
@click.option(
    "--profile", default="cpu", show_default=True, metavar="cpu|base|FILE", help="Built-in settings, or a TOML file."
)
@click.option("--set", "entries", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a setting; can be repeated.")
@click.option("--minutes", type=Number(min=0, min_open=True), help="Stop after this many minutes and save the model.")
@click.option("--seed", type=_SEED, default=0, show_default=True, help="Seed of weights, dropout and data order.")
@click.option(
    "--dtype", type=click.Choice(TRAINING_DTYPES), default="float32", show_default=True, help="Training's dtype policy."
)
@integer("--devices", "Devices that share each batch: GPUs, or parts of the CPU if there is no GPU.", default=1)
@click.option(
    "--probe",
    nargs=2,
    metavar="SOURCE TARGET",
    help="A text and its translation. A page in the folder's logs shows its attention at each check.",
)
@click.option("--restart", is_flag=True, help="Delete the run in the folder and start again.")
def train(**options: Any) -> None:
    """Train a Transformer that translates: dates (the default), Multi30k, or your own text.

    To resume a stopped run, give the same command again. It continues from the last checkpoint, and ends with the
    same weights as an uninterrupted run. The folder holds config, tokenizer, weights and logs; `kmha translate` needs
    nothing else.

    KERAS_BACKEND chooses tensorflow (the default), jax or torch. On tensorflow and jax, several devices can share each
    batch (--devices), and so can several machines: start the same command on each, with TF_CONFIG for tensorflow, or
    KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID for jax. All need the same folder, and the first
    machine writes to it.

    \b
    Examples:
      kmha train dates
      kmha train multi30k --data multi30k --direction de-en --minutes 60 --out de-en
      kmha train --source train.de.gz --target train.en.gz --set training.steps=2000
      kmha train dates --profile my.toml
      kmha train dates --probe "3 mai 1984" 1984-05-03
      KERAS_BACKEND=jax kmha train dates --devices 2
    """
    from kmha.cli import training

    raise SystemExit(training.train(training.TrainingChoice(**options)))


@main.command(short_help="Convert weights between layouts.")
@click.argument("in_file", metavar="IN", type=EXISTING, required=False)
@click.argument("out_file", metavar="[OUT]", type=FILE, required=False, callback=in_a_folder)
@click.option("--from", "source", default="auto", show_default=True, metavar="LAYOUT|auto", help="Layout of IN.")
@click.option("--to", "target", metavar="LAYOUT", help="Layout of OUT; required with OUT.")
@integer("--heads", "Number of heads, if the shapes do not determine it.", metavar="N")
@click.option(
    "--fold",
    is_flag=True,
    help="If OUT has no place for a weight, merge it into another one, provided that the output stays exactly the "
    "same.",
)
@click.option("--prefix", metavar="TEXT", help="Convert only names that begin with TEXT, such as one layer of a model.")
@click.option("--list", "list_layouts", is_flag=True, help="Print all layouts.")
@to_write("--json", "json_file", "Write to FILE which array became which.")
def convert(
    in_file: Path | None, out_file: Path | None, list_layouts: bool, json_file: Path | None, **options: Any
) -> None:
    """Convert the weights in a file from one layer's layout to another's.

    Reads .weights.h5, .keras, .npz, .safetensors, and torch's .pt, .pth and .bin; writes all of these except .keras. No
    code in a file is run. Prints which array became which, and what was folded, left out or filled with zeros.
    Without OUT, kmha only shows what it would do; without OUT and --to, it shows what IN holds. The exit status is 2 if
    the weights do not determine their layout.

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
        if not (out_file or json_file or options["fold"]) and options["source"] == conversion.AUTO:
            raise SystemExit(conversion.show_file(in_file, options["heads"], options["prefix"]))
        raise click.UsageError("Missing option '--to', a layout. `kmha convert --list` prints them.")
    raise SystemExit(conversion.convert_file(in_file, out_file, conversion.Conversion(**options), json_file))
