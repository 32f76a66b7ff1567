"""What every mistake of a chain gives for the trials of a draw, and which of them give the same."""

import numpy as np

from kmha.verify import tolerance
from kmha.verify.chain import ImpossibleError, run
from kmha.verify.mistakes import BANK
from kmha.verify.trials_blocks import BlockAccepts, draw_block

RIGHT = "right"
# Each chain with the settings that some mistakes need: an epsilon or an activation of its own, pre-norm.
SETTINGS = {
    "encoder": [{}, {"norm_first": True, "epsilon": 1e-3, "activation": "gelu"}],
    "decoder": [{}, {"norm_first": True, "epsilon": 1e-3, "activation": "gelu"}],
    "embedding": [{}],
}


def accepts_of(chain):
    return [BlockAccepts(chain, **settings) for settings in SETTINGS[chain]]


def results(trials, mistakes):
    """By id, all outputs laid in one row; `None` for each trial in which the mistake is impossible."""
    found = {}
    for identity, changes in {RIGHT: (), **{m.id: (m.changes,) for m in mistakes}}.items():
        outputs = []
        for trial in trials:
            try:
                outputs.append(np.asarray(run(trial, changes)["output"]))
            except ImpossibleError:
                outputs.append(None)
        found[identity] = outputs
    return found


def alike(one, other):
    """Whether two mistakes give the same for all trials."""
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return False
        if a is not None and a.shape != b.shape:
            return False
        if a is not None and tolerance.difference(np.nan_to_num(a), np.nan_to_num(b))[1] > 1e-9:
            return False
    return True


def mistakes_of(chain, module):
    """Those of a chain that a module of the bank adds."""
    return [m for m in BANK.values() if chain in m.chains() and module in defined_in(m)]


def defined_in(mistake):
    return [change.__module__.rpartition(".")[2] for change in mistake.changes.values()]
