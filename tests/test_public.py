"""The names and commands that users rely on. A change here is a change for them: say so in the release's notes."""

import importlib

import click
import pytest

from kmha.cli import main

NAMES = {
    "kmha": """
        MultiHeadAttention __version__ convert_model distribution interchange layers patch_keras show translation
        verify""",
    "kmha.course": "check",
    "kmha.distribution": "head_parallel",
    "kmha.interchange": """
        LAYOUTS Constant Converted Entry Ignored Layout LayoutError Reading Refused Rule at convert from_canonical
        join_heads recognize split_heads to_canonical""",
    "kmha.layers": """
        Decoder DecoderLayer Encoder EncoderLayer FeedForward FullyConnected HeadMerge HeadProjection LayerNormalization
        MultiHeadAttention PositionalEncoding TiedLogits TokenEmbedding Transformer ablation_importance addons
        create_look_ahead_mask create_padding_mask get_angles gradient_importance positional_encoding prune_heads
        scaled_dot_product_attention without_heads""",
    "kmha.show": """
        Analytics AttentionProbe Calculation Captured HeadStatistics Page alignment analytics capture heads heatmap
        layers page positions save scaling steps terminal""",
    "kmha.verify": "Case Decoding Diagnosis Probes Report compare diagnose expect probe run",
}
COMMANDS = {
    "": "--version",
    "attention": """
        FOLDER TEXTS --beam --greedy --length-penalty --sample --temperature --top-k --top-p --seed -o --output
        --steps""",
    "bench": """
        --size --kind --pass --mode --backend --dtype --model --cache --collectives --against --width --heads --all
        --rounds --seconds --memory --no-memory --json --markdown --plot""",
    "compare": "--cases --seed --dtype --backend --xla --layer --ecosystem --jobs --json",
    "convert": "IN_FILE OUT_FILE --from --to --heads --fold --prefix --list --json",
    "course": "",
    "course check": "EXERCISE --seed --json",
    "course grade": "FOLDER --out --assignment --jobs --minutes --seed --unprotected --json",
    "course hint": "EXERCISE",
    "course list": "ASSIGNMENT",
    "course progress": "",
    "course release": "FOLDER --assignment --form --seed --gradescope",
    "course reset": "EXERCISE --yes",
    "course solution": "EXERCISE --yes",
    "course start": "FOLDER --notebooks",
    "course verify": "EXERCISES --jobs --seed --edits --notebooks --write-readme --json",
    "course watch": "--seed",
    "diagnose": """
        CANDIDATE --set --mask --role --expect --float16 --seed --backend --bank --deform --configurations --pairs
        --rights --time-limit --details --json --zoo --package --half --mutants --seeds --list --list-held-out""",
    "evaluate": """
        FOLDER --data --source --target --test --beam --greedy --length-penalty --sample --temperature --top-k --top-p
        --seed --step --json --output""",
    "prune": "FOLDER --keep --steps --rank --data --source --target --out -o --csv --json",
    "train": """
        TASK --out --data --direction --source --target --validation-source --validation-target --profile --set
        --minutes --seed --dtype --devices --probe --restart""",
    "translate": """
        FOLDER TEXTS --beam --greedy --length-penalty --n-best --sample --temperature --top-k --top-p --seed --attention
        --attention-layer --attention-head --picture --json""",
}


def _commands(command, path=()):
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from _commands(command.get_command(click.Context(command), name), (*path, name))


@pytest.mark.parametrize("module", NAMES)
def test_names(module):
    assert sorted(importlib.import_module(module).__all__) == sorted(NAMES[module].split())


@pytest.mark.parametrize("module", NAMES)
def test_dir_shows_the_public_names_alone(module):
    shown = {name for name in dir(importlib.import_module(module)) if not name.startswith("_")}
    assert shown >= {name for name in NAMES[module].split() if not name.startswith("_")}
    assert not shown & {"Any", "TYPE_CHECKING", "importlib", "wrapt"}


def test_commands():
    assert {name for name, _ in _commands(main)} == set(COMMANDS)


@pytest.mark.parametrize(("name", "command"), list(_commands(main)))
def test_options(name, command):
    found = [
        part
        for parameter in command.params
        for part in (
            [*parameter.opts, *parameter.secondary_opts]
            if isinstance(parameter, click.Option)
            else [parameter.name.upper()]
        )
    ]
    assert sorted(found) == sorted(COMMANDS[name].split())
