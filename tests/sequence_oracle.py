"""Judge proofs on sequences by a slow oracle.

Every word is evaluated in 200-bit arithmetic and compared with what `certify` claims.
"""

import itertools
from dataclasses import replace

import numpy as np

from quadlens.base.numbers import precision
from quadlens.network import Weights
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import forward, sequence_config
from quadlens.proofs.sequences.certificate import SequenceCertificate
from quadlens.proofs.sequences.linear import LinearStep
from quadlens.proofs.sequences.tables import Network
from small_sequences import PARITY, addition_task, random_config, random_network

KINDS = (
    "plain",
    "equal scores",
    "large scores",
    "small rows",
    "tied tokens",
    "own answers",
    "one wrong",
)


def all_words(network: Network) -> np.ndarray:
    return np.array(list(itertools.product(*(range(size) for size in network.task.alphabets))))


def true_margins(network: Network, bits: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper ends of every word's margin at every step.

    Both are arrays [word, step] of exact ends of balls.
    """
    words, task = all_words(network), network.task
    low, high = (np.empty((len(words), len(task.steps)), dtype=object) for _ in "lh")
    with precision(bits):
        for i, (query, _, _) in enumerate(task.steps):
            logits, right = (
                forward(network.weights, task.tokens(words), query, True),
                task.right(words, i),
            )
            for w in range(len(words)):
                good, bad = logits[w][right[w]], logits[w][~right[w]]
                low[w, i] = max(x.lower() for x in good) - max(
                    (x.upper() for x in bad), default=-1000
                )
                high[w, i] = max(x.upper() for x in good) - max(
                    (x.lower() for x in bad), default=-1000
                )
    return low, high


def check(certificate: SequenceCertificate, bits: int = 200) -> None:
    """Nothing that is claimed is beyond the truth, by any amount."""
    network = certificate.network
    low, high = true_margins(network, bits)
    strictly_wrong = sum(any(x < 0 for x in row) for row in high)
    not_right = sum(not all(x > 0 for x in row) for row in low)
    least, most = certificate.wrong_inputs
    assert least <= strictly_wrong, (least, strictly_wrong)
    assert not_right <= most, (not_right, most)
    assert certificate.certified_inputs == network.task.inputs - most
    if certificate.margin is not None:
        margin = certificate.margin
        words = all_words(network)
        for number, step in enumerate(certificate.steps):
            if isinstance(step, LinearStep):
                above = sum(x * margin.denominator >= margin.numerator for x in low[:, number])
                assert above >= network.task.inputs - step.counted()[1]
                continue
            right = np.ones(len(words), dtype=bool)
            for group in step.all_groups():
                for i in np.flatnonzero(group.leaf >= 0):
                    leaf, cells = step.leaves[group.leaf[i]], group.cells
                    inside = (words[:, cells.first : cells.last] == cells.letters[i]).all(axis=1)
                    if cells.first < network.task.letters:
                        inside &= network.task.trace(words)[:, cells.first] == cells.state[i]
                    for w in np.flatnonzero(inside):
                        if leaf.kind == "right":
                            assert low[w, number] * margin.denominator >= margin.numerator
                        if leaf.kind == "wrong":
                            assert high[w, number] < 0
                    right &= ~inside
            assert not right.any(), "a word is in no cell"
    if certificate.verdict == "WRONG":
        word = list(all_words(network).tolist()).index(list(certificate.worst.word))
        assert high[word, certificate.worst.step] < 0
    if certificate.verdict == "CERTIFIED":
        assert not_right == 0


def own_answers(weights: Weights, letters: int, alphabet: int, flipped: int | None) -> Weights:
    """Return the same weights on the task of their own answers at the last position.

    If `flipped` is given, the answer of that word is changed.
    """
    sizes = [alphabet**i for i in range(letters + 1)]
    after = [np.arange(sizes[i] * alphabet).reshape(sizes[i], alphabet) for i in range(letters)]
    tokens = [tuple(tuple(range(alphabet)) for _ in range(size)) for size in sizes[:-1]]
    fed = tuple(Fed(i, tokens[i]) for i in range(letters))
    words = np.array(list(itertools.product(range(alphabet), repeat=letters)))
    answers = forward(weights, words, letters - 1).argmax(axis=1)
    if flipped is not None:
        answers[flipped] = (answers[flipped] + 1) % sequence_config(weights).d_vocab_out
    step = Step(letters - 1, letters - 1, tuple(map(tuple, answers.reshape(-1, alphabet).tolist())))
    rows = tuple(tuple(map(tuple, table.tolist())) for table in after)
    sets = tuple((t,) for t in range(sequence_config(weights).d_vocab_out))
    spec = TaskSpec("own", automaton=Automaton(rows, fed, (step,), sets))
    return Weights(replace(sequence_config(weights), task=spec), **weights.tensors)


def any_network(seed: int) -> Weights:
    """A network of any kind on a task of at most 256 words."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    tasks = (
        (addition_task(2, 2), 4, 9),
        (addition_task(1, 3, stop=True), 5, 7),
        (addition_task(2, 2, highest_first=True), 4, 9),
        (PARITY, 3, 4),
        (TaskSpec("cumsum-sign:3", largest=1), 3, 3),
        (TaskSpec("max:3", tokens=4), 4, 3),
    )
    spec, tokens, positions = tasks[rng.integers(len(tasks))]
    if kind in ("own answers", "one wrong"):
        spec, tokens, positions = TaskSpec("max:4", tokens=3), 3, 4
    config: SequenceConfig = random_config(seed, spec, tokens, positions)
    scale = float(rng.choice([0.3, 1.0, 3.0]))
    model = random_network(config, seed, scale)
    tensors = dict(model.tensors)
    if kind == "equal scores":
        tensors["W_Q"] = np.zeros_like(tensors["W_Q"])
        tensors.pop("b_Q", None)
    if kind == "large scores":
        tensors["W_Q"] = tensors["W_Q"] * np.float32(1e4)
    if kind == "small rows":
        tensors["W_E"] = np.zeros_like(tensors["W_E"])
        tensors.pop("W_pos", None)
    if kind == "tied tokens":
        tensors["W_U"] = np.repeat(tensors["W_U"][:, :1], tensors["W_U"].shape[1], axis=1)
        tensors.pop("b_U", None)
    model = Weights(config, **tensors)
    if kind in ("own answers", "one wrong"):
        model = own_answers(model, 4, 3, int(rng.integers(81)) if kind == "one wrong" else None)
    return model
