# Templates are whole sentences, easier to find when they are not cut.
# ruff: noqa: E501
"""Reports of nine models: every sentence with a number has the value it quotes, rounded to the side it promises."""

import html
import os
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.test_deep import config_of, random_deep
from pages.test_report_kinds import DOT, TASKS, made
from quadlens.explorer import build_page
from quadlens.figures.beyond_waves import all_gates
from quadlens.figures.error_sizes import heights
from quadlens.figures.integrals import sums
from quadlens.figures.proved import rule_points
from quadlens.figures.rectangles import area_of
from quadlens.figures.registry import all_pictures
from quadlens.integration import Integration, doubles
from quadlens.model import Recipe, Weights, build_mlp
from quadlens.model.config import Config, Softmax
from quadlens.model.formats import import_file
from quadlens.pages.page import page_html
from quadlens.quadrature import box_density, moments, rectangles
from quadlens.studies import Study, study_of

pytestmark = pytest.mark.slow

BUNDLED = ("pizza", "original", "mismatched", "clock", "times")
MODELS = (*BUNDLED, "embedding", "group", "layers", "wrong")


def embedding_mlp() -> Weights:
    """An MLP whose neurons read a and b at phases of their own, nine to a frequency, and write at twice their mean."""
    p, rng = 29, np.random.default_rng(4)
    k = np.repeat([2, 5, 7, 11], 9)
    phi, delta = rng.uniform(-np.pi, np.pi, (2, len(k)))
    angle = 2 * np.pi * np.outer(np.arange(p), k) / p
    W_a, W_b, W_out = np.cos(angle + phi + delta), np.cos(angle + phi - delta), np.cos(angle + 2 * phi).T
    return Weights(Config.mlp(p, len(k)), W_a=W_a, W_b=W_b, W_out=W_out)


def group_model() -> Weights:
    """S5 as trained by others, where it is at hand; else random weights, asked for products in S3."""
    peers = os.environ.get("QUADLENS_PEERS")
    if peers and (file := Path(peers, "chughtai", "S5_T_seed1", "model.pt")).exists():
        return import_file(file).model
    return made(TASKS["a group"], "softmax", "relu")


@cache
def studied(name: str) -> Study:
    if name in BUNDLED:
        return study_of(name).without_proofs() if name == "original" else study_of(name)
    makers: dict[str, Callable[[], Weights]] = {
        "embedding": embedding_mlp,
        "group": group_model,
        "layers": lambda: random_deep(config_of(2, 2, Softmax(0.5, 2.0))),
        "wrong": lambda: build_mlp(Recipe(p=23, keys=(2, 5, 7), neurons=60, noise=0.35, seed=1)),
    }
    study = study_of(makers[name](), name)
    return study.without_proofs() if name == "group" else study


@cache
def page_of(name: str) -> str:
    study = studied(name)
    return page_html(study, {one.name: DOT for one in all_pictures(study)})


def blocks(page: str, leave_out: str = "") -> list[str]:
    """The page's blocks of text, without tables, formulas, code, the index and the glossary."""
    body = page[page.index("<body") :]
    for gone in (r'<section id="(?:words|made|index)">.*?</section>', "<nav.*?</nav>", "<table.*?</table>", leave_out):
        body = re.sub(gone, "", body, flags=re.DOTALL) if gone else body
    body = re.sub(r"<(math|code).*?</\1>", "∎", body, flags=re.DOTALL)
    ends = r"</?(?:p|li|h1|h2|dd|dt|div|figcaption|figure|section|header|main|dl|ol|ul|span)\b[^>]*>"
    found = (" ".join(html.unescape(re.sub("<[^>]+>", "", block)).split()) for block in re.split(ends, body))
    return [block for block in found if block]


def sentences(name: str) -> list[str]:
    """Every sentence with a number that is not a symbol's (2φ) and not in how a figure is read, the same for all."""
    how, theorem = r'<p class="how">.*?</p>', r'<section id="theorem">.*?<dl class="facts">'
    every = [
        sentence
        for block in blocks(page_of(name), f"{how}|{theorem}")
        for sentence in re.split(r"(?<=\.) (?=[A-ZΣ=\d])", block)
    ]
    return [sentence for sentence in every if re.search(r"\d", SYMBOLS.sub("", sentence))]


SYMBOLS = re.compile(r"[2-9]φ|2π|2k|cos 2[uφs]|sin 2[φs]|2s|2/3|\|x\|/2|x/2|S\d|step 4|float64|float32|Float32")


def rounded(x: float, digits: int, how: str) -> str:
    """The oracle: so many decimals, by Decimal."""
    value = Decimal(float(x)).quantize(Decimal(1).scaleb(-digits), how)
    return f"{abs(value) if value == 0 else value:f}"


def up(x: float, digits: int = 4) -> str:
    return rounded(x, digits, ROUND_CEILING)


def down(x: float | None, digits: int) -> str:
    return rounded(x if x is not None else np.nan, digits, ROUND_FLOOR)


def near(x: float | None, digits: int = 3) -> str:
    return rounded(x if x is not None else np.nan, digits, ROUND_HALF_EVEN)


def per_cent(x: float, digits: int = 1, how: Callable[[float, int], str] = near) -> str:
    """Below 1 never 100."""
    found = how(100 * x, digits)
    return found if x >= 1 or float(found) < 100 else near(100 - 10**-digits, digits)


def n(count: int) -> str:
    return f"{count:,}"


Said = Callable[[Study, tuple[str, ...]], tuple[str, ...] | list[str]]


def cluster(s: Study, k: str) -> Any:
    return next(one for one in s.clusters if one.k == int(k))


def relative(s: Study, one: Any) -> float:
    """The rule's worst error with the model's own activation: ReLU's integral is half as large as that of |x|."""
    return float(one.exact_psi.relu.upper / (one.baseline.lower / 2))


def worst(s: Study) -> tuple[str, str]:
    one = max(s.clusters, key=lambda one: relative(s, one))
    return up(100 * relative(s, one), 1), str(one.k)


def many(template: str, values: Callable[[Any], list[str]], ones: Any) -> tuple[str, ...]:
    """A list of clauses, one per frequency."""
    return ("; ".join(template.replace("#", "{}").format(*values(one)) for one in ones),)


def two_term(s: Study) -> list[str]:
    forms = s.explanation.logits.forms  # type: ignore[union-attr]
    return [near(forms.by_parts.r2), n(forms.by_parts.correct), n(s.p**2), n(forms.pizza_only.correct)]


def moment_words(one: Any) -> list[str]:
    found = moments(one.scheme, 12)
    size, order = found.size[found.order > 0], found.order[found.order > 0]
    top = int(size.argmax())
    values = [near(size[0], 4), near(size[1], 4), near(size[top]), str(order[top]), near(one.neurons**-0.5)]
    return [str(one.k), *values]


def waves(one: Any) -> str:
    names = {"sum_waves": "sum waves", "constant": "a constant", "double_waves": "double waves"}
    names["product_waves"] = "product waves"
    shares = sorted(((one.reading.cluster.fourier[key], name) for key, name in names.items()), key=lambda x: -x[0])
    said = ", ".join(f"{name} {per_cent(share)} %" for share, name in shares if share >= 0.005)
    return f"k = {one.k}: {said or 'no simple wave'}"


def gate_words(s: Study) -> str:
    layer = s.anatomy.layer
    values, said = all_gates(layer), []
    for head in range(values.shape[1]):
        of_head = []
        for t, one in enumerate(layer.gated):
            low, high = near(values[t, head].min(), 2), near(values[t, head].max(), 2)
            of_head.append(
                f"on {'ab='[one.position]} {f'{low} everywhere' if low == high else f'from {low} to {high}'}"
            )
        said.append(f"head {head}: {', '.join(of_head)}")
    return "; ".join(said)


def spots(s: Study) -> tuple[str]:
    said = []
    for spot in s.explanation.logits.weak_spots:  # type: ignore[union-attr]
        absolute, identity = near(spot.abs_component, 1), near(spot.identity_component, 1)
        sign = "" if float(identity) < 0 else "+"
        said.append(f"k = {spot.k}: {absolute} from the absolute part, {sign}{identity} from the identity part")
    return ("; ".join(said),)


def phases(s: Study, k: str) -> Any:
    return next(one for one in s.explanation.phases if one.k == int(k))


def roles(s: Study) -> Any:
    return s.explanation.roles


def living(s: Study, pick: Callable[[Any], float]) -> list[str]:
    alive = ~roles(s).dead
    shares = (roles(s).variance_input[alive], roles(s).variance_output[alive])
    return [per_cent(pick(share), 1, down) for share in shares]


def evaluated(s: Study) -> tuple[str, ...]:
    found = s.evaluation
    return n(found.correct), n(found.pairs)


def outline(s: Study) -> Any:
    return s.outline


def measures(s: Study) -> Any:
    return s.outline.algorithm if s.outline is not None else s.explanation.logits.algorithm  # type: ignore[union-attr]


def strategies(s: Study) -> tuple[str, ...]:
    said = "; ".join(
        f"{one.proof.strategy} proves {n(one.certified_inputs)} inputs for {per_cent(one.cost_share, 1, up)} %"
        + (f" with a margin of at least {down(float(one.proof.margin), 2)}" if one.proof.margin is not None else "")
        for one in s.certificates
    )
    return (said,)


def frontier(s: Study) -> tuple[str, ...]:
    points = rule_points(s.clusters) if s.clusters else []
    rules = [f"{name}: at most {up(size, 3)} for {n(cost)} operations" for name, cost, size, _ in points]
    proofs = [
        f"strategy {one.proof.strategy}: {per_cent(one.certified_inputs / one.p**2)} % of inputs proved at "
        f"{per_cent(one.cost_share, 1, up)} % of brute force's cost"
        for one in s.certificates
    ]
    return ("; ".join(rules + proofs),)


# A sentence as a template (# is a number, … any words), and the words and numbers that belong there, from the study.
SAID: dict[str, Said] = {
    # The head of the page, and the task.
    "How …": lambda s, g: (f"{'' if s.evaluation.correct == s.p**2 else 'well '}{s.name} " + does(s),),
    "This page opens up a small neural network that …": lambda s, g: (
        (does(s) if s.evaluation.correct == s.p**2 else f"was meant to {does(s).replace('adds', 'add')}") + ".",
    ),
    "Its layer of … neurons computes integrals numerically, one for each of its frequencies: ….": lambda s, g: (
        g[0],
        reasons(s),
    ),
    "Its hidden layer …: ….": lambda s, g: (g[0], reasons(s)),
    "…said to…: ….": lambda s, g: (*g[:2], reasons(s)),
    "By the measure of this page … does not: ….": lambda s, g: (g[0], reasons(s)),
    "The shared functions alone answer # % of the inputs right.": lambda s, g: (per_cent(s.lens.answers_right),),
    "A layer is said to compute integrals where …R² of at least 0.9 of the logits…": lambda s, g: g,
    "It is proved that all # answers are right.": lambda s, g: (n(s.p**2),),
    "It is proved that # of # answers are right.": lambda s, g: (n(best(s).certified_inputs), n(s.p**2)),
    "This model is wrong on # of # questions.": lambda s, g: (n(s.p**2 - s.evaluation.correct), n(s.p**2)),
    "Not a good model in the paper’s sense: # of # neurons read one frequency and write another.": lambda s, g: (
        str(roles(s).mismatching.sum()),
        str(s.config.d_mlp),
    ),
    "# of #": lambda s, g: evaluated(s) if g[0] == evaluated(s)[0] else (n(best(s).certified_inputs), n(s.p**2)),
    "#": lambda s, g: (
        (down(s.evaluation.min_margin, 2),) if "." in g[0] else (n(best(s).total_flops),) if "," in g[0] else keys(s)
    ),
    "# %": lambda s, g: (
        (per_cent(best(s).cost_share, 1, up),)
        if g[0] == per_cent(best(s).cost_share, 1, up)
        else (per_cent(best(s).cost_share_beyond_collapse, 1, up),)
    ),
    "#, …": lambda s, g: (g[0], ", ".join(map(str, s.keys or outline(s).key_frequencies)).partition(", ")[2]),
    "≤ # %": lambda s, g: (worst(s)[0],),
    "The model gets two numbers a and b between 0 and # and must say a + b modulo #: what is left after taking away # as "
    "often as possible.": lambda s, g: (str(s.p - 1), str(s.p), str(s.p)),
    "The model gets two of # elements, numbered # to #, and must say …": lambda s, g: (
        str(s.p),
        s.config.task.element(0),
        s.config.task.element(s.p - 1),
        g[3],
    ),
    "There are # questions; this model answers …": lambda s, g: (
        n(s.p**2),
        "all of them right."
        if s.evaluation.correct == s.p**2
        else f"{per_cent(s.evaluation.accuracy)} % of them right.",
    ),
    "It is a small network with # … neurons.": lambda s, g: (str(s.config.d_mlp), g[1]),
    "The model answers # of # pairs right.": lambda s, g: evaluated(s),
    "Its smallest margin is #, at …; the median is #.": lambda s, g: (
        down(s.evaluation.min_margin, 2),
        s.config.task.question(*s.evaluation.min_margin_pair),
        near(s.evaluation.median_margin, 2),
    ),
    "The rest of this page renames elements so that the task is addition modulo #: …#.": lambda s, g: (
        str(s.p),
        g[1],
        str(s.config.task.cyclic.root),  # type: ignore[union-attr]
    ),
    "Sections on …": lambda s, g: g,
    # The paragraph for readers of the paper.
    "This model adds modulo # with … frequenc…: …": lambda s, g: (str(s.p), *g[1:3], ", ".join(map(str, s.keys)) + "."),
    "This model answers … everywhere with … frequencies: …": lambda s, g: (*g[:2], ", ".join(map(str, s.keys)) + "."),
    "This model answers # of # additions modulo # right; it has … frequenc…: …": lambda s, g: (
        *evaluated(s),
        str(s.p),
        *g[3:5],
        ", ".join(map(str, s.keys)) + ".",
    ),
    "Its elements are renamed by their logarithms to the primitive root #…": lambda s, g: (
        str(s.config.task.cyclic.root),  # type: ignore[union-attr]
        g[1],
    ),
    "# of # neurons read and write the same frequency…": lambda s, g: (
        str(roles(s).matching.sum()),
        str(s.config.d_mlp),
        g[2],
    ),
    "A neuron's largest frequency explains # % of the variance of what it reads and # % of what it writes (medians).": (
        lambda s, g: living(s, lambda share: float(np.median(share)))
    ),
    "Output phases follow twice the input phases with R² of at least #; input phases cover the circle roughly evenly for "
    "# of # key frequencies.": lambda s, g: (
        down(min(phases(s, str(k)).r2 for k in s.keys), 4),
        str(sum(phases(s, str(k)).spacing.roughly_uniform for k in s.keys)),
        str(len(s.keys)),
    ),
    "The secondary frequency is the double of the primary one for # of # neurons…R² #).": lambda s, g: (
        str(s.explanation.doubling.doubled),
        str(s.explanation.doubling.neurons),
        ", with phase 2φ + π (" if float(g[3]) >= 0.9 else "; their phase does not follow 2φ + π (",
        down(s.explanation.doubling.phase_r2, 4),
    ),
    "# key frequencies are another's double modulo #: …": lambda s, g: (
        str(len(s.explanation.doubled_keys)),
        str(s.p),
        ", ".join(f"{double} of {k}" for k, double in s.explanation.doubled_keys) + ".",
    ),
    "One key frequency is another's double modulo #: …": lambda s, g: (
        str(s.p),
        "{1} of {0}.".format(*s.explanation.doubled_keys[0]),
    ),
    "The logits fit the clock form with R² # and the pizza form with #; the absolute-value part of the MLP alone fits "
    "them with # and #.": lambda s, g: r2s(s),
    "The two-term form …cos(kw(a+b-c)) has R² # and alone answers # of # inputs right (# without D_k).": lambda s, g: (
        g[0],
        *two_term(s),
    ),
    "The two-term form …cos(kw(a+b-c)) has R² #, too little to stand for the logits.": lambda s, g: (
        g[0],
        two_term(s)[0],
    ),
    "The skip connection makes # % of the logits' variance.": lambda s, g: (
        per_cent(s.explanation.logits.skip_share),  # type: ignore[union-attr,arg-type]
    ),
    "By the measures of Zhong et al., gradient symmetricity is # (# along the directions in which tokens differ) and "
    "distance irrelevance #, …": lambda s, g: (
        near(measures(s).gradient_symmetricity),
        near(measures(s).gradient_symmetricity_in_span),
        near(measures(s).distance_irrelevance),
        g[3],
    ),
    # The paragraph for models without frequencies of their own.
    "# neurons… answer …: # of # inputs are right, with a smallest margin of #.": lambda s, g: (
        str(s.config.d_mlp),
        *g[1:3],
        *evaluated(s),
        down(s.evaluation.min_margin, 3),
    ),
    "Attention is a …; the weight that varies most, of head #… on …, goes from # to #.": lambda s, g: (
        *g[:4],
        near(widest(s).low),
        near(widest(s).high),
    ),
    "Of what neurons read, # % is not a part of a plus a part of b.": lambda s, g: (
        per_cent(1 - outline(s).additive_share),
    ),
    "Of what neurons read, less than 0.1 % is not a part of a plus a part of b.": lambda s, g: (
        g if 0 < 1 - outline(s).additive_share < 0.001 else ("more",)
    ),
    "Key frequencies: … (# neurons … one of them).": lambda s, g: (
        ", ".join(map(str, outline(s).key_frequencies)),
        str(sum(outline(s).key_neurons)),
        g[2],
    ),
    "W_L is made of … (those with at least 1 % each), which have room for # directions; to hold 99.9 % of W_L takes #…": (
        lambda s, g: (
            ", ".join(f"{one.irrep.name} {near(100 * one.share_W_L, 1)} %" for one in outline(s).key_irreps),
            str(sum(one.irrep.rank for one in outline(s).key_irreps)),
            str(outline(s).rank),
            g[3],
        )
    ),
    # Attention, irreps, steps, neurons.
    "Before the neurons, # attention heads mix what stands at each position.": lambda s, g: (str(s.config.n_heads),),
    "The weight that softmax gives each position, over all inputs: ….": lambda s, g: (gate_words(s),),
    "# of # irreps of … hold at least 1 % of W_L each: ….": lambda s, g: (
        str(len(outline(s).key_irreps)),
        str(len(s.irreps.parts)),  # type: ignore[union-attr]
        s.config.task.name,
        ", ".join(f"{one.irrep.name} {per_cent(one.share_W_L)} %" for one in outline(s).key_irreps),
    ),
    "Functions in them have # dimensions; # directions hold 99.9 % of W_L.": lambda s, g: (
        str(sum(one.irrep.rank for one in outline(s).key_irreps)),
        str(outline(s).rank),
    ),
    "This model does so at # frequencies: ….": lambda s, g: (str(len(s.keys)), listed(s.keys)),
    "In this model # frequencies (…) stand out, but it cannot be said to follow these steps: …": lambda s, g: (
        str(len(s.keys)),
        listed(s.keys),
        g[2] if not s.integration.holds else "it does",
    ),
    "At frequency #, … and … are two points of a circle; their mean points to half the angle of …; …; of the model's own "
    "logits, … has the highest logit, …": lambda s, g: (
        str(s.keys[0]),
        *g[1:4],
        "the MLP doubles it" if s.integration.holds else "its double is the answer's",
        *g[5:],
    ),
    "One neuron (number #)": lambda s, g: (str(typical(s)),),
    "Neuron # reads a wave of frequency # (# % of the variance of what it reads, phase φ = #) and writes one of frequency "
    "# (# %, phase ψ = #; 2φ is #).": lambda s, g: neuron(s),
    "For half of the # living neurons one frequency explains at least # % of what they read and # % of what they write; "
    "for every one at least # % and # %.": lambda s, g: [
        str((~roles(s).dead).sum()),
        *living(s, lambda share: float(np.median(share))),
        *living(s, lambda share: float(share.min())),
    ],
    "The key frequencies are ….": lambda s, g: (listed(s.keys),),
    "Living neurons read # of # possible frequencies; # write another one than they read.": lambda s, g: (
        str(len(set(roles(s).k_in[~roles(s).dead]))),
        str(s.p // 2),
        str((roles(s).k_in != roles(s).k_out)[~roles(s).dead].sum()),
    ),
    # Rules and their errors.
    "Take the # neurons of frequency # together.": lambda s, g: (str(s.clusters[0].neurons), str(s.clusters[0].k)),
    "A clean cluster has …; here ψ against 2φ has R² #.": lambda s, g: (
        g[0],
        down(phases(s, str(s.clusters[0].k)).r2, 4),
    ),
    "Phases of frequency #": lambda s, g: (str(cluster(s, g[0]).k),),
    "Output phase against twice the input phase at frequency #: R² = #.": lambda s, g: (
        g[0],
        down(phases(s, g[0]).r2, 4),
    ),
    "Gaps between the # phases have mean # and standard deviation #: …": lambda s, g: next(
        found
        for one in s.explanation.phases
        if (
            found := (
                str(len(next(x for x in s.explanation.clusters if x.k == one.k).phi)),
                near(one.spacing.width_mean),
                near(one.spacing.width_std),
                f"{'roughly even' if one.spacing.roughly_uniform else 'uneven'} by the paper's test.",
            )
        )
        == g
    ),
    "Frequency # as rectangles under a curve…": lambda s, g: (str(cluster(s, g[0]).k), g[1]),
    "The # rectangles of frequency # over the whole circle have area #; the integral is 1.3333, so at a + b = c = 0 the "
    "error is #.": lambda s, g: area(s, g[1], half=False),
    "The # rectangles of frequency # over half a period (phases folded modulo π) have area #; the integral is 0.6667, so "
    "at a + b = c = 0 the error is #.": lambda s, g: area(s, g[1], half=True),
    "At k = #, where the error is largest, …: over all inputs the sum is off by at most # % of the integral’s mean size.": lambda s, g: (
        worst(s)[1],
        doubles(max(relative(s, one) for one in s.clusters)),
        worst(s)[0],
    ),
    "Of ReLU’s two halves, |x|/2 alone is off by at most # %; x/2, which vanishes in the integral, does not quite vanish in "
    "the sum.": lambda s, g: (up(100 * max(one.relative_exact_psi.upper for one in s.clusters), 1),),
    "For a + b = c = 0 the # neurons of frequency # add up to #; infinitely many, evenly spread, would give 2/3 = 0.667.": (
        lambda s, g: (
            str(s.clusters[0].neurons),
            str(s.clusters[0].k),
            near(
                float(
                    (
                        s.clusters[0].scheme.w
                        * np.maximum(np.cos(s.clusters[0].scheme.phi), 0)
                        * np.cos(2 * s.clusters[0].scheme.phi)
                    ).sum()
                )
            ),
        )
    ),
    "Frequency #: take each neuron …summed over # neurons, the slices differ from …by at most #, # % of the integral's mean "
    "size: ….": lambda s, g: (
        str(s.clusters[0].k),
        g[1],
        str(s.clusters[0].neurons),
        g[3],
        *off(s, str(s.clusters[0].k)),
    ),
    "What frequency # computes": lambda s, g: (str(cluster(s, g[0]).k),),
    "Over all a + b the sums over the neurons of frequency # differ from …by at most #, # % of the integral's mean size: ….": lambda s, g: (
        g[0],
        g[1],
        *off(s, g[0]),
    ),
    "For this model that proves a relative error of at most # (worst key frequency; 1 …says nothing).": lambda s, g: (
        bound(s),
        g[1],
    ),
    "For this model that proves a relative error of at most # (worst key frequency; 1 would say nothing).": lambda s, g: (
        bound(s) if float(bound(s)) < 1 else "nothing",
    ),
    "The paper bounds the error of the absolute part, |cos|, …: the curve’s slope is at most 2, …": lambda s, g: g,
    "The error band of frequency #…": lambda s, g: (str(cluster(s, g[0]).k), g[1]),
    "The orange band of frequency # has area #: no input can have a larger quadrature error….": lambda s, g: (
        g[0],
        up(cluster(s, g[0]).rows.numerical_abs_bound_half.value, 3)
        if g[2]
        else up(cluster(s, g[0]).rows.numerical_abs_bound_full.value, 3),
        g[2],
    ),
    "The true worst case over the whole circle, with 2φ in place of ψ, is at most #.": lambda s, g: (
        g if g[0] in {up(one.exact.absolute.upper) for one in s.clusters} else ("none",)
    ),
    "Overlap of the boxes of frequency #": lambda s, g: (str(s.clusters[0].k),),
    "Boxes of frequency # leave # % of the circle uncovered and pile up to # deep; on average the density is # away from 1.": (
        lambda s, g: boxes(s)
    ),
    "The exact error of its absolute part is at most # of the integral's mean size, the paper's bound #.": lambda s, g: (
        up(s.clusters[0].relative_exact_psi.upper),
        up(s.clusters[0].relative_bound.value, 3),
    ),
    "For the absolute part it is at most # of the integral’s mean size, worst case over all a, b and c.": lambda s, g: (
        up(max(one.relative_exact_psi.upper for one in s.clusters)),
    ),
    "A bound from # moments alone gives #.": lambda s, g: (
        str(s.clusters[0].moments),
        up(max(one.relative_moment_bound_psi.value for one in s.clusters), 3),
    ),
    "They leave out the identity part, x/2; with it, the ReLU rule’s exact worst error is # of its integral’s mean size.": (
        lambda s, g: (up(max(relative(s, one) for one in s.clusters)),)
    ),
    "Worst error of the absolute part over all a, b, c against an integral of mean size …: k = ….": lambda s, g: (
        near(s.clusters[0].baseline.middle),
        "; k = ".join(
            f"{one.k}: {up(one.exact_psi.absolute.upper)} exact, {up(one.moment_bound_psi.value, 3)} by moments, "
            f"{up(one.rows.total_abs_bound_half.value, 3)} by the paper's bound"
            for one in s.clusters
        ),
    ),
    "Relative bound of the paper, minus what its two steps lose, is the exact relative error: ….": lambda s, g: many(
        "k = #: # − # − # ≈ #",
        lambda one: [str(one.k), up(heights(one)[0], 3), *map(near, heights(one)[1:3]), up(heights(one)[3], 3)],
        s.clusters,
    ),
    "Even moments up to order 26 of each cluster: ….": lambda s, g: many(
        "k = #: # at order 2, # at order 4, largest # at order # (random phases: about #)", moment_words, s.clusters
    ),
    "= exact, ≤ proved upper bound, ≈ estimate in float64.": lambda s, g: g,
    # The lens.
    "That is # numbers in all.": lambda s, g: (n(sum(one.reading.rule.numbers for one in s.lens.clusters)),),
    "Every neuron spread over its own rotations is # % of the logits, of at most # % for a function of …": lambda s, g: (
        per_cent(s.lens.r2.symmetric_part),
        per_cent(s.lens.r2.ceiling),
        g[2],
    ),
    "Keys that are doubles of each other: ….": lambda s, g: (
        "; ".join(" → ".join(map(str, chain)) for chain in s.lens.chains),
    ),
    "Moments of order 2 and 4, over the largest they can be: ….": lambda s, g: (
        "; ".join(
            f"k = {one.k}: {moment(one, 2)} and {moment(one, 4)}" for one in s.lens.clusters if chained(s, one.k)
        ),
    ),
    "Read together, with the moments of their nodes, they bring the shared functions from # % to # % of …": lambda s, g: (
        per_cent(s.lens.r2.shared),
        per_cent(s.lens.r2.joint),
        g[2],
    ),
    "By δ alone frequenc… would be a pizza, whose strength falls to 0 with a - b; …": lambda s, g: g,
    "Here a, b and c are the elements renamed …": lambda s, g: g,
    "One function, of degree #, makes # % of the pre-activations' energy in the # neurons of k = #.": lambda s, g: (
        str(s.lens.clusters[0].reading.cluster.degree),
        per_cent(s.lens.clusters[0].reading.shared.fit),
        str(s.lens.clusters[0].neurons),
        str(s.lens.clusters[0].k),
    ),
    "Shares of the pre-activations' energy: ….": lambda s, g: ("; ".join(map(waves, s.lens.clusters)),),
    "Smallest over largest strength: ….": lambda s, g: (
        ", ".join(f"k = {one.k}: {near(one.dip, 2)}" for one in s.lens.clusters),
    ),
    "A pure pizza has 0, a pure clock 1.": lambda s, g: g,
    # Secondary frequencies.
    "Each neuron’s second largest frequency is twice its first for # of # neurons.": lambda s, g: (
        str(s.explanation.doubling.doubled),
        str(s.explanation.doubling.neurons),
    ),
    "A secondary frequency 2k with phase 2φ + π adds …; in this model the phases do not follow 2φ + π (R² #).": lambda s, g: (
        g[0],
        down(s.explanation.doubling.phase_r2, 4),
    ),
    "Where |cos u| is nearly 0, the strength of the right answer is made of: ….": lambda s, g: spots(s),
    "The clearest … frequency and how well its phase follows the primary one: …": lambda s, g: (
        g[0],
        harmonics(s, g[0]),
    ),
    "Of the logits a clock has R² # and a pizza R² #; of their absolute-value part a pizza has R² # and a clock #.": (
        lambda s, g: (*r2s(s)[:2], *r2s(s)[:1:-1])
    ),
    "called the two-term form on this page, has R² # and alone answers # of # questions right, with a smallest margin of "
    "#; without the terms in cos 2u it answers #, with a smallest margin of #.": lambda s, g: (
        *two_term(s)[:3],
        near(s.explanation.logits.forms.by_parts.min_margin, 1),  # type: ignore[union-attr]
        two_term(s)[3],
        near(s.explanation.logits.forms.pizza_only.min_margin, 1),  # type: ignore[union-attr]
    ),
    "called the two-term form on this page, has R² #, too little to stand for the logits.": lambda s, g: (
        two_term(s)[0],
    ),
    # The theorem, below its statement; the statement's own numbers are tested with the certificates.
    "at most #": lambda s, g: g if g[0] in terms(s) else ("none",),
    "at least #": lambda s, g: g if float(g[0]) <= float(best(s).proof.margin or 0) else ("none",),
    "float32 moves a logit": lambda s, g: g,
    "Every strategy on this model, …: ….": lambda s, g: (g[0], *strategies(s)),
    "Every strategy on this model, …: ….…": lambda s, g: (g[0], *strategies(s), g[2]),
    "It is brute force, …": lambda s, g: g,
    "strategy …": lambda s, g: (frontier(s)[0].removeprefix("strategy ") + ".",),
    "Lipschitz, full period: …": lambda s, g: (frontier(s)[0].removeprefix("Lipschitz, full period: ") + ".",),
    "The algorithm in four steps; …": lambda s, g: g,
    # Other models, and the run.
    "The paper trained # models that differ only in the random seed (its histograms count #).": lambda s, g: (
        "151",
        "152",
    ),
    "Ours are # models trained by this project.": lambda s, g: (str(s.population.models),),
    "The paper's statements about its # models (its figures count #)": lambda s, g: ("151", "152"),
    "In the paper …": lambda s, g: g,
    "In ours …": lambda s, g: g,
    "This model has #.": lambda s, g: (str(len(s.keys)),),
    "This model's median is #.": lambda s, g: g if g[0] in medians(s) else ("none",),
    "The skip connection around the MLP makes less than 3 % of the variance of the logits for # % of this model's inputs; "
    "the median is # %.": lambda s, g: (
        per_cent(float((s.skip_shares < 0.03).mean()), 1, down),  # type: ignore[operator,union-attr]
        per_cent(float(np.median(s.skip_shares)), 2),  # type: ignore[arg-type]
    ),
    "The secondary frequency is twice the primary one for # of # neurons of this model (# %); over the paper's population "
    "it is for 83 to 84 %.": lambda s, g: (
        str(s.explanation.doubling.doubled),
        str(s.explanation.doubling.neurons),
        per_cent(s.explanation.doubling.share),  # type: ignore[arg-type]
    ),
    "After # epochs the loss on training pairs is … and on validation pairs …, with # % of them right.": lambda s, g: (
        n(int(s.history.curves[-1, 0]) + 1),  # type: ignore[union-attr]
        f"{s.history.curves[-1, 1]:.1e}",  # type: ignore[union-attr]
        f"{s.history.curves[-1, 3]:.1e}",  # type: ignore[union-attr]
        per_cent(s.history.curves[-1, 4]),  # type: ignore[union-attr]
    ),
    "At the start no one of # frequencies has more than # % of the power that neurons read or write; after # epochs … hold "
    "at least 2 % of either.": lambda s, g: run(s),
}


def does(s: Study) -> str:
    return f"adds modulo {s.p}" if s.config.task.name == "add" else f"computes {s.config.task.words}"


def keys(s: Study) -> tuple[str]:
    return (", ".join(map(str, s.keys or outline(s).key_frequencies)),)


def listed(numbers: tuple[int, ...]) -> str:
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def r2s(s: Study) -> tuple[str, ...]:
    found = s.explanation.logits.r2  # type: ignore[union-attr]
    return tuple(near(x) for one in (found.all_logits, found.abs_component) for x in (one.clock, one.pizza))


def widest(s: Study) -> Any:
    return max(outline(s).attention_ranges, key=lambda one: one.high - one.low)


def typical(s: Study) -> int:
    """Of the first key frequency's cluster, the neuron with the largest ρω."""
    first = next(one for one in s.explanation.clusters if one.k in s.keys)
    return int(first.neurons[(first.rho * first.omega).argmax()])


def neuron(s: Study) -> tuple[str, ...]:
    i, found = typical(s), roles(s)
    return (
        str(i),
        str(found.k_in[i]),
        per_cent(found.variance_input[i]),
        near(found.phi[i], 2),
        str(found.k_out[i]),
        per_cent(found.variance_output[i]),
        near(found.psi[i], 2),
        near(float(np.angle(np.exp(2j * found.phi[i]))), 2),
    )


def area(s: Study, k: str, half: bool) -> tuple[str, ...]:
    one = cluster(s, k)
    found, whole = area_of(rectangles(one.scheme, half)), 2 / 3 if half else 4 / 3
    return str(one.neurons), k, near(found, 4), near(abs(found - whole), 4)


def off(s: Study, k: str) -> tuple[str, str, str]:
    one = cluster(s, k)
    c, si = sums(one.scheme, np.pi * one.k * np.arange(2 * s.p) / s.p)
    angle = 2 * np.pi * one.k * np.arange(2 * s.p) / s.p
    by_hand = np.hypot(c - 2 / 3 * np.cos(angle), si + 2 / 3 * np.sin(angle)).max()
    assert by_hand <= one.exact_psi.relu.upper * (1 + 1e-12)
    return up(one.exact_psi.relu.upper), up(100 * relative(s, one), 1), doubles(relative(s, one))


def bound(s: Study) -> str:
    return up(max(one.relative_bound.value for one in s.clusters), 3)


def boxes(s: Study) -> tuple[str, ...]:
    found = box_density(s.clusters[0].scheme)
    deep, apart = str(int(found.count.max())), near(found.mean_deviation, 2)
    return str(s.clusters[0].k), per_cent(found.uncovered), deep, apart


def moment(one: Any, order: int) -> str:
    """|Σ w e^{iqφ}| / Σ w, from the neurons' ρ and ω."""
    c = one.reading.cluster
    w = c.rho * c.omega
    return near(abs((w * np.exp(1j * order * c.phi)).sum()) / w.sum(), 2)


def chained(s: Study, k: int) -> bool:
    """Whether a key is twice, or half, of another."""
    keys, n_ = [one.k for one in s.lens.clusters], s.p
    return any(
        min(2 * x % n_, -2 * x % n_) == y
        for x, y in [(k, y) for y in keys if y != k] + [(x, k) for x in keys if x != k]
    )


def reasons(s: Study) -> str:
    """The four parts of the rule, or those that fail, from the values measured."""
    one, c = s.lens.r2.shared, s.lens.controls
    permuted, even, half = (float(x or 0) for x in (c.shared_permuted, c.resampled_even, c.resampled_half))
    read = "one function per frequency, which its neurons share, read at phase φ and written at 2φ,"
    rows = [
        (one >= 0.9, f"{read} has R² {down(one, 3)} of the logits", ", below 0.9"),
        (permuted <= one - 0.5, f"with output phases permuted R² {up(permuted, 3)} is left", ", not 0.5 less"),
        (even >= 0.99, f"evenly spread neurons keep {down(100 * even, 2)} % of the answers", ", not 99 %"),
        (half < 0.9, f"neurons on half a period keep {up(100 * half, 2)} %", ", not less than 90 %"),
    ]
    fails = [words + short for holds, words, short in rows if not holds]
    return "; ".join(fails or [words for _, words, _ in rows])


def harmonics(s: Study, name: str) -> str:
    """Fits are compared one by one in test_explain; here, that the caption's are those of the picture."""
    return next(one.finding for one in all_pictures(s) if f"clearest {name} " in one.finding).partition("one: ")[2]


def best(s: Study) -> Any:
    """The certificate that the page shows."""
    return s.certificate


def terms(s: Study) -> set[str]:
    """Every bound of the proof, rounded up to four digits."""
    found = [term.bound for term in best(s).proof.terms.values()] + [best(s).float32.error or 0]
    return {four_up(float(x)) for x in found if x}


def four_up(x: float | None) -> str:
    """Four significant digits, not below x; powers of ten for what is far from 1."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    value = context.create_decimal(Decimal(float(x or 0)))
    return f"{value:f}" if -4 <= value.adjusted() < 4 else f"{value:e}"


def medians(s: Study) -> set[str]:
    alive, doubling = ~roles(s).dead, s.explanation.cluster_doubling
    values = (
        roles(s).variance_input[alive],
        roles(s).variance_output[alive],
        [one.rows.total_abs_bound_half.value for one in s.clusters],
        [one.phase_r2 for one in doubling if one.phase_r2 is not None],
    )
    return {f"{float(np.median(one)):.4g}" for one in values if len(one)}


def run(s: Study) -> tuple[str, ...]:
    history = s.history
    assert history is not None
    shares = [power / power.sum(axis=1, keepdims=True) for power in (history.input_power, history.output_power)]
    last = np.maximum(shares[0][-1], shares[1][-1])
    kept = tuple(int(k) for k in 1 + np.flatnonzero(last >= 0.02))
    first = per_cent(max(float(share[0].max()) for share in shares), 1, up)
    return str(history.input_power.shape[1]), first, n(int(history.spectrum_epochs[-1])), listed(kept)


NUMBER = r"(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?)"


@cache
def pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\#", NUMBER).replace("…", "(.*)").replace("#", NUMBER))


@pytest.mark.parametrize("name", MODELS)
def test_every_sentence_with_a_number_quotes_the_value_it_is_about(name: str) -> None:
    study, unknown, wrong = studied(name), [], []
    for sentence in sentences(name):
        found = [(said, match) for one, said in SAID.items() if (match := pattern(one).fullmatch(sentence))]
        if not found:
            unknown.append(sentence)
        elif not any(tuple(said(study, match.groups())) == match.groups() for said, match in found):
            wrong.append((sentence, [tuple(said(study, match.groups())) for said, match in found]))
    assert unknown == []
    assert wrong == []


@pytest.mark.parametrize("name", MODELS)
def test_pages_claim_an_integral_by_the_rule_alone(name: str) -> None:
    """Report, caption and explorer have one verdict, which is the rule's on values measured here anew."""
    study = studied(name)
    found = study.lens_if_any
    expected = None if found is None else "below" not in reasons(study) and ", not " not in reasons(study)
    assert study.integration.holds is expected
    assert expected == {**dict.fromkeys(BUNDLED, True), "group": None}.get(name, False)
    text = " ".join(blocks(page_of(name)))
    claims = (
        "computes integrals numerically",
        "hidden layer computes integrals",
        "This model does so at",
        "MLP doubles",
    )
    assert ("computes integrals numerically" in text) == (expected is True)
    assert expected or not any(claim in text for claim in claims)
    assert ("does not: " in text) == (expected is False)
    assert all(part.words in text for part in study.integration.fails)
    if name != "layers":
        explorer = html.unescape(build_page(study, name).split("<main>")[0])
        assert (study.integration.sentence or "computes {words}") in explorer or not study.integration.sentence
        assert ("computes integrals:" in explorer) == (expected is True)


def test_an_mlp_has_no_attention_and_nothing_that_skips_it() -> None:
    text = " ".join(blocks(page_of("embedding")))
    assert "the first layer adds the two points" in text
    assert "attention adds" not in text
    assert "skip connection" not in text.split("Words and symbols")[0]
    assert "the angle is not doubled" in text
    assert "attention adds the two points" in " ".join(blocks(page_of("pizza")))


def test_a_weak_spot_of_one_sign_has_one() -> None:
    """The embedding MLP's neurons read a and b at other phases: |cos u| is smallest at d, and not at -d."""
    for name in ("embedding", "pizza"):
        logits = studied(name).explanation.logits
        assert logits is not None
        for spot, shift in zip(logits.weak_spots, logits.parts.shifts, strict=True):
            assert spot.both_signs == (not shift)
            assert spot.where.startswith("±") == (not shift)
    assert not all(spot.both_signs for spot in studied("embedding").explanation.logits.weak_spots)  # type: ignore[union-attr]


def test_the_rule_names_the_part_that_fails() -> None:
    assert Integration(None, None, None, None, None).holds is None
    assert Integration(0.95, 0.44, 0.99, 0.89, 1.0).holds
    assert [part.name for part in Integration(0.95, -1.0, 0.5, 0.1, 1.0).fails] == ["even nodes"]
    both = Integration(0.3201, -1.0, 1.0, 0.95, 0.034)
    assert both.why == (
        "one function per frequency, which its neurons share, read at phase φ and written at 2φ, has R² 0.320 of the "
        "logits, below 0.9; neurons on half a period keep 95.00 %, not less than 90 %"
    )
    # What shared functions far from the logits answer is no evidence; of others it is said, right or not.
    assert both.sentence == f"Its hidden layer cannot be said to compute integrals: {both.why}."
    assert Integration(0.947, -1.0, 1.0, 0.1, 0.034).sentence.endswith("alone answer 3.4 % of the inputs right.")
