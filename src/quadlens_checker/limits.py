"""Every limit of the checker: what lies beyond one is refused, never half believed.

A program that writes certificates may import these constants, to refuse before it writes what could
not be read again.
"""

# Files.
MAX_CERTIFICATE_BYTES = 64_000_000
MAX_MODEL_BYTES = 64_000_000
MAX_HEADER_BYTES = 1_000_000  # of a model file: the names, shapes and config before its weights

# Numbers in a certificate.
ACTIVATIONS = "relu", "abs", "square", "quartic", "gelu", "tanh", "silu", "softplus"
MAX_MODULUS = 257  # with arcs, of which there is a list per input
MAX_DIRECT_MODULUS = 720  # without; S6 has as many elements, and the limit of time may come first
MAX_INTEGER_DIGITS = (
    18  # of an integer, its sign included; hints lie in -10^18 … 10^18, those of `cells` ±2^120
)
MAX_COUNT_DIGITS = 1000  # of a number of sequences
MAX_RATIONAL_LENGTH = (
    4000  # characters of "numerator/denominator"; below the interpreter's own limit of 4,300 digits
)
MAX_SHIFT = 1000  # of the hints of `moments`: their denominators are at most 2^1000

# Networks on sequences: of their tasks, and bits after the point of tables, of what attention
# weighs them with (and the range of powers of two that weights are kept in), of coordinates, and of
# what follows attention.
SEQUENCE_ACTIVATIONS = "relu", "gelu", "gelu_tanh", "silu"
MAX_LETTERS, MAX_ALPHABET, MAX_STATES, MAX_TABLE_ENTRIES = 1 << 10, 1 << 10, 1 << 14, 1 << 22
MAX_COORDINATES, MAX_CUTS, LARGEST_HINT = 64, 1_000_000, 1 << 120
MAX_BINS = 1 << 16  # that words of one leaf are counted by
MAX_FACTOR, MAX_EXPONENT = 1 << 16, 1 << 18  # of the steps n 2^e of rivals
TABLE_BITS, WEIGHT_BITS, WEIGHT_RANGE, COORDINATE_BITS, TAIL_BITS = 160, 80, 60_000, 96, 80

# Attention scores, and bits after the point where softmax or σ is not rational (`direct.enclose`,
# `activations`): of gates; of pre-activations together with the bits before it; of these where that
# would lose more than 2^-LOSS_BITS; of the grid of arguments at which σ is expanded. W_L has 64,
# and as many more as σ has before the point past SIGMA_BITS.
SCORE_BITS = 60  # they are below 2^60
GATE_BITS, PRE_BITS, WIDE_BITS, LOSS_BITS, GRID_BITS, SIGMA_BITS = 64, 62, 127, 32, 9, 20
STACK_BITS = 100  # of every number of a network of several layers or with norms (`stack`)
MAX_LAYERS, MAX_HIDDEN, MAX_EPS = 4, 16, 1e300

# How often each of these may appear in a JSON text, counted before it is parsed: an object takes 30
# times its text in memory, an integer of four characters ten times. The largest certificate has a
# list for each of p² inputs, of some 30 ends of arcs, and another for those it does not prove.
MAX_JSON_MARKS = {"{": 100_000, '"': 1_000_000, "[": 1_000_000, ",": 8_000_000}

# Time and memory of one check.
DEFAULT_SECONDS, MAX_SECONDS = 600.0, 1_000_000.0
DEFAULT_MEMORY_BYTES = 2_000_000_000
OPERATIONS_PER_SECOND = 10_000_000  # of this checker: to refuse at once what cannot be done in time
