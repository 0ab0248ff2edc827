"""Tasks on sequences as automata: every word of letters is an input.

What is fed and what is right follow from the word.

`add:N`: letter l is the pair (x_l, y_l) of l-th lowest digits, as x_l · base + y_l, the state is
the carry, and a last letter of one symbol stands for the digit that the last carry is; with a
`stop` one more step has to give a token that is no digit (`nondigit`), or that or the digit 0
(`zero`). `cumsum-sign:N`: letter l is a number, the state the sum so far, both counted from their
smallest value; tokens 0, 1, 2 are right below, at and above zero. `max:N`: letter l is a token, the
state the largest so far. Other names need an automaton of their own, and none of these may have
one; they are one short word, as a statement quotes them and must not be made to say more by them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any

from quadlens_checker import limits
from quadlens_checker.reading import integers, keys, require

Table = list[list[int]]


@dataclass(frozen=True)
class Automaton:
    """A task: all tables are [state before a letter][letter].

    next: for each letter, the state after it; the first state is 0. fed: for each position a token,
    or a letter and the table of tokens. steps: in the order of decoding, the position read, a
    letter, and the table of right answers, which are sets of tokens in `answers`. value: what the
    files have.
    """

    value: Any
    next: list[Table]
    fed: list[int | tuple[int, Table]]
    steps: list[tuple[int, int, Table]]
    answers: list[frozenset[int]]

    @property
    def inputs(self) -> int:
        """The number of words."""
        return self.words_from[0]

    @cached_property
    def words_to(self) -> list[list[int]]:
        """For each boundary between letters and each state, count the beginnings leading there."""
        beginnings = [[1]]
        for letter, table in enumerate(self.next):
            last = letter + 1 == len(self.next)
            count = [0] * (max(map(max, table)) + 1 if last else len(self.next[letter + 1]))
            for n, row in zip(beginnings[-1], table, strict=True):
                for state in row:
                    count[state] += n
            beginnings.append(count)
        return beginnings

    @cached_property
    def words_from(self) -> list[int]:
        """For each boundary between letters, the number of ends of words."""
        return list(accumulate((len(table[0]) for table in reversed(self.next)), mul, initial=1))[
            ::-1
        ]

    def states(self, letters: Sequence[int], first: int = 0, state: int = 0) -> list[int]:
        """Return the state before each of some letters, and the one after the last.

        The letters begin with number `first`, from a given state.
        """
        states = [state]
        for table, a in zip(self.next[first : first + len(letters)], letters, strict=True):
            states.append(table[states[-1]][a])
        return states

    def tokens(self, word: list[int]) -> list[int]:
        """Return the token that each position is fed for one word."""
        states = self.states(word)
        return [
            fed if isinstance(fed, int) else fed[1][states[fed[0]]][word[fed[0]]]
            for fed in self.fed
        ]


def repeated(row: Iterable[int], states: int) -> Table:
    """A table whose entries do not depend on the state."""
    return [list(row)] * states


def addition(value: Any, length: int, d_vocab_out: int) -> Automaton:
    """The sum of two numbers of `length` digits, in the layout of a template."""
    more = ("stop",) if "stop" in value else ()
    keys(value, ("name", "template", "digits", *more), "task")
    require(value.get("stop", "zero") in ("nondigit", "zero"), "unknown stop")
    digits = integers(value["digits"], "digits", None, 0, d_vocab_out - 1)
    base = len(digits)
    require(
        2 <= base <= limits.MAX_ALPHABET and len(set(digits)) == base,
        "digits are not at least two tokens",
    )
    letters = [(x, y) for x in range(base) for y in range(base)]
    carries = [range(1 if n == 0 else 2) for n in range(length)]
    after: list[Table] = [
        [[(x + y + s) // base for x, y in letters] for s in carry] for carry in carries
    ]
    right: list[Table] = [
        [[(x + y + s) % base for x, y in letters] for s in carry] for carry in carries
    ]
    after, right = [*after, [[0], [0]]], [*right, [[0], [1]]]
    fed: list[int | tuple[int, Table]] = []
    order: list[tuple[int, int]] = []
    require(isinstance(value["template"], list), "template is not a list")
    for place, name in enumerate(value["template"]):
        if type(name) is int:
            fed.append(name)
            continue
        parts = re.fullmatch(r"([xyz])(0|[1-9][0-9]{0,2})", name) if isinstance(name, str) else None
        require(
            parts and int(parts[2]) < length + (parts[1] == "z"),
            f"{str(name)[:20]} in the template",
        )
        kind, letter = (parts[1], int(parts[2])) if parts else ("", 0)
        if kind == "z":
            order.append((place, letter))
            fed.append((letter, [[digits[z] for z in row] for row in right[letter]]))
        else:
            chosen = [digits[pair["xy".index(kind)]] for pair in letters]
            fed.append((letter, repeated(chosen, len(after[letter]))))
    places = list(range(len(fed) - length - 1, len(fed)))
    known = [place for place, _ in order] == places and sorted(n for _, n in order) == list(
        range(length + 1)
    )
    require(known, "the template does not end with every digit of the answer")
    steps = [(place - 1, letter, right[letter]) for place, letter in order]
    answers = [frozenset([token]) for token in digits]
    if "stop" in value:
        steps.append((len(fed) - 1, length, [[base], [base]]))
        wrong = set(digits) if value["stop"] == "nondigit" else set(digits[1:])
        answers.append(frozenset(range(d_vocab_out)) - wrong)
    return Automaton(value, after, fed, steps, answers)


def running_sign(value: Any, length: int) -> Automaton:
    """The sign of the running sum of numbers -largest … largest, asked after each."""
    keys(value, ("name", "largest"), "task")
    (most,) = integers([value["largest"]], "largest", 1, 1, limits.MAX_ALPHABET)
    numbers = range(2 * most + 1)
    sums = [[[s + a for a in numbers] for s in range(2 * most * n + 1)] for n in range(length)]
    fed: list[int | tuple[int, Table]] = [
        (n, repeated(numbers, len(table))) for n, table in enumerate(sums)
    ]
    zero = [most * (n + 1) for n in range(length)]
    right = [
        [[(x > z) - (x < z) + 1 for x in row] for row in table]
        for table, z in zip(sums, zero, strict=True)
    ]
    steps = [(n, n, table) for n, table in enumerate(right)]
    return Automaton(value, sums, fed, steps, [frozenset([n]) for n in range(3)])


def maximum(value: Any, length: int) -> Automaton:
    """The largest of the tokens, asked at the last one."""
    keys(value, ("name", "tokens"), "task")
    (size,) = integers([value["tokens"]], "tokens", 1, 2, limits.MAX_ALPHABET)
    tables = [
        [[max(s, a) for a in range(size)] for s in range(size if n else 1)] for n in range(length)
    ]
    fed: list[int | tuple[int, Table]] = [
        (n, repeated(range(size), len(table))) for n, table in enumerate(tables)
    ]
    answers = [frozenset([token]) for token in range(size)]
    return Automaton(value, tables, fed, [(length - 1, length - 1, tables[-1])], answers)


def given(value: Any) -> Automaton:
    """An automaton written out."""
    keys(value, ("name", "automaton"), "task")
    tables = keys(value["automaton"], ("next", "positions", "steps", "answers"), "automaton")
    fed = [
        at
        if type(at) is int
        else (keys(at, ("letter", "tokens"), "a position")["letter"], at["tokens"])
        for at in tables["positions"]
    ]
    steps = [
        (keys(step, ("query", "letter", "right"), "a step")["query"], step["letter"], step["right"])
        for step in tables["steps"]
    ]
    answers = [
        frozenset(integers(answer, "answers", None, 0, limits.MAX_MODEL_BYTES))
        for answer in tables["answers"]
    ]
    return Automaton(value, tables["next"], fed, steps, answers)


def read_automaton(value: Any, d_vocab: int, d_vocab_out: int, n_ctx: int) -> Automaton:
    """Expand the task that a model file names by the rules above.

    Every index of every table is in its range.
    """
    require(isinstance(value, dict) and isinstance(value.get("name"), str), "a task without a name")
    kind, _, size = value["name"].partition(":")
    if kind in ("add", "cumsum-sign", "max"):
        require(
            re.fullmatch("[1-9][0-9]{0,2}", size),
            f"the task {value['name'][:80]} has no number of letters",
        )
        require(int(size) <= limits.MAX_LETTERS, f"more than {limits.MAX_LETTERS} letters")
        task = addition(value, int(size), d_vocab_out) if kind == "add" else None
        task = task or (running_sign if kind == "cumsum-sign" else maximum)(value, int(size))
    else:
        own = re.fullmatch("[A-Za-z][A-Za-z0-9_.:-]{0,63}", value["name"])
        require(own, "a task's own name is not one word of at most 64 letters, digits and _ . : -")
        task = given(value)
    check_tables(task, d_vocab, d_vocab_out, n_ctx)
    return task


def check_tables(task: Automaton, d_vocab: int, d_vocab_out: int, n_ctx: int) -> None:
    """Tables of one automaton, tokens that there are, and positions that the network has."""
    require(
        isinstance(task.next, list) and 1 <= len(task.next) <= limits.MAX_LETTERS,
        "not a list of letters",
    )
    states, entries = 1, 0

    def table(rows: Any, what: str, height: int, below: int, width: int | None = None) -> None:
        require(
            isinstance(rows, list) and len(rows) == height,
            f"{what}: a table that does not fit its letter",
        )
        wide = len(rows[0]) if width is None and isinstance(rows[0], list) else width
        require(
            all(integers(row, what, wide, 0, below - 1) for row in rows), f"{what}: an empty table"
        )

    for letter, rows in enumerate(task.next):
        table(rows, f"letter {letter}", states, limits.MAX_STATES)
        entries += len(rows) * len(rows[0])
        require(entries <= limits.MAX_TABLE_ENTRIES, "an automaton that is too large")
        states = max(map(max, rows)) + 1
    require(task.answers and all(task.answers), "an answer without tokens")
    require(
        all(0 <= x < d_vocab_out for answer in task.answers for x in answer),
        "an answer that is no token",
    )
    for source in task.fed:
        height, width = (1, 1) if isinstance(source, int) else shape_of(task, source[0])
        table(
            [[source]] if isinstance(source, int) else source[1],
            "a position",
            height,
            d_vocab,
            width,
        )
    require(task.steps, "a task that asks nothing")
    for query, letter, right in task.steps:
        integers([query], "query", 1, 0, min(n_ctx, len(task.fed)) - 1)
        shape = shape_of(task, letter)
        table(right, "a step", shape[0], len(task.answers), shape[1])


def shape_of(task: Automaton, letter: Any) -> tuple[int, int]:
    """Number of states before a letter, and of its symbols."""
    (known,) = integers([letter], "letter", 1, 0, len(task.next) - 1)
    return len(task.next[known]), len(task.next[known][0])
