"""The page's sections, in the order in which a newcomer understands them; every number comes from the results."""

from collections.abc import Callable

from quadlens.figures.picture import Picture
from quadlens.figures.registry import FIGURES, pictures_by_family
from quadlens.numbers import at_least, at_most, listed, percent
from quadlens.pages.blocks import Block, Facts, Figures, Formula, Links, Notice, Section, Steps, Tables, Text
from quadlens.pages.fact_tables import model_table, population_table
from quadlens.pages.proof_section import proof_section
from quadlens.pages.tables import ReportTable, bound_tables
from quadlens.published import MODELS, MODELS_IN_FIGURES
from quadlens.studies import MAX_FREQUENCIES, Results

Pictures = dict[str, tuple[Picture, ...]]
# A relative error below this and the sum may be called an integral without a caveat.
GOOD_RULE = 0.2
NO_RULE = (
    "No key frequency of this model is a quadrature rule, so there are no rectangles to draw and no error to bound. "
    "The figures of this section are left out; what the model does do is shown in the others."
)


def story(results: Results) -> tuple[Section, ...]:
    """All sections."""
    pictures = pictures_by_family(results)
    makers: tuple[Callable[[Results, Pictures], Section], ...] = (
        _task,
        _algorithm,
        _neuron,
        _cluster,
        _integral,
        _error,
        _secondary,
        lambda results, pictures: proof_section(results, pictures["frontier"] + pictures["logit-waterfall"]),
        _population,
        _learning,
        _others,
        _index,
    )
    return tuple(maker(results, pictures) for maker in makers)


def story_tables(results: Results) -> tuple[ReportTable, ...]:
    """Every table of the page."""
    return (*bound_tables(results), model_table(results), population_table(results))


def lead(results: Results) -> str:
    """The page in one sentence."""
    if results.clusters and results.explanation.clear_clusters:
        return (
            f"A small neural network learned to add modulo {results.p}. This page opens it up: its ReLU layer "
            "computes an integral numerically, every neuron is one rectangle under a curve, and that can be proved."
        )
    return (
        f"This page opens up a small neural network that was meant to add modulo {results.p}. Networks that do it "
        "well compute an integral with their ReLU layer; this one does not do so cleanly, and the page says where it "
        "departs."
    )


def summary_facts(results: Results) -> Facts:
    """The numbers at the top of the page."""
    answers, certificate = results.evaluation, results.certificate
    worst = max((one.relative_exact_psi.upper for one in results.clusters), default=None)
    return Facts(
        (
            ("answers right", f"{answers.correct:,} of {answers.pairs:,}"),
            ("key frequencies", ", ".join(map(str, results.keys[:MAX_FREQUENCIES])) or "none"),
            ("worst error of a rule", "–" if worst is None else f"≤ {at_most(100 * worst, 1)} %"),
            (
                "proved right",
                "not tried" if certificate is None else f"{certificate.certified_inputs:,} of {answers.pairs:,}",
            ),
        )
    )


def warnings(results: Results) -> tuple[Notice, ...]:
    """What a reader must know before believing the pictures."""
    found = []
    answers, explanation = results.evaluation, results.explanation
    if answers.correct < answers.pairs:
        found.append(f"This model is wrong on {answers.pairs - answers.correct:,} of {answers.pairs:,} questions.")
    if not explanation.clear_clusters:
        found.append(
            "This model has no clear clusters: its neurons do not each read and write one frequency. What follows is "
            "what the same analysis gives; do not read the integral into it."
        )
    elif not explanation.good_model:
        stray = int(explanation.roles.mismatching.sum())
        found.append(
            f"Not a good model in the paper's sense: {stray} of {explanation.d_mlp} neurons read one frequency and "
            "write another. They belong to no cluster and are left out of the rectangles."
        )
    if len(results.keys) > MAX_FREQUENCIES:
        found.append(
            f"{len(results.keys)} frequencies count as key; pictures are drawn for the {MAX_FREQUENCIES} strongest."
        )
    return tuple(Notice(text) for text in found)


def _task(results: Results, pictures: Pictures) -> Section:
    p, answers = results.p, results.evaluation
    right = "all of them" if answers.correct == answers.pairs else f"{percent(answers.accuracy)} of them"
    blocks: tuple[Block, ...] = (
        Text(
            f"The model gets two numbers a and b between 0 and {p - 1} and must say a + b modulo {p}: what is left "
            f"after taking away {p} as often as possible. There are {answers.pairs:,} questions; this model answers "
            f"{right} right."
        ),
        Text(
            f"It is a small network with {results.explanation.d_mlp} ReLU neurons. For each question it gives every "
            "possible answer c a score, its logit; the highest logit is the answer, and the distance to the "
            "runner-up is the margin. Nothing in its training told it how to add: the rest of this page is about "
            "what it found."
        ),
        Figures(pictures["task"]),
    )
    return Section("task", "The task", blocks)


def _algorithm(results: Results, pictures: Pictures) -> Section:
    steps = Steps(
        (
            "Embed: every token becomes a point on a circle, at the angle k·w·a with w = 2π/p, for a few key "
            "frequencies k.",
            "Average: attention adds the two points. With u = k w (a−b)/2 and s = k w (a+b)/2 their mean is cos u · "
            "(cos s, sin s): its direction is half of what is wanted.",
            "Double: the MLP turns the angle s into 2s = k w (a+b), giving |cos u| · (cos 2s, sin 2s).",
            "Score: each answer c is compared with that direction; cos(k w (a+b−c)) is largest at c = a + b.",
        )
    )
    return Section(
        "algorithm", "The algorithm in four steps", (steps, Text(_follows(results)), Figures(pictures["algorithm"]))
    )


def _follows(results: Results) -> str:
    """Whether the model can be said to follow the four steps."""
    keys = results.keys
    if not keys:
        return "This model has no key frequency at all, so it does not follow these steps."
    count = "one frequency" if len(keys) == 1 else f"{len(keys)} frequencies"
    if not results.explanation.clear_clusters:
        return (
            f"In this model {count} ({listed(keys[:MAX_FREQUENCIES])}) stand out, but without clear clusters it "
            "cannot be said to follow these steps; the last panel shows what its logits really are."
        )
    return (
        f"This model does so at {count}: {listed(keys[:MAX_FREQUENCIES])}. How a ReLU layer can double an angle is the "
        "question this page answers."
    )


def _neuron(results: Results, pictures: Pictures) -> Section:
    roles = results.explanation.roles
    text = (
        f"{int(roles.matching.sum())} of {results.explanation.d_mlp} neurons read and write the same frequency, "
        f"{int(roles.mismatching.sum())} read one and write another, {int(roles.constant.sum())} are mostly constant. "
        "A neuron of frequency k reads ρ cos(k w a + φ) from either token and writes ω cos(k w c + ψ) to the answers."
    )
    blocks = (
        Text(text),
        Figures(pictures["neuron"]),
        Figures(pictures["single-frequency"] + pictures["freqcount"]),
        Tables((model_table(results),)),
    )
    return Section("neuron", "One neuron", blocks)


def _cluster(results: Results, pictures: Pictures) -> Section:
    if not results.clusters:
        return Section(
            "cluster", "A cluster as rectangles under a curve", (Notice(NO_RULE), Figures(_first(pictures["angles"])))
        )
    first = results.clusters[0]
    blocks = (
        Text(
            f"Take the {first.neurons} neurons of frequency {first.k} together. A clean cluster has phases φ all "
            "around the circle and writes with twice the phase it reads with; here ψ = 2φ holds with R² "
            f"{_angle_r2(results, first.k)}. So far as it holds, together they compute, up to a factor,"
        ),
        Formula("Σ w · ReLU(cos(s + φ)) · cos(k w c + 2φ)"),
        Text(
            "Draw each neuron as a rectangle: as wide as its weight w = ρω (scaled so that all widths make one turn, "
            "2π), as high as the function at its phase. ReLU(x) = x/2 + |x|/2, and the x/2 half integrates to zero, "
            "so the pictures show |cos|."
        ),
        Figures(_first(pictures["angles"])),
        Figures(pictures["quadrature"][:2]),
    )
    return Section("cluster", "A cluster as rectangles under a curve", blocks)


def _integral(results: Results, pictures: Pictures) -> Section:
    if not results.clusters:
        return Section("integral", "Why the sum is an integral", (Notice(NO_RULE),))
    blocks = (
        Text(
            "Rectangles as wide as the gaps between the points they stand on, as high as a curve there: that is how "
            "one computes an integral by hand. With ever more neurons the sum would become"
        ),
        Formula("∫ ReLU(cos(s + φ)) · cos(k w c + 2φ) dφ = (2/3) · cos(k w (a + b − c))"),
        Text(
            "which is exactly the score that step 4 needs: the MLP as a numerical integral, its neurons the points at "
            f"which the integrand is evaluated. {_is_integral(results)}"
        ),
        Figures(pictures["infinite-width"] + pictures["3D"] + _first(pictures["integrated-relu"])),
    )
    return Section("integral", "Why the sum is an integral", blocks)


def _angle_r2(results: Results, k: int) -> str:
    """R² of ψ = 2φ at one frequency, in words."""
    return next((_number(phases.r2, 5) for phases in results.explanation.phases if phases.k == k), "–")


def _is_integral(results: Results) -> str:
    """Whether the numbers bear it out."""
    worst = max(one.relative_exact_psi.upper for one in results.clusters)
    if worst < GOOD_RULE:
        return f"For this model that is right to within {at_most(100 * worst, 1)} % at every input."
    if worst < 1:
        return f"For this model that is rough: the worst error is {at_most(100 * worst, 0)} % of the integral."
    return "For this model it is not: the worst error is as large as the integral itself."


def _error(results: Results, pictures: Pictures) -> Section:
    title = "How large the error is"
    if not results.clusters:
        return Section("error", title, (Notice(NO_RULE),))
    clusters = results.clusters
    exact = max(one.relative_exact_psi.upper for one in clusters)
    bound = max(one.relative_bound.value for one in clusters)
    moment = max(one.relative_moment_bound_psi.value for one in clusters)
    missing = [f"k = {one.k}: {one.reason}" for one in results.bounds.unbounded] if results.bounds else []
    blocks: list[Block] = [
        Text(
            "The paper bounds the error without trying all inputs: the curve's slope is at most 2, so under each "
            "rectangle it cannot be far from the rectangle's height. For this model that proves a relative error of "
            f"at most {at_most(bound, 3)} (worst key frequency; 1 would say nothing)."
        ),
        Figures(pictures["error"][:2] + pictures["overlap"]),
        Text(
            "The paper could not sum up how surpluses and gaps cancel. They can be summed: the sign of the cosine "
            "flips only once as φ runs, so sorting the phases and keeping running sums gives the exact error for "
            f"every a + b in quasi-linear time. It is at most {at_most(exact, 4)} of the integral's mean size: "
            f"nothing neglected, worst case over all a, b and c. A bound from {clusters[0].moments} moments alone "
            f"gives {at_most(moment, 3)}. All three include the error of ψ against 2φ."
        ),
        Figures(pictures["exact-error"] + pictures["error-waterfall"] + pictures["moments"]),
        Text(
            "The paper's three tables, with its own numbers beside this model's. = exact, ≤ proved upper bound, ≈ "
            "estimate in float64."
        ),
        Tables(bound_tables(results)),
    ]
    if missing:
        blocks.append(Text("Clusters that are no rule: " + "; ".join(missing[:MAX_FREQUENCIES]) + "."))
    return Section("error", title, tuple(blocks))


def _secondary(results: Results, pictures: Pictures) -> Section:
    explanation, logits = results.explanation, results.explanation.logits
    doubling = explanation.doubling
    opening = (
        "No neuron of this model has a secondary frequency."
        if doubling.share is None
        else (
            f"Each neuron's second largest frequency is twice its first for {doubling.doubled} of {doubling.neurons} "
            "neurons. The integral's answer carries the factor |cos u|: when the two tokens are half a turn apart it "
            "vanishes, and the frequency says nothing. The secondary frequency adds −cos 2u, which is largest "
            "exactly there."
        )
    )
    blocks: list[Block] = [Text(opening), Figures(pictures["secondary-repair"] + pictures["harmonic-phases"][:1])]
    if logits is not None and logits.r2.all_logits.pizza is not None and logits.r2.all_logits.clock is not None:
        form = logits.forms
        blocks.append(
            Text(
                f"That is why the logits look like a clock (R² {logits.r2.all_logits.clock:.3f}) rather than a pizza "
                f"(R² {logits.r2.all_logits.pizza:.3f}), although the absolute-value part is a pizza (R² "
                f"{_number(logits.r2.abs_component.pizza)} against {_number(logits.r2.abs_component.clock)}). The "
                "closed form"
            )
        )
        blocks.append(Formula("logit ≈ Σ_k (C_k |cos u| + D_k cos 2u) · cos(k w (a + b − c))"))
        blocks.append(
            Text(
                f"has R² {_number(form.by_parts.r2)} and answers {form.by_parts.correct:,} of {results.p**2:,} "
                f"questions on its own ({form.pizza_only.correct:,} without the D_k). Its smallest margin is "
                f"{form.by_parts.min_margin:.1f}, without the D_k {form.pizza_only.min_margin:.1f}."
            )
        )
    blocks.append(Figures(pictures["harmonic-phases"][1:]))
    return Section("secondary", "Secondary frequencies and what they repair", tuple(blocks))


def _population(results: Results, pictures: Pictures) -> Section:
    ours = results.population
    families = ("population-counts", "residual", "population-histograms", "primsecfreq")
    shown = tuple(picture for family in families for picture in pictures[family])
    status = (
        f"Ours are {ours.models} models trained by this project."
        if ours
        else "Results of our own population are not part of this installation yet, so only the paper's bars are drawn."
    )
    blocks = (
        Text(
            f"The paper trained {MODELS} models that differ only in the random seed (its histograms count "
            f"{MODELS_IN_FIGURES}). Its bars are drawn below, with this model as a dashed line. {status}"
        ),
        Tables((population_table(results),)),
        Figures(shown, small=True),
    )
    return Section("population", "This model among others", blocks)


def _learning(results: Results, pictures: Pictures) -> Section:
    shown = pictures["learning-curve"] + pictures["frequencies-over-training"]
    text = (
        "The run's history is beside the model. Frequencies compete early; the survivors are the key frequencies."
        if shown
        else "The files of the training run are not beside this model, so how it learned cannot be shown."
    )
    return Section("learning", "How it learned", (Text(text), Figures(shown)))


def _others(results: Results, pictures: Pictures) -> Section:
    rest = [
        picture
        for family, shown in (("angles", 1), ("quadrature", 2), ("error", 2), ("integrated-relu", 1))
        for picture in pictures[family][shown:]
    ]
    text = "The same pictures for the other key frequencies." if rest else "There is no other key frequency to show."
    return Section("others", "The other frequencies", (Text(text), Figures(tuple(rest))))


def _index(results: Results, pictures: Pictures) -> Section:
    links = [
        (picture.label or picture.name, f"#fig-{picture.name}", picture.title)
        for family in FIGURES
        if family.in_paper
        for picture in pictures[family.name]
    ]
    tables = [
        (table.label, f"#table-{table.name}", table.caption)
        for table in bound_tables(results)
        if table.label is not None
    ]
    text = "Every figure and table of the paper, under the paper's label, as it is for this model."
    return Section("index", "The paper's figures and tables", (Text(text), Links(tuple(links + tables))))


def _first(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
    return pictures[:1]


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else at_least(value, digits)
