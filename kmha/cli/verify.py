"""Commands that check a layer: `kmha compare` and `kmha diagnose`."""

from typing import Any

import click

from kmha.cli.options import Number, integer, to_write

DTYPES = ("float64", "float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
BACKENDS = ("tensorflow", "jax", "torch")
_BACKEND = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="tensorflow",
    show_default=True,
    envvar="KERAS_BACKEND",
    show_envvar=True,
    help="Backend of Keras.",
)


@click.command(short_help="Compare a layer with the built-in one.")
@integer("--cases", "Number of random cases.", default=200)
@integer("--seed", "Seed of the random cases.", least=0, default=0)
@click.option(
    "--dtype", type=click.Choice(DTYPES), help="Dtype of all cases. [default: float64 for most, every dtype for some]"
)
@_BACKEND
@click.option("--xla", is_flag=True, help="Also compile every case with XLA, not only every tenth.")
@click.option("--layer", metavar="MODULE:CLASS", help="Another layer with the built-in's arguments, instead of ours.")
@click.option(
    "--ecosystem",
    is_flag=True,
    help="Try features of Keras and its backends instead: files, exports, optimizers, … Takes minutes.",
)
@integer("--jobs", "Number of processes. [default: one per processor, for at least 40 cases each]")
@to_write("--json", "json_file", "Write the whole report to FILE, too.")
def compare(ecosystem: bool, **options: Any) -> None:
    """Compare a layer with keras.layers.MultiHeadAttention and with a float64 reference.

    Draws random configurations of all arguments, copies the weights, and compares outputs and gradients, eager and
    traced, and for some cases compiled by XLA. If they differ, the exit status is 1, and the smallest case that shows
    the difference is printed as code.

    --ecosystem prints a table of what the built-in layer and kmha's work with on the backend. If a feature works with
    the built-in layer alone, or gives other numbers, and no reason is known, the exit status is 1.

    \b
    Examples:
      kmha compare
      kmha compare --cases 1000 --dtype float32 --json report.json
      kmha compare --layer my_package.attention:MyAttention
      kmha compare --ecosystem --backend torch
    """
    from kmha.cli import comparison

    if ecosystem:
        from kmha.cli import ecosystem as trying

        raise SystemExit(trying.run(options["backend"], options["json_file"]))

    raise SystemExit(comparison.run(**options))


@click.command(short_help="Name the mistake in an attention layer.")
@click.argument("candidate", metavar="MODULE:NAME", required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the constructor or function. Can be repeated.",
)
@click.option(
    "--mask",
    type=click.Choice(("attends", "hides", "adds")),
    help="What True (or 1) means in the mask; adds: the mask is added to the logits. [default: what makes it right]",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=NAME",
    help="What an argument is, such as query=entree or mask=hides:masque. Can be repeated.",
)
@click.option(
    "--expect",
    multiple=True,
    metavar="CHOICE",
    help="A design choice that a block must make, such as post-norm or activation-gelu. Can be repeated.",
)
@click.option(
    "--float16", is_flag=True, help="Require float16 to be right too. [default: only report what is wrong there]"
)
@integer("--seed", "Seed of sizes, weights, inputs.", least=0, default=0)
@_BACKEND
@click.option("--bank", is_flag=True, help="Test the diagnosis itself. Takes minutes.")
@click.option("--deform", is_flag=True, help="Find the published faults of DEForm. Takes minutes.")
@click.option("--zoo", is_flag=True, help="Diagnose the attention of public packages, and mutants. Takes half an hour.")
@click.option("--package", "packages", multiple=True, help="With --zoo: only this package. Can be repeated.")
@click.option(
    "--half",
    type=click.Choice(("tuned", "held-out", "both")),
    default="both",
    show_default=True,
    help="With --zoo: packages that improved the diagnosis, packages that only measure it, or both.",
)
@integer("--mutants", "With --zoo: maximum number of edits to draw at random.", least=0, default=2000)
@integer("--seeds", "With --zoo: number of seeds for each right entry.", default=5)
@click.option("--list", "list_tuned", is_flag=True, help="With --zoo: list what went wrong in the tuned half.")
@click.option("--list-held-out", is_flag=True, help="With --zoo: list what went wrong in the other half.")
@integer("--configurations", "With --bank: number of random configurations for every mistake.", least=0, default=3)
@integer("--pairs", "With --bank: number of pairs of mistakes.", least=0, default=40)
@integer("--rights", "With --bank: number of right layers.", least=0, default=10_000)
@click.option(
    "--time-limit",
    type=Number(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop if one call takes longer.",
)
@click.option("--details", is_flag=True, help="Also print the table of calls, how kmha called it, and what it printed.")
@to_write("--json", "json_file", "Write the whole diagnosis to this file too.")
def diagnose(candidate: str | None, bank: bool, deform: bool, zoo: bool, **options: Any) -> None:
    """Name the mistake in an attention layer.

    MODULE:NAME is a Keras layer or a torch module (the class, or an instance with its weights), or a function of NumPy,
    TensorFlow, torch or JAX arrays. kmha runs it on inputs that tell mistakes apart, and compares its numbers with what
    each known mistake, and each pair of them, would give.

    The module is imported in a sandbox: a process with limited memory that cannot write files, start processes or use
    the network (the last three on Linux, with the extra `course` installed). Only --details shows what it prints.

    The exit status is 0 if the candidate is right, 3 if it could not be judged, and otherwise 1.

    --bank measures the diagnosis itself: kmha makes every mistake on purpose in random candidates, then random pairs of
    mistakes, then writes right layers in every usual way. It counts how many mistakes are named, and whether any right
    layer is accused.

    --deform injects the published faults of DEForm (packages defaultplusplus and transformers) into BERT, OPT and
    GPT-2, and finds them from the calls of the models' layers, compared with the calls before the injection.

    --zoo diagnoses attention of public packages (extra `zoo`), all of it right, and mutants: the same code with one
    edit. It counts the entries that are accused and the mutants whose mistake is named. After Ctrl-C, the same command
    resumes.

    \b
    Examples:
      kmha diagnose my_attention:MultiHeadAttention
      kmha diagnose my_functions:scaled_dot_product_attention --mask hides
      kmha diagnose my_attention:Attention --set causal=false --json found.json
      kmha diagnose --bank
      kmha diagnose --zoo --package vit-pytorch --mutants 100 --list
    """
    from kmha.cli import bank as banking
    from kmha.cli import diagnosis, yardstick
    from kmha.cli import zoo as measuring

    of_zoo = ("packages", "half", "mutants", "seeds", "list_tuned", "list_held_out")
    plan = {name: options.pop(name) for name in of_zoo}
    counts = {name: options.pop(name) for name in ("configurations", "pairs", "rights")}
    if bank:
        raise SystemExit(banking.run(**counts, seed=options["seed"], json_file=options["json_file"]))
    if deform:
        raise SystemExit(yardstick.run(json_file=options["json_file"]))
    if zoo:
        shared = {name: options[name] for name in ("seed", "time_limit", "json_file")}
        raise SystemExit(measuring.run(**plan, **shared))
    if candidate is None:
        raise click.UsageError("expected MODULE:NAME of a layer or function to diagnose, --bank, --zoo or --deform.")
    raise SystemExit(diagnosis.run(candidate, **options))
