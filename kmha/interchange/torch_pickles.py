"""Look through the pickles of a torch checkpoint without unpickling them, because a small one can take all memory.

torch's `weights_only` runs no code from a file, but it calls functions that copy their arguments, or that take a size.
A short pickle can call them again and again on one long value. Python also walks through each tuple that is a key, and
a short pickle can nest tuples so that this never ends.
"""

import contextlib
import dataclasses
import io
import pickle  # to write a number
import pickletools
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from kmha.interchange.errors import check_archive

MOST_MADE = 8 * 10**6  # maximum number of values in a pickle, and in the arguments of its calls and its keys
_LETTERS = 16  # number of a text's characters that count as one value
_SHORT = 100  # number of characters up to which a text is kept
DEEPEST = 100  # maximum depth of tuples in each other, through which Python walks recursively
_LEGACY = 5  # pickles in a file that is not a zip archive: magic number, protocol, system, weights, keys of storages
_MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, 2)  # the first of them
_ZIP = b"PK\3\4"
_REBUILD = ("tensor", "tensor_v2", "tensor_v3", "parameter", "parameter_with_state", "sparse_tensor", "qtensor")
# What torch.save writes for weights and for what people save beside them, without storages and dtypes.
_GLOBALS = {
    "collections OrderedDict",
    "collections Counter",
    "_codecs encode",  # of bytes
    *(f"{module} {name}" for module in ("__builtin__", "builtins") for name in ("set", "complex")),
    "torch Size",
    "torch Tensor",
    "torch device",
    "torch.nn.parameter Parameter",
    "torch.serialization _get_layout",
    "torch._tensor _rebuild_from_type_v2",
    *(f"torch._utils _rebuild_{name}" for name in _REBUILD),
}

_TUPLES = {"TUPLE": None, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}  # operations, with the number of values that they take
_HASHING = ("collections Counter", "collections OrderedDict", "torch Size", "builtins set", "__builtin__ set")
_FILLING = {"APPEND": 1, "APPENDS": None, "SETITEM": 2, "SETITEMS": None}
_PLAIN = {
    *("GLOBAL", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINSTRING", "EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"),
}


class PickleError(ValueError):
    """A pickle has other things than weights."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a checkpoint. Of a zip archive, give a new one with the members that Python sees in it.

    torch has a reader of its own, and an archive can show it other members than those that kmha checks.

    Raises:
        FileError: Its members would take far more memory than the file has bytes.
    """
    with open(path, "rb") as file:
        if file.read(len(_ZIP)) != _ZIP:  # by which torch tells the formats apart
            yield file
            return
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryFile() as copied:
        check_archive(archive)
        with zipfile.ZipFile(copied, "w") as new:
            for name in dict.fromkeys(archive.namelist()):
                with archive.open(name) as member, new.open(zipfile.ZipInfo(name), "w", force_zip64=True) as place:
                    shutil.copyfileobj(member, place)
        copied.seek(0)
        yield copied


def check(torch: Any, file: IO[bytes]) -> None:
    """Raise a PickleError if a checkpoint needs globals that no weights need, or takes far more memory than its size.

    Raises:
        ValueError: It is damaged, or no checkpoint.
    """
    try:
        _check(torch, file)
    except PickleError:
        raise
    except (ValueError, IndexError, KeyError):
        raise ValueError("it is no checkpoint that torch.save wrote.") from None


def _check(torch: Any, file: IO[bytes]) -> None:
    file.seek(0)
    first = file.read(tarfile.BLOCKSIZE)
    file.seek(0)
    if first.startswith(_ZIP):  # torch's own reader finds the member that torch reads
        _check_pickle(torch, io.BytesIO(torch._C.PyTorchFileReader(file).get_record("data.pkl")))
        return
    is_usual = first[2 : len(_MAGIC)] == _MAGIC[2:]  # whatever the protocol is
    if not is_usual or _is_tar(first):  # torch would look for an older format still
        raise ValueError("it is no checkpoint")
    stacks = [_check_pickle(torch, file) for _ in range(_LEGACY)]
    if missing := stacks[3].storages - stacks[4].texts:  # torch would leave what was in memory in their places
        raise PickleError(f"it lacks the numbers of {min(missing)!a:.80}.")


def _is_tar(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _check_pickle(torch: Any, file: IO[bytes]) -> "_Stack":
    made, stack = 0, _Stack()
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL" and not _is_known(torch, str(argument)):
            raise PickleError(f"it needs {argument!a:.80}, which no weights need.")
        made += 1 + stack.step(opcode.name, argument)
        if made > MOST_MADE:
            raise PickleError(f"it makes more than {MOST_MADE:,} values.")
    return stack


def _is_known(torch: Any, name: str) -> bool:
    module, _, kind = name.partition(" ")
    is_dtype = module == "torch" and isinstance(getattr(torch, kind, None), torch.dtype | torch.qscheme)
    return name in _GLOBALS or is_dtype or _is_storage(name)


def _is_storage(name: str) -> bool:
    return name.startswith("torch") and name.endswith("Storage")


@dataclasses.dataclass(slots=True)
class _Value:
    parts: int = 1  # number of values in it, and in these
    depth: int = 0  # of tuples in each other
    name: str = ""  # of a global, or a short text
    is_made: bool = False  # whether a call made it, or a part of it, such as a tensor, or it is an integer of any size
    names: tuple[str, ...] = ()  # of the first items of a tuple


class _Stack:
    """The stack of an unpickler, with the sizes of the values instead of the values.

    Attributes:
        texts: All short texts.
        storages: Keys of the storages that tensors refer to.
    """

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.storages: set[str] = set()
        self._values: list[_Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Value] = {}

    def step(self, name: str, argument: Any) -> int:
        """Follow an operation. Return the number of values that it copies, or walks through to hash a key."""
        if name == "MARK":
            self._marks.append(len(self._values))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._values[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self._values.append(self._memo[argument])
        elif name in _TUPLES:
            self._tuple(self._pop(_TUPLES[name]))
        elif name in _FILLING:
            return self._fill(self._pop(_FILLING[name]), has_keys=name.startswith("SETITEM"))
        elif name in ("REDUCE", "NEWOBJ", "BUILD", "BINPERSID"):
            return self._call(name)
        elif name in _PLAIN:
            length = len(argument) // _LETTERS if isinstance(argument, str) else 0
            short = argument if isinstance(argument, str) and (name == "GLOBAL" or len(argument) < _SHORT) else ""
            self.texts.add(short)
            self._values.append(_Value(1 + length, name=short, is_made=name == "LONG1"))
        elif name not in ("PROTO", "STOP"):
            raise PickleError(f"it has the operation {name}, which no weights need.")
        return 0

    def _pop(self, count: int | None) -> list[_Value]:
        """Take values from the stack: `count`, or all since the last mark."""
        start = self._marks.pop() if count is None else len(self._values) - count
        taken = self._values[start:]
        del self._values[start:]
        return taken

    def _tuple(self, items: list[_Value]) -> None:
        depth = 1 + max((item.depth for item in items), default=0)
        if depth > DEEPEST:
            raise PickleError(f"it nests more than {DEEPEST} tuples.")
        names = tuple(item.name for item in items[:3])
        parts = _bounded(1 + sum(item.parts for item in items))
        self._values.append(_Value(parts, depth, is_made=any(item.is_made for item in items), names=names))

    def _fill(self, items: list[_Value], has_keys: bool) -> int:
        filled = self._values[-1]
        filled.parts = _bounded(filled.parts + sum(item.parts for item in items))
        filled.is_made |= any(item.is_made for item in items)
        if has_keys and any(item.is_made for item in items[::2]):
            raise PickleError("it has keys that are neither texts nor small integers.")
        return sum(item.parts for item in items[::2]) if has_keys else 0

    def _call(self, name: str) -> int:
        (given,) = self._pop(1)
        if name == "BUILD":
            return given.parts
        if name == "BINPERSID":
            self.storages.update(given.names[2:])
            self._values.append(_Value())
            return given.parts
        (called,) = self._pop(1)
        if called.name == "torch Tensor" or _is_storage(called.name):
            raise PickleError(f"it calls {called.name}, which can make any size.")
        if called.name in _HASHING and given.is_made:
            raise PickleError(f"it calls {called.name} of a tensor, or of large integers.")
        if called.name == "_codecs encode" and given.names[1:] != ("latin1",):
            raise PickleError("it encodes a text as no bytes are.")
        if called.name.endswith("_rebuild_from_type_v2") and not given.names[0].startswith("torch._utils _rebuild_"):
            raise PickleError("it makes a tensor by another function than those that make tensors.")
        is_bytes = called.name == "_codecs encode"  # their hashes cannot be foreseen
        self._values.append(dataclasses.replace(given, is_made=not is_bytes, name="", names=()))
        return given.parts


def _bounded(parts: int) -> int:
    """Limit a number of parts, which would double whenever a list is put into itself."""
    return min(parts, MOST_MADE + 1)
