"""Names that people give to what belongs to a key/value cache."""

import contextlib
import re
from collections.abc import Iterable
from typing import Any

from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.naming import plain

# Arguments of a call, for each role. A call may take two caches, one for keys and one for values.
_ARGUMENTS = {
    "cache": "cache kvcache cachekv layercache pastkv pastkeyvalue pastkeyvalues layerpast past pastkvs "
    "caches kvcaches selfattentioncache selfattncache decodercache previouskv prevkv kvstate "
    "incrementalstate presentkeyvalue",
    "key_cache": "cachek kcache keycache pastk pastkey pastkeys cachedkey cachedkeys cachedk prevk kpast keyscache",
    "value_cache": "cachev vcache valuecache pastv pastvalue pastvalues cachedvalue cachedvalues cachedv prevv "
    "vpast valuescache",
    "index": "cacheupdateindex selfattentioncacheupdateindex startpos startposition inputpos cacheposition cacheindex "
    "index curpos currentpos currentposition position pos positionids offset startindex starti startidx step t "
    "cachelen pastlength pastlen cursor writeindex timestep inputpositions positions",
    "flag": "usecache usekvcache storecache decode decoding returncache incremental cached returnkvcache "
    "returnpresent useincremental enablecache outputcache cacheenabled",
}
_BY_NAME = {name: role for role, names in _ARGUMENTS.items() for name in names.split()}
# Methods that make an empty cache and return it, that prepare the layer for decoding, and that empty a layer's cache.
STARTS = re.compile(
    r"^(init|initialize|make|new|empty|start|create|initial|allocate|build|get|get_initial|zero)_?(kv_?)?caches?$"
)
SETUPS = re.compile(r"^(set|setup|set_up|init|initialize|enable|allocate|create|build)_?(kv_?)?caches?$")
RESETS = re.compile(r"^(reset|clear|empty|flush|delete)_?(kv_?)?(caches?|state)?$")
BATCH = "batchsize batch bsz b n maxbatchsize numitems"
LENGTH = (
    "length maxlength maxlen maxseqlen maxseqlength seqlen seqlength decodermaxseqlen maxsequencelength maxcachelen "
)
LENGTH += "capacity maxpositions maxnumtokens contextlength t"
SHAPE = "inputshape shape inputsshape"
LAYERS = "numlayers nlayers nlayer layers depth numhiddenlayers numblocks n_blocks numdecoderlayers"


def role(name: str) -> str | None:
    """Return the role of an argument that belongs to a cache, or `None`.

    >>> role("past_key_values"), role("start_pos"), role("use_cache"), role("k_cache"), role("x")
    ('cache', 'index', 'flag', 'key_cache', None)
    """
    return _BY_NAME.get(plain(name))


def roles(names: Iterable[str]) -> dict[str, str]:
    """Return the first argument for each role."""
    found: dict[str, str] = {}
    for name in names:
        mine = role(name)
        if mine is not None:
            found.setdefault(mine, name)
    return found


def methods(thing: Any, pattern: re.Pattern[str]) -> list[str]:
    """Return the names of an object's or a class's methods that match a pattern, public names first."""
    kind = thing if isinstance(thing, type) else type(thing)
    names = [name for name in dir(kind) if pattern.match(name.strip("_")) and callable(getattr(kind, name, None))]
    return sorted(names, key=lambda name: name.startswith("_"))


def forget(thing: Any) -> None:
    """Call the methods that empty an object's own cache, so that the next call knows nothing of those before."""
    for method in methods(thing, RESETS):
        with contextlib.suppress(Exception, SystemExit), quietly():  # untrusted code may raise anything
            getattr(thing, method)()


def is_one_of(name: str, names: str) -> bool:
    """Return whether a name is one of the words in `names`."""
    return plain(name) in names.split()
