"""Two pictures of a frontier: cost against what is proved, and where the margin goes in the itemised bound."""

from pathlib import Path

from quadlens.certify.frontier import Frontier

# Okabe and Ito's colours, distinct for colour-blind readers; one colour a strategy everywhere.
COLOURS = {
    "brute": "#000000",
    "lipschitz": "#D55E00",
    "arcs": "#0072B2",
    "arcs-bounded": "#56B4E9",
    "moments": "#009E73",
}


def draw_frontier(result: Frontier, path: Path) -> None:
    """Certified share and margin against operations (logarithmic), one dot a strategy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    share, margin = figure.subplots(1, 2)
    for n, point in enumerate(result.points):
        colour, above = COLOURS.get(point.strategy, "#555555"), (6, 6 if n % 2 else -14)
        for axes, y in ((share, 100 * point.certified_share), (margin, point.margin_lower_bound or 0.0)):
            axes.plot([point.flops], [y], "o", color=colour)
            axes.annotate(point.strategy, (point.flops, y), textcoords="offset points", xytext=above, color=colour)
    share.set_ylabel("inputs certified (%)")
    margin.set_ylabel("margin proved (logits)")
    share.set_ylim(-8, 115)
    for axes in (share, margin):
        axes.set_xscale("log")
        axes.set_xlabel("operations beyond the collapse")
        axes.margins(x=0.25, y=0.2)
        axes.grid(alpha=0.3)
    figure.suptitle(f"Cost against what is proved, p = {result.p}, d_mlp = {result.d_mlp}")
    figure.savefig(path, metadata={"Date": None})


def draw_waterfall(result: Frontier, path: Path) -> None:
    """Each term of the itemised bound on |logit - closed form|, stacked up to their sum."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    steps = [step for step in result.waterfall if step.term != "all"]
    total = 0.0
    for n, step in enumerate(steps):
        axes.barh(n, step.bound, left=total, color=COLOURS["lipschitz"], label="proved bound" if n == 0 else None)
        if step.measured is not None:
            label = "measured" if n == 0 else None
            axes.barh(n, step.measured, left=total, height=0.35, color=COLOURS["arcs"], label=label)
        where = f", worst {step.worst}" if step.worst else ""
        found = "" if step.measured is None else f", measured {step.measured:.3g}"
        axes.text(total + step.bound, n, f" {step.bound:.3g}{where}{found}", va="center", fontsize=8)
        total += step.bound
    axes.set_yticks(range(len(steps)), [step.term for step in steps])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.5 * total or 1.0)
    axes.set_xlabel("change of a logit against the closed form (logits, bounds added up)")
    axes.legend(loc="lower left")
    figure.suptitle(f"Where the margin goes in the itemised bound: {total:.4g} in all")
    figure.savefig(path, metadata={"Date": None})
