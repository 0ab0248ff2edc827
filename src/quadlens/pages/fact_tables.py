"""Numbers the paper prints in its text, beside this model's and, over many models, ours."""

from quadlens.numbers import at_least
from quadlens.pages.tables import ReportTable, plain_row
from quadlens.published import MODELS, MODELS_IN_FIGURES
from quadlens.studies import Results

POPULATION_FACTS = (
    ("models_all_neuron_frequencies_match", "good models: all neuron frequencies match"),
    ("models_with_1_to_9_mismatched_neurons", "models with 1 to 9 neurons that do not match"),
    ("good_models_all_angle_r2_above_0.9", "good models with all angle R² above 0.9"),
    ("good_models_mean_interval_width_above_std", "good models with mean gap above its standard deviation"),
    ("good_model_frequency_pairs", "(good model, frequency) pairs"),
    ("pairs_all_four_errors_below_0.1", "of these with all four errors below 0.1"),
    ("median_abs_bound_of_those_pairs", "median bound of those pairs"),
    ("share_of_those_bounds_below_naive", "share of those bounds below the naive one"),
)


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where it has no meaning."""
    return "–" if value is None else f"{value:.{digits}f}"


def model_table(results: Results) -> ReportTable:
    """Key frequencies, regressions and coefficients, ours and the paper's mainline model's."""
    explanation, paper = results.explanation, results.published
    sizes = {cluster.k: len(cluster.neurons) for cluster in explanation.clusters}
    rows = [
        plain_row(
            "neurons of each key frequency",
            ", ".join(f"{k}: {sizes[k]}" for k in results.keys) or "–",
            ", ".join(f"{k}: {n}" for k, n in paper.key_neurons),
        )
    ]
    logits = explanation.logits
    if logits is not None:
        r2, form = logits.r2, logits.forms.by_parts
        values = (r2.all_logits.pizza, r2.all_logits.clock, r2.abs_component.pizza, r2.abs_component.clock)
        names = (
            "R² of all logits, pizza form",
            "R² of all logits, clock form",
            "R² of the absolute part, pizza form",
            "R² of the absolute part, clock form",
        )
        rows += [
            plain_row(name, number(value), f"{theirs:.2f}")
            for name, value, theirs in zip(names, values, paper.r2, strict=True)
        ]
        for letter, ours, theirs in (("C", form.C, paper.C), ("D", form.D, paper.D)):
            mine = ", ".join(f"{k}: {value:.1f}" for k, value in zip(form.keys, ours, strict=True)) or "–"
            rows.append(
                plain_row(
                    f"coefficient {letter} of each key frequency",
                    mine,
                    ", ".join(f"{k}: {value}" for k, value in theirs),
                )
            )
        rows.append(
            plain_row(
                "skip connection's share of the logits' variance", number(logits.skip_share, 4), "mostly below 0.03"
            )
        )
    key_phases = [phases for phases in explanation.phases if phases.k in results.keys]
    least = min((phases.r2 for phases in key_phases if phases.r2 is not None), default=None)
    widths = ", ".join(f"{one.spacing.width_mean:.3f} ± {one.spacing.width_std:.3f}" for one in key_phases[:8]) or "–"
    rows += [
        plain_row(
            "least R² of ψ = 2φ", "–" if least is None else at_least(least, 5), f"above {paper.angle_r2} (k = 12)"
        ),
        plain_row("gaps between phases, mean ± std", widths, "{} ± {} (k = 12)".format(*paper.angle_widths)),
        plain_row(
            "share of neurons with secondary = 2k", number(explanation.doubling.share), "0.83 to 0.84 (population)"
        ),
    ]
    caption = "What the paper says in its text about its mainline model, and this model"
    return ReportTable("model-facts", None, caption, "quantity", ("this model",), ("the paper",), tuple(rows))


def population_table(results: Results) -> ReportTable:
    """The population statements of the paper's appendix, and ours where there are any."""
    paper, ours = results.published.population, results.population
    columns = (f"ours ({ours.models} models)",) if ours else ("ours",)
    rows = []
    for key, title in POPULATION_FACTS:
        mine = ours.fact(key) if ours else None
        theirs = paper.fact(key)
        rows.append(plain_row(title, "–" if mine is None else f"{mine:g}", "" if theirs is None else f"{theirs:g}"))
    caption = f"The paper's statements about its {MODELS} models (its figures count {MODELS_IN_FIGURES})"
    return ReportTable("population-facts", None, caption, "statement", columns, ("the paper",), tuple(rows))
