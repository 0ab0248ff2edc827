"""A pickle reader that cannot run code: it knows a few harmless names and refuses every other.

Python's own unpickler imports whatever module a file names and calls what it finds there. This
machine never imports and never calls: it walks over the opcodes, builds plain values and hands each
*known* name to a fixed table.

Nor can a file make it work without end. Opcodes, memo entries and what calls copy are limited in
proportion to the pickle; keys of dictionaries are strings or numbers, for hashing a tuple that
holds itself twice, and so on a hundred times, takes 2^100 steps; and the value that comes out is a
tree of limited size, so that it can be walked and shown.
"""

import pickletools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quadlens.base.errors import BadFile


@dataclass(frozen=True)
class Name:
    """A name that the pickle asks for, `module.name`; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class StandIn:
    """An inert object for an instance of another's class: name, arguments, state."""

    name: Name
    arguments: tuple[Any, ...] = ()
    state: Any = None


@dataclass(eq=False)
class _Mark:
    """Where a run of stack items began."""


Builder = Callable[..., Any]

# A checkpoint has some 30 opcodes and 10 memo entries per tensor, and one opcode of 9 bytes per
# number of a history.
SPARE_OPCODES, BYTES_PER_OPCODE = 1_000_000, 8
SPARE_MEMO, BYTES_PER_MEMO = 300_000, 16
# What calls may copy (items of lists, characters of texts) for each byte of the pickle.
SPARE_COPIES, COPIES_PER_BYTE = 1_000_000, 2
MAX_DEPTH = 200

# Classes whose instances are values and nothing else, as NumPy pickles its scalars, arrays and
# types.
_INERT_CALLS = {
    Name("numpy", "dtype"),
    Name("numpy", "ndarray"),
    *(
        Name(f"numpy.{core}.multiarray", name)
        for core in ("core", "_core")
        for name in ("scalar", "_reconstruct", "_frombuffer")
    ),
    Name("torch", "device"),
    Name("torch", "Size"),
}
_PLAIN_CALLS: dict[Name, Builder] = {
    Name("collections", "OrderedDict"): lambda items=(): _keyed(items),
    Name("builtins", "set"): lambda items=(): list(items),
    Name("__builtin__", "set"): lambda items=(): list(items),
    # Pickle protocol 2 has no bytes: they are written as a call that encodes a string.
    Name("_codecs", "encode"): lambda text, encoding="latin1": str.encode(text, "latin1"),
}


@dataclass
class PickleMachine:
    """One run over one pickle.

    Attributes:
        source: What is read, for messages.
        calls: Further names that may be called, and what the machine does instead of calling them.
        values: Names that stand for plain values (torch's storage and number types).
        persistent: What to do with a persistent id.
    """

    source: str
    calls: Mapping[Name, Builder] = field(default_factory=dict)
    values: Mapping[Name, Any] = field(default_factory=dict)
    persistent: Callable[[Any], Any] | None = None
    _copies_left: int = 0

    def run(self, content: bytes) -> Any:
        """The value the pickle describes.

        Raises:
            BadFile: when it asks for a name that could run code, or is cut or damaged.
        """
        stack: list[Any] = []
        memo: dict[int, Any] = {}
        self._copies_left = SPARE_COPIES + len(content) * COPIES_PER_BYTE
        try:
            for count, (opcode, argument, position) in enumerate(pickletools.genops(content)):
                if opcode.name == "STOP":
                    return self._limited(
                        stack.pop(), SPARE_OPCODES + len(content) // BYTES_PER_OPCODE
                    )
                # By how far the pickle has come, so that one made of short opcodes is noticed at
                # its beginning.
                read = position or 0
                if (
                    count > SPARE_OPCODES + read // BYTES_PER_OPCODE
                    or len(memo) > SPARE_MEMO + read // BYTES_PER_MEMO
                ):
                    raise self._too_much("steps or memo entries than its size explains")
                self._step(opcode.name, argument, stack, memo)
        except BadFile:
            raise
        except Exception as error:
            # Damaged opcodes can fail in any way that plain stack and dictionary operations can.
            raise BadFile(
                f"{self.source}: its pickle is cut or damaged ({type(error).__name__}: {error})"
            ) from None
        raise BadFile(f"{self.source}: its pickle is cut or damaged (no end)")

    def _too_much(self, what: str) -> BadFile:
        return BadFile(
            f"{self.source}: its pickle has more {what}; refused, for no checkpoint needs that"
        )

    def _limited(self, value: Any, most: int) -> Any:
        """Return `value` after walking all of it as the tree it is when printed.

        What is shared counts each time.
        """
        waiting, seen = [(value, 0)], 0
        while waiting:
            item, depth = waiting.pop()
            seen += 1
            children: Iterable[Any] = ()
            if isinstance(item, dict):
                children = item.values()
            elif isinstance(item, (list, tuple)):
                children = item
            elif isinstance(item, StandIn):
                children = (item.arguments, item.state)
            elif isinstance(item, _Mark):  # a place on the stack, no value
                raise BadFile(
                    f"{self.source}: its pickle is cut or damaged (a mark without an end)"
                )
            if seen + len(waiting) > most or depth > MAX_DEPTH:
                raise self._too_much("values inside each other than it has steps")
            waiting.extend((child, depth + 1) for child in children)
        return value

    def _step(self, opcode: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
        if opcode in _LITERALS:
            stack.append(argument)
        elif opcode in _CONSTANTS:
            stack.append(_CONSTANTS[opcode]())
        elif opcode in ("PROTO", "FRAME"):
            pass
        elif opcode in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[argument])
        elif opcode in _COLLECTORS:
            _COLLECTORS[opcode](stack)
        else:
            self._object_step(opcode, argument, stack)

    def _object_step(self, opcode: str, argument: Any, stack: list[Any]) -> None:
        """Run the opcodes through which a pickle could reach code; nothing is called."""
        if opcode == "GLOBAL":
            module, _, name = argument.partition(" ")
            stack.append(self._look_up(module, name))
        elif opcode == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            stack.append(self._look_up(module, name))
        elif opcode in ("REDUCE", "NEWOBJ"):
            arguments, called = stack.pop(), stack.pop()
            if not isinstance(arguments, tuple):
                raise TypeError("arguments that are not a tuple")
            stack.append(self._call(called, arguments, creates=opcode == "NEWOBJ"))
        elif opcode == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], StandIn):
                stack[-1].state = state
        elif opcode == "BINPERSID" and self.persistent is not None:
            stack.append(self.persistent(stack.pop()))
        else:
            raise BadFile(
                f"{self.source}: its pickle uses {opcode}, which no checkpoint needs; refused"
            )

    def _look_up(self, module: Any, attribute: Any) -> Any:
        """Return a known value, or the name where its package cannot run code."""
        if not isinstance(module, str) or not isinstance(attribute, str):
            raise TypeError("a name that is not text")
        name = Name(module, attribute)
        if name in self.values:
            return self.values[name]
        if name in self.calls or name in _PLAIN_CALLS or name in _INERT_CALLS:
            return name
        package = name.module.partition(".")[0]
        if package in sys.stdlib_module_names or package in (
            "__builtin__",
            "copy_reg",
            "torch",
            "quadlens",
        ):
            raise self._would_run(name)
        return name

    def _call(self, called: Any, arguments: tuple[Any, ...], creates: bool) -> Any:
        if not isinstance(called, Name):
            raise BadFile(f"{self.source}: its pickle calls something that is not a name; refused")
        # A short call can copy a long argument again and again.
        self._copies_left -= sum(
            len(x) for x in arguments if isinstance(x, (str, bytes, list, tuple, dict))
        )
        if self._copies_left < 0:
            raise self._too_much("copies than its size explains")
        if called in self.calls:
            return self.calls[called](*arguments)
        if called in _PLAIN_CALLS:
            return _PLAIN_CALLS[called](*arguments)
        if creates or called in _INERT_CALLS:
            return StandIn(called, arguments)
        raise self._would_run(called)

    def _would_run(self, name: Name) -> BadFile:
        return BadFile(
            f"{self.source} is a pickle that would run code: it asks for {name}. Nothing was "
            "executed. If you trust the file, load it with its own software and save the state "
            "dict alone (torch.save(model.state_dict(), FILE))"
        )


# Opcodes whose argument is the value itself.
_LITERALS = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *(
            "UNICODE",
            "BINUNICODE",
            "BINUNICODE8",
            "SHORT_BINUNICODE",
            "STRING",
            "BINSTRING",
            "SHORT_BINSTRING",
        ),
        *("BINBYTES", "BINBYTES8", "SHORT_BINBYTES"),
    ]
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_TUPLE": tuple,
    "MARK": _Mark,
}


def _since_mark(stack: list[Any]) -> list[Any]:
    """Take everything above the topmost mark, and the mark."""
    for at in range(len(stack) - 1, -1, -1):
        if isinstance(stack[at], _Mark):
            items = stack[at + 1 :]
            del stack[at:]
            return items
    raise IndexError("no mark on the stack")


def _keyed(pairs: Iterable[Any]) -> dict[Any, Any]:
    """Return a dictionary whose keys are strings or numbers.

    Their size bounds the time of hashing them.
    """
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, (str, int, float)):
            raise TypeError(f"a key that is a {type(key).__name__}, expected a string or a number")
        found[key] = value
    return found


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return _keyed(zip(items[::2], items[1::2], strict=True))


def _tuple(count: int) -> Callable[[list[Any]], None]:
    def collect(stack: list[Any]) -> None:
        items = tuple(stack[-count:])
        if len(items) != count:
            raise IndexError("stack underflow")
        del stack[-count:]
        stack.append(items)

    return collect


def _fill(stack: list[Any], add: Callable[[Any], None]) -> None:
    """Add to the container on top of the stack.

    The contents of a stand-in are dropped; nothing else can contain.
    """
    if isinstance(stack[-1], (dict, list)):
        add(stack[-1])
    elif not isinstance(stack[-1], StandIn):
        raise TypeError(f"a {type(stack[-1]).__name__} cannot be filled")


def _append(stack: list[Any]) -> None:
    item = stack.pop()
    _fill(stack, lambda container: container.append(item))


def _extend(stack: list[Any]) -> None:
    items = _since_mark(stack)
    _fill(stack, lambda container: container.extend(items))


def _set_item(stack: list[Any]) -> None:
    value, key = stack.pop(), stack.pop()
    _fill(stack, lambda container: container.update(_keyed([(key, value)])))


def _set_items(stack: list[Any]) -> None:
    items = _since_mark(stack)
    _fill(stack, lambda container: container.update(_pairs(items)))


_COLLECTORS: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": lambda stack: stack.append(tuple(_since_mark(stack))),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "LIST": lambda stack: stack.append(_since_mark(stack)),
    "DICT": lambda stack: stack.append(_pairs(_since_mark(stack))),
    "APPEND": _append,
    "APPENDS": _extend,
    "ADDITEMS": _extend,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "POP": lambda stack: stack.pop(),
    "POP_MARK": _since_mark,
}
