"""Inject each fault of DEForm into each model, name it from the calls of the layers, and count."""

import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kmha.verify.bank.yardstick import caches, effects, models, root_causes
from kmha.verify.bank.yardstick.localizing import record, same, suspects

INSTALL = "expected the packages defaultplusplus, torch and transformers. Run: pip install 'kmha[zoo]'"


@dataclasses.dataclass(frozen=True)
class Case:
    """One fault in one model.

    Attributes:
        operator: DEForm's operator, three letters.
        parameter: Parameter of the operator, as text, or "".
        model: Name of the model.
        true: Category and root cause of the operator.
        changes: Whether the model's results change: the logits of one call, or those of decoding with a cache.
        findings: Path and effect of each module that is found to be wrong.
        cached: Effect that is found in cached decoding, or "".
        refused: Error of DEForm if the operator does not apply to the model, or "".
    """

    operator: str
    parameter: str
    model: str
    true: root_causes.Cause
    changes: bool = False
    findings: tuple[root_causes.Finding, ...] = ()
    cached: str = ""
    refused: str = ""

    @property
    def named(self) -> root_causes.Cause:
        """The category and the root cause that the diagnosis names."""
        return root_causes.cause(self.findings, self.cached)

    @property
    def detected(self) -> bool:
        return bool(self.findings or self.cached)


def operators() -> dict[str, Any]:
    """Return DEForm's operators by their letters.

    Raises:
        ModuleNotFoundError: DEForm, torch or transformers is not installed.
    """
    try:
        from defaultplusplus.deform import OPERATORS
    except ImportError as error:
        raise ModuleNotFoundError(f"{INSTALL} ({error})") from None
    return dict(OPERATORS)


def cases(progress: Callable[[str], None] = lambda _: None) -> Iterator[Case]:
    """Inject and diagnose each fault in each model that it is meant for, and yield the cases."""
    for name, (_, _, scope, _) in models.MODELS.items():
        clean = models.built(name)
        for operator in operators().values():
            if operator.scope in ("both", scope):
                progress(f"{name} {operator.op_id}")
                for parameter in operator.param_grid or (None,):
                    yield _case(name, clean, operator, parameter)


def _case(name: str, clean: Any, operator: Any, parameter: Any) -> Case:
    true = operator.component.value, operator.root_cause
    case = Case(operator.op_id, "" if parameter is None else str(parameter), name, true)
    is_decoder = models.MODELS[name][2] == "decoder"
    try:
        with _injected(clean, operator, parameter) as model:
            changes = _changes(model, clean, is_decoder)
        with _injected(clean, operator, parameter) as model:
            found = _findings(model, clean)
        if found or not is_decoder:
            return dataclasses.replace(case, changes=changes, findings=found)
        with _injected(clean, operator, parameter) as model:
            return dataclasses.replace(case, changes=changes, cached=caches.effect(model, clean))
    except ValueError as error:  # DEForm found no weight of this name
        return dataclasses.replace(case, refused=str(error))


@contextlib.contextmanager
def _injected(clean: Any, operator: Any, parameter: Any) -> Iterator[Any]:
    """Yield a copy of the model with the fault."""
    from defaultplusplus.deform import get_injector

    model = copy.deepcopy(clean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with get_injector(operator.op_id, param_value=parameter)(model):
            yield model


def _changes(model: Any, clean: Any, is_decoder: bool) -> bool:
    """Return whether the logits change, for inputs that the diagnosis does not use."""
    ids, mask = models.inputs(seed=1)
    one, other = (record(each, input_ids=ids, attention_mask=mask, use_cache=False)[""] for each in (model, clean))
    if not same(one.results, other.results):
        return True
    return is_decoder and caches.changes(model, clean)


def _findings(model: Any, clean: Any) -> tuple[root_causes.Finding, ...]:
    ids, mask = models.inputs()
    calls = record(model, input_ids=ids, attention_mask=mask, use_cache=False)
    return tuple((suspect.path, effects.effect(suspect)) for suspect in suspects(model, clean, calls))


def macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the mean F1 over all true labels of (true, named) pairs.

    >>> macro_f1([("a", "a"), ("a", "b"), ("b", "b")])
    0.6666666666666666
    """
    scores = []
    for label in {true for true, _ in pairs}:
        hits = sum(true == named == label for true, named in pairs)
        scores.append(2 * hits / (sum(true == label for true, _ in pairs) + sum(named == label for _, named in pairs)))
    return sum(scores) / len(scores) if scores else 1.0


@dataclasses.dataclass(frozen=True)
class Figures:
    """The share of the faults that change a result that is detected, and the macro-F1 of category and root cause."""

    faults: int
    detected: float
    category: float
    root_cause: float


def figures(found: Sequence[Case]) -> Figures:
    """Return the figures over all cases in which the model's results change."""
    changing = [case for case in found if case.changes]
    categories, causes = ([(case.true[part], case.named[part]) for case in changing] for part in (0, 1))
    detected = sum(case.detected for case in changing) / max(len(changing), 1)
    return Figures(len(changing), detected, macro_f1(categories), macro_f1(causes))
