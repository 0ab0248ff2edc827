"""Tasks on sequences as automata: their inputs, tokens and right answers.

Letter l of a word is one of A_l; a state runs along, 0 before the first letter. A position is fed a
constant token or tokens[s, a] of one letter a and the state s before it; so is what is right at a
step. Every word is one input.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Bool, Int

from quadlens.base.errors import BadConfig
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec

# [state before, letter]; each letter has its own sizes.
Table = Int[np.ndarray, "_ _"]
Words = Int[np.ndarray, "n l"]
MAX_LETTERS = 1 << 10
MAX_ENTRIES = 1 << 22
SAMPLE = 1_000
SEED = 0


@dataclass(frozen=True, eq=False)
class SequenceTask:
    """A task on sequences, its tables as arrays.

    Attributes:
        name: Of the task.
        next: Of each letter, [state before, letter] → state after.
        positions: What each position is fed: a constant token, or (letter, [state before, letter] →
            token).
        steps: (position that is read, letter, [state before, letter] → number of the right answer),
            in decoding order.
        answers: [answer, token] → whether the token is right.
    """

    name: str
    next: tuple[Table, ...]
    positions: tuple[int | tuple[int, Table], ...]
    steps: tuple[tuple[int, int, Table], ...]
    answers: Bool[np.ndarray, "answer token"]

    @property
    def letters(self) -> int:
        """Number of letters of a word."""
        return len(self.next)

    @cached_property
    def alphabets(self) -> tuple[int, ...]:
        """Number of letters A_l at each place of a word."""
        return tuple(table.shape[1] for table in self.next)

    @cached_property
    def states(self) -> tuple[int, ...]:
        """Number of states at each boundary, before the first letter, …, after the last."""
        return (*(table.shape[0] for table in self.next), int(self.next[-1].max()) + 1)

    @property
    def inputs(self) -> int:
        """Number of words, exactly."""
        return prod(self.alphabets)

    @cached_property
    def words_to(self) -> tuple[tuple[int, ...], ...]:
        """Number of beginnings that lead to each state, at each boundary; exact integers."""
        counts: list[tuple[int, ...]] = [(1,)]
        for table, size in zip(self.next, self.states[1:], strict=True):
            after = [0] * size
            for s, row in enumerate(table.tolist()):
                for state in row:
                    after[state] += counts[-1][s]
            counts.append(tuple(after))
        return tuple(counts)

    @cached_property
    def words_from(self) -> tuple[int, ...]:
        """Number of ends of words from each boundary on."""
        return tuple(prod(self.alphabets[i:]) for i in range(self.letters + 1))

    def trace(self, words: Words) -> Int[np.ndarray, "n l"]:
        """Return the state before each letter of each word."""
        state, before = np.zeros(len(words), dtype=np.int64), []
        for letter, table in enumerate(self.next):
            before.append(state)
            state = table[state, words[:, letter]]
        return np.stack(before, axis=1)

    def tokens(self, words: Words) -> Int[np.ndarray, "n t"]:
        """Return the tokens at the positions for each word, right answers included."""
        states = self.trace(words)
        columns = [
            np.full(len(words), fed)
            if isinstance(fed, int)
            else fed[1][states[:, fed[0]], words[:, fed[0]]]
            for fed in self.positions
        ]
        return np.stack(columns, axis=1)

    def right(self, words: Words, step: int) -> Bool[np.ndarray, "n token"]:
        """Return which tokens are right at a step, for each word."""
        _, letter, table = self.steps[step]
        return self.answers[table[self.trace(words)[:, letter], words[:, letter]]]

    def random_words(self, n: int, seed: int) -> Words:
        """Draw n words evenly."""
        rng = np.random.default_rng(seed)
        return np.stack([rng.integers(0, size, n) for size in self.alphabets], axis=1)


def sample_words(task: SequenceTask, n: int = SAMPLE, seed: int = SEED) -> Words:
    """Draw a sample of inputs evenly.

    The second half of sums is full of carries: every x + y is base - 1 or more.
    """
    words = task.random_words(n, seed)
    if not task.name.startswith("add:"):
        return words
    base = round(task.alphabets[0] ** 0.5)
    x = words[n // 2 :, :-1] // base
    y = np.random.default_rng(seed + 1).integers(base - 1 - x, base)
    return np.concatenate([words[: n // 2], np.pad(x * base + y, ((0, 0), (0, 1)))])


def expand(config: SequenceConfig) -> SequenceTask:
    """Return the automaton of a network's task, checked against the network.

    Raises:
        BadConfig: for a name that is not known, with what is wrong with it.
    """
    spec = config.task
    kind, _, size = spec.name.partition(":")
    if kind in NAMED and (not re.fullmatch("[1-9][0-9]{0,2}", size) or spec.automaton is not None):
        raise BadConfig(
            f"task {spec.name!r}: expected {kind}:N, N being 1 … 999, and no automaton: the name "
            "says it"
        )
    if kind in NAMED:
        automaton = NAMED[kind](spec, int(size), config)
    elif spec.automaton is not None:
        if not re.fullmatch(
            "[A-Za-z][A-Za-z0-9_.:-]{0,63}", spec.name
        ):  # statements of theorems quote it
            raise BadConfig(
                f"task {spec.name[:80]!r}: expected a name of one word, a letter and then at most "
                "63 letters, digits "
                "or any of _ . : -"
            )
        automaton = spec.automaton
    else:
        raise BadConfig(
            f"task {spec.name!r} is not known; expected {':N, '.join(NAMED)}:N, or a name with an "
            "automaton"
        )
    return _checked(spec.name, automaton, config)


def addition(spec: TaskSpec, digits: int, config: SequenceConfig) -> Automaton:
    """Return the automaton of addition.

    Letter l is (x_l, y_l), as x_l · base + y_l; the state is the carry. The last letter is the
    carry alone.
    """
    base = len(spec.digits)
    if (
        base < 2
        or len(set(spec.digits)) != base
        or spec.tokens is not None
        or spec.largest is not None
    ):
        raise BadConfig(
            f"task {spec.name!r}: digits {spec.digits}; expected the tokens of at least two "
            "digits, no more"
        )
    x, y = np.divmod(np.arange(base * base), base)
    sums = np.stack([x + y, x + y + 1])
    token = np.array(spec.digits)
    after = [
        sums[:1] // base,
        *(sums // base for _ in range(digits - 1)),
        np.zeros((2, 1), dtype=np.int64),
    ]
    answer = [sums[:1] % base, *(sums % base for _ in range(digits - 1)), np.array([[0], [1]])]
    positions: list[int | Fed] = []
    for entry in spec.template:
        match = re.fullmatch(r"([xyz])(0|[1-9][0-9]*)", entry) if isinstance(entry, str) else None
        if isinstance(entry, int):
            positions.append(entry)
        elif match is None or int(match[2]) > (digits if match[1] == "z" else digits - 1):
            raise BadConfig(
                f"task {spec.name!r}: {entry!r} in its template; expected a token, x0 … "
                f"y{digits - 1} or z0 …"
            )
        else:
            letter = int(match[2])
            values = (
                answer[letter]
                if match[1] == "z"
                else np.tile({"x": x, "y": y}[match[1]], (len(after[letter]), 1))
            )
            positions.append(Fed(letter, _rows(token[values])))
    answered = [
        i
        for i, entry in enumerate(spec.template)
        if isinstance(entry, str) and entry.startswith("z")
    ]
    named = [spec.template[i] for i in answered]
    if (
        answered != list(range(len(positions) - digits - 1, len(positions)))
        or len(set(named)) != digits + 1
    ):
        raise BadConfig(
            f"task {spec.name!r}: expected z0 … z{digits} at the end of its template, in the order "
            "of decoding"
        )
    steps = [
        Step(i - 1, int(str(spec.template[i])[1:]), _rows(answer[int(str(spec.template[i])[1:])]))
        for i in answered
    ]
    answers: list[tuple[int, ...]] = [(int(digit),) for digit in spec.digits]
    if spec.stop is not None:
        steps.append(Step(answered[-1], digits, ((base,), (base,))))
        harmless = spec.digits[: 1 if spec.stop == "zero" else 0]
        answers.append(
            tuple(t for t in range(config.d_vocab_out) if t in harmless or t not in spec.digits)
        )
    return Automaton(tuple(map(_rows, after)), tuple(positions), tuple(steps), tuple(answers))


def cumsum_sign(spec: TaskSpec, numbers: int, config: SequenceConfig) -> Automaton:
    """Return the automaton of the sign of the running sum after each number.

    The sign is 0 below zero, 1 at zero and 2 above; the state is the sum so far.
    """
    largest = spec.largest
    if (
        largest is None
        or largest < 1
        or spec.template
        or spec.digits
        or spec.stop
        or spec.tokens is not None
    ):
        raise BadConfig(
            f"task {spec.name!r}: expected `largest`, the largest number, of at least 1, and "
            "nothing else"
        )
    letter = np.arange(2 * largest + 1)
    sums = [np.arange(2 * largest * i + 1)[:, None] + letter for i in range(numbers)]
    right = [np.sign(table - largest * (i + 1)) + 1 for i, table in enumerate(sums)]
    fed = [Fed(i, _rows(np.tile(letter, (len(table), 1)))) for i, table in enumerate(sums)]
    steps = tuple(Step(i, i, _rows(table)) for i, table in enumerate(right))
    return Automaton(tuple(map(_rows, sums)), tuple(fed), steps, ((0,), (1,), (2,)))


def maximum(spec: TaskSpec, numbers: int, config: SequenceConfig) -> Automaton:
    """Return the automaton of the largest token, read at the last position.

    The state is the largest so far.
    """
    tokens = spec.tokens
    if (
        tokens is None
        or tokens < 2
        or spec.template
        or spec.digits
        or spec.stop
        or spec.largest is not None
    ):
        raise BadConfig(
            f"task {spec.name!r}: expected `tokens`, their number, of at least 2, and nothing else"
        )
    letter = np.arange(tokens)
    first, later = letter[None], np.maximum(letter[:, None], letter)
    after = [first, *(later for _ in range(numbers - 1))]
    fed = [Fed(i, _rows(np.tile(letter, (len(table), 1)))) for i, table in enumerate(after)]
    steps = (Step(numbers - 1, numbers - 1, _rows(after[-1])),)
    return Automaton(
        tuple(map(_rows, after)), tuple(fed), steps, tuple((t,) for t in range(tokens))
    )


NAMED: dict[str, Callable[[TaskSpec, int, SequenceConfig], Automaton]] = {
    "add": addition,
    "cumsum-sign": cumsum_sign,
    "max": maximum,
}


def _rows(table: Table) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, table.tolist()))


def _checked(name: str, automaton: Automaton, config: SequenceConfig) -> SequenceTask:
    """Return the automaton as arrays, every index in its range."""
    tables = automaton.next
    if not 1 <= len(tables) <= MAX_LETTERS or not automaton.steps:
        raise BadConfig(
            f"task {name!r}: {len(tables)} letters, {len(automaton.steps)} steps; expected at "
            "least one"
        )
    after = [_table(name, table, None) for table in tables]
    states = [1, *(int(table.max()) + 1 for table in after)]
    for letter, table in enumerate(after):
        if len(table) != states[letter]:
            raise BadConfig(
                f"task {name!r}: letter {letter} has {len(table)} states before it, not "
                f"{states[letter]}"
            )

    def letter_table(letter: int, rows: tuple[tuple[int, ...], ...], below: int) -> Table:
        if not 0 <= letter < len(after):
            raise BadConfig(f"task {name!r}: letter {letter}; expected 0 … {len(after) - 1}")
        table = _table(name, rows, below)
        if table.shape != after[letter].shape:
            raise BadConfig(
                f"task {name!r}: a table of shape {table.shape}; expected {after[letter].shape}"
            )
        return table

    positions: list[int | tuple[int, Table]] = []
    for fed in automaton.positions:
        if isinstance(fed, Fed):
            positions.append((fed.letter, letter_table(fed.letter, fed.tokens, config.d_vocab)))
        elif 0 <= fed < config.d_vocab:
            positions.append(fed)
        else:
            raise BadConfig(f"task {name!r}: token {fed}; expected 0 … {config.d_vocab - 1}")
    answers = np.zeros((len(automaton.answers), config.d_vocab_out), dtype=bool)
    for row, tokens in zip(answers, automaton.answers, strict=True):
        if not tokens or not all(0 <= t < config.d_vocab_out for t in tokens):
            raise BadConfig(
                f"task {name!r}: right tokens {tokens}; expected some of 0 … "
                f"{config.d_vocab_out - 1}"
            )
        row[list(tokens)] = True
    steps = tuple(
        (step.query, step.letter, letter_table(step.letter, step.right, len(answers)))
        for step in automaton.steps
    )
    for query, _, _ in steps:
        if not 0 <= query < min(len(positions), config.n_ctx):
            raise BadConfig(
                f"task {name!r} reads position {query}; expected one of {len(positions)} and of "
                "the network"
            )
    return SequenceTask(name, tuple(after), tuple(positions), steps, answers)


def _table(name: str, rows: tuple[tuple[int, ...], ...], below: int | None) -> Table:
    """Return a table of natural numbers, below a bound where there is one."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths or len(rows) * max(widths) > MAX_ENTRIES:
        raise BadConfig(f"task {name!r}: rows of {sorted(widths)[:5]} entries; expected a table")
    if not all(0 <= x < (MAX_ENTRIES if below is None else below) for row in rows for x in row):
        raise BadConfig(f"task {name!r}: an entry of a table is out of its range")
    return np.array(rows, dtype=np.int64)
