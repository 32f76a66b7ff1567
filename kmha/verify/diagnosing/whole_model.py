"""A whole model, such as a language model, whose parts are diagnosed because it takes token ids or images."""

import re
from collections.abc import Callable
from typing import Any

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import READS, CandidateError
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.embedding_candidate import EmbeddingCandidate
from kmha.verify.diagnosing.images import takes_images
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import Match
from kmha.verify.diagnosing.model_calls import TABLES, examine, takes_ids

IDS = "idx tokens src x xids srcids tgtids sourceids targetids inputs inp seq sequence sentence text words"
ATTENDS = re.compile("attention$|transformer_(encoder|decoder)")  # in names of classes
MOST = 6  # number of parts to diagnose


class WholeModelError(CandidateError):
    """A candidate takes token ids, and is no embedding, or it takes images.

    Attributes:
        model: The candidate as a layer.
        takes: What it takes, in words.
    """

    def __init__(self, model: LayerCandidate, takes: str = "token ids") -> None:
        super().__init__(f"{model.name} takes {takes}. Diagnose a layer inside of it that takes vectors. {READS}.")
        self.model, self.takes = model, takes


def check_takes_vectors(layer: LayerCandidate) -> None:
    """Raise an error for a model that takes token ids, judged by the names of its arguments.

    Raises:
        WholeModelError: It is such a model.
    """
    if {"query", "key", "value", "memory"} & layer.roles.keys():
        return
    first = naming.plain(next(iter(layer.call_parameters), ""))
    has_vocabulary = "vocabulary" in layer.constructor_roles and first in IDS.split()
    takes_ids = "ids" in layer.roles and "self" not in layer.roles
    if takes_ids or (has_vocabulary and any(type(each).__name__ in TABLES for each in parts_of(layer))):
        raise WholeModelError(layer)


def check_takes_vectors_by_trial(layer: LayerCandidate) -> None:
    """Raise an error for a model that takes token ids, whose argument has an unknown name.

    Raises:
        WholeModelError: It is such a model.
    """
    inputs = {"query", "key", "value", "memory", "self"} & layer.roles.keys()
    if inputs == {"self"} and "self" in layer.by_place and takes_ids(layer, parts_of(layer)):
        raise WholeModelError(layer)


def check_takes_no_images(layer: LayerCandidate) -> None:
    """Raise an error for a layer that runs with images, if it runs with no vectors.

    Raises:
        WholeModelError: It is such a layer.
    """
    if takes_images(layer):
        raise WholeModelError(layer, "images")


def check_does_not_attend(embedding: EmbeddingCandidate) -> None:
    """Raise an error for a model that takes token ids and has a framework's attention inside, and is no embedding.

    Raises:
        WholeModelError: It is such a model.
    """
    inside = (re.sub("(?<=[a-z])(?=[A-Z])", "_", type(each).__name__).lower() for each in parts_of(embedding))
    if embedding.takes_ids and any(ATTENDS.search(name) for name in inside):
        raise WholeModelError(embedding)


def parts_of(model: LayerCandidate) -> list[Any]:
    """Return the layers inside a model, the outermost first, or none if kmha cannot make one."""
    try:
        with quietly():
            return list(model.adapter.parts(model.sample()))
    except (Exception, SystemExit):  # untrusted code may raise anything
        return []


def classes_inside(model: LayerCandidate) -> list[type]:
    """Return the classes of the layers inside a model that are not a framework's own, the outermost first."""
    return list(dict.fromkeys(type(each) for each in parts_of(model) if frameworks.is_own(type(each))))[:MOST]


def shown_by_calls(model: LayerCandidate) -> Match | None:
    """Return the mistake that calls of the whole model show without a reference, or `None`."""
    return examine(model, parts_of(model))


def judged(model: LayerCandidate, takes: str, diagnose: Callable[[type], Any]) -> tuple[Any, str] | None:
    """Return the diagnosis of the first part that is wrong, or else differs, or is right, or can be read at all.

    Returns:
        The diagnosis, and a text on all parts, or `None` if no part can be read.
    """
    found: list[Any] = []
    unread: dict[str, str] = {}
    for kind in classes_inside(model):
        try:
            found.append(diagnose(kind))
        except CandidateError:
            unread[kind.__name__] = "could not be read"
    if not found:
        return None
    says = {"known": "is wrong", "unknown": "differs from the reference", "right": "is right"}
    listed = {each.name: says.get(each.verdict, "could not be judged") for each in found}
    verdicts = ", ".join(f"{name} {verdict}" for name, verdict in {**listed, **unread}.items())
    order = [*says]
    first = min(found, key=lambda each: order.index(each.verdict) if each.verdict in order else len(order))
    return first, (
        f"{model.name} takes {takes}, so that kmha diagnosed its parts: {verdicts}. What it does beside them was not "
        "judged."
    )
