"""A static picture of each view, as inline SVG: what a reader without JavaScript sees."""

import base64
import io
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from quadlens.explorer.first_frame import FirstFrame

WIDTH, HEIGHT = 360.0, 320.0
LEFT, TOP, BOTTOM = 44.0, 12.0, 22.0
# Colours of a map: above zero, below zero, at zero.
PLUS, MINUS, ZERO = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0xFF, 0xFF, 0xFF)


def svg(label: str, body: str) -> str:
    """An SVG of the pictures' common size; `label` is its text alternative."""
    return f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{label}">{body}</svg>'


def ink(frame: FirstFrame, k: int) -> str:
    """The colour of a frequency."""
    return f"var(--k{frame.keys.index(k) % 8})" if k in frame.keys else "var(--quiet)"


def circle(frame: FirstFrame) -> str:
    """Every neuron at its phase, its weight the size, one ring per key frequency."""
    roles = frame.anatomy.roles
    weight = roles.rho * roles.omega
    heaviest = max(float(weight.max()), 1e-300)
    ring = {
        k: 150 - (96 * at / max(3, len(frame.keys)) if len(frame.keys) > 1 else 0) for at, k in enumerate(frame.keys)
    }
    member = {int(i): one.k for one in frame.clusters for i in one.neurons}
    dots = []
    for i, phi in enumerate(roles.phi):
        k = member.get(i, 0)
        radius, size = ring.get(k, 34), 1.1 + 4 * np.sqrt(weight[i] / heaviest)
        x, y = WIDTH / 2 + radius * np.cos(phi), HEIGHT / 2 - radius * np.sin(phi)
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{ink(frame, k)}" opacity=".8"/>')
    return svg(f"{len(roles.phi)} neurons at their phases on a circle", "".join(dots))


def rectangles(frame: FirstFrame) -> str:
    """The rectangles of the largest cluster and the curve under which they lie."""
    rule, rects = frame.scheme, frame.rects
    if rule is None or rects is None:
        why = (
            "No rectangles for this activation."
            if frame.sigma.degree is None
            else "No cluster of at least two neurons."
        )
        return svg("no rectangles", _text(WIDTH / 2, HEIGHT / 2, why, "middle"))

    def X(x: float) -> float:
        return LEFT + (x + np.pi) / (2 * np.pi) * (WIDTH - LEFT - 6)

    def Y(y: float) -> float:
        return HEIGHT / 2 - y / 1.35 * (HEIGHT - TOP - BOTTOM) / 2

    heights = frame.heights(rule.phi, rule.psi, rule.k)[rects.order]
    body, band = [], []
    lefts, rights = rects.edges[:-1] + rects.shift, rects.edges[1:] + rects.shift
    for left, right, y, phi in zip(lefts, rights, heights, rects.phi, strict=True):
        start, stop = max(X(left), LEFT), min(X(right), WIDTH - 6)
        if stop > start:
            # The paper's band: h is within 2|x - φ_i| of the height all over the rectangle.
            ends = [(start, 2 * abs(left - phi)), (stop, 2 * abs(right - phi))]
            corners = [(x, Y(y + e)) for x, e in ends] + [(x, Y(y - e)) for x, e in reversed(ends)]
            band.append("M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in corners) + "Z")
            body.append(_rect(start, min(Y(0.0), Y(y)), stop - start, abs(Y(y) - Y(0.0)), ink(frame, rule.k), 0.5))
    body.insert(0, f'<path d="{"".join(band)}" fill="var(--bound)" opacity=".4"/>')
    x = np.linspace(-np.pi, np.pi, 181)
    curve = frame.heights(x, 2 * x, rule.k)
    points = " ".join(f"{X(u):.1f},{Y(v):.1f}" for u, v in zip(x, curve, strict=True))
    body.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"/>')
    marks = ((-np.pi, "−π"), (0.0, "0"), (np.pi, "π"))
    body += [_text(min(X(at), WIDTH - 12), HEIGHT - 6, words, "middle") for at, words in marks]
    return svg(f"rectangles of {rule.n} neurons at frequency {rule.k} under the curve h", "".join(body))


def logits(frame: FirstFrame) -> str:
    """The logits of one input, stacked by part, with a tick at their sum."""
    inks = {"other": "var(--quiet)", "identity": "var(--identity)", "skip": "var(--skip)"}
    values = np.stack([part for _, part in frame.parts])
    high = float(np.where(values > 0, values, 0.0).sum(axis=0).max())
    low = float(np.where(values < 0, values, 0.0).sum(axis=0).min())
    scale, step = (HEIGHT - TOP - BOTTOM) / max(high - low, 1e-300), (WIDTH - LEFT - 6) / frame.p
    body = [_rect(LEFT + frame.c * step, TOP, step, HEIGHT - TOP - BOTTOM, "var(--exact)", 0.25)]
    for c in range(frame.p):
        x, up, down = LEFT + c * step + 0.5, 0.0, 0.0
        for (name, _), value in zip(frame.parts, values[:, c].tolist(), strict=True):
            top = up + value if value > 0 else down
            fill = inks[name] if isinstance(name, str) else ink(frame, name)
            if abs(value) * scale > 0.05:
                body.append(_rect(x, TOP + (high - top) * scale, max(step - 1, 0.8), abs(value) * scale, fill))
            up, down = (up + value, down) if value > 0 else (up, down + value)
        body.append(_rect(x - 0.5, TOP + (high - float(frame.logits[c])) * scale - 1, step, 2.0, "currentColor"))
    body.append(_text(LEFT - 4, TOP + 8, f"{high:.3g}", "end") + _text(LEFT - 4, HEIGHT - BOTTOM, f"{low:.3g}", "end"))
    body.append(_chosen(frame, step))
    return svg(f"logits over c for {frame.task.question(frame.a, frame.b)}, taken apart", "".join(body))


def column(frame: FirstFrame) -> str:
    """The chosen neuron's column of W_L."""
    return _bars(frame, frame.layer.W_L[:, frame.neuron], "var(--output)", f"column {frame.neuron} of W_L over c")


def pre(frame: FirstFrame) -> str:
    """The chosen neuron's pre-activation over a and b."""
    return _map(frame.pre, f"pre-activation of neuron {frame.neuron} over a and b")


def grid(frame: FirstFrame) -> str:
    """The margin of every input."""
    return _map(frame.margins, f"margin of all {frame.p**2} inputs", contrast=2.5)


def gates(frame: FirstFrame) -> str:
    """The weight of every head on each position, over a and b: one row per head."""
    layer = frame.layer
    if not layer.gated:
        return svg("no gates", "")
    inputs = np.arange(frame.p)
    weights = np.stack([layer.gates(np.full(frame.p, a), inputs) for a in inputs], axis=2)
    weights += np.array([frame.constant_attention[one.position] for one in layer.gated])[:, None, None, None]
    scale, rows, columns = float(np.abs(weights).max()), layer.heads, len(layer.gated)
    side, body = min((WIDTH - LEFT) / columns, (HEIGHT - TOP) / rows) - 16, []
    for t, of_position in enumerate(weights):
        for head, values in enumerate(of_position):
            x, y = LEFT + t * (side + 16), TOP + head * (side + 16)
            body.append(_image(values, x, y + 12, side - 2, scale))
            body.append(_text(x, y + 9, f"head {head} on {POSITIONS[layer.gated[t].position]}", "start"))
    return svg(f"attention of {rows} heads on {columns} positions over a and b", "".join(body))


def shared(frame: FirstFrame) -> str:
    """F_0, |F_1| and |F_2| of each key frequency against a - b: one row per frequency."""
    clusters = frame.shared or ()
    height, body = (HEIGHT - TOP) / max(len(clusters), 1), []
    for row, (one, found) in enumerate(clusters):
        angle = np.angle(np.exp(2j * np.pi * one.k * np.arange(frame.p) / frame.p))
        order, foot = np.argsort(angle, kind="stable"), TOP + (row + 1) * height - 14
        curves = (
            ("F₀", found.F[0].real, "k2"),
            ("|F₁|", np.abs(found.F[1]), "plus"),
            ("|F₂|", np.abs(found.F[2]), "minus"),
        )
        scale = (height - 28) / max(float(np.abs(found.F[:3]).max()), 2.0)
        body.append(_text(LEFT, foot - height + 24, f"k = {one.k}, {len(one.neurons)} neurons", "start"))
        for name, values, colour in curves:
            x = LEFT + (angle[order] + np.pi) / (2 * np.pi) * (WIDTH - LEFT - 40)
            points = " ".join(f"{u:.1f},{foot - v * scale:.1f}" for u, v in zip(x, values[order], strict=True))
            body.append(f'<polyline points="{points}" fill="none" stroke="var(--{colour})" stroke-width="1.5"/>')
            body.append(_text(WIDTH - 4, foot - float(values[order][-1]) * scale + 3, name, "end"))
    return svg("functions that neurons share, against a − b", "".join(body))


PICTURES: dict[str, Callable[[FirstFrame], str]] = {
    "circle": circle,
    "rectangles": rectangles,
    "logits": logits,
    "pre": pre,
    "column": column,
    "grid": grid,
    "gates": gates,
    "shared": shared,
}
POSITIONS = ("a", "b", "=")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="font-size:11px">{words}</text>'


def _rect(x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {box} fill="{fill}" opacity="{opacity}"/>'


def _chosen(frame: FirstFrame, step: float) -> str:
    """The name of the chosen c below its bar, within the picture."""
    return _text(
        min(LEFT + (frame.c + 0.5) * step, WIDTH - 24), HEIGHT - 6, f"c = {frame.task.element(frame.c)}", "middle"
    )


def _bars(frame: FirstFrame, values: Float[np.ndarray, " p"], fill: str, label: str) -> str:
    high, low = max(float(values.max()), 0.0), min(float(values.min()), 0.0)
    scale, step = (HEIGHT - TOP - BOTTOM) / max(high - low, 1e-300), (WIDTH - LEFT - 6) / len(values)
    body = []
    for at, value in enumerate(values):
        top, bottom = max(float(value), 0.0), min(float(value), 0.0)
        colour = "currentColor" if at == frame.c else fill
        x, y = LEFT + at * step + 0.5, TOP + (high - top) * scale
        body.append(_rect(x, y, max(step - 1, 0.8), (top - bottom) * scale, colour))
    body.append(_text(LEFT - 4, TOP + 8, f"{high:.3g}", "end") + _text(LEFT - 4, HEIGHT - BOTTOM, f"{low:.3g}", "end"))
    body.append(_chosen(frame, step))
    return svg(label, "".join(body))


def _map(values: Float[np.ndarray, "p p"], label: str, contrast: float = 1.0) -> str:
    side = HEIGHT - TOP - BOTTOM
    left = (WIDTH - side) / 2
    image = _image(values, left, TOP, side, float(np.abs(values).max()), contrast)
    return svg(label, image + _text(WIDTH / 2, HEIGHT - 6, "a →", "middle") + _text(left - 4, TOP + 10, "b ↑", "end"))


def _image(
    values: Float[np.ndarray, "p p"], x: float, y: float, side: float, scale: float, contrast: float = 1.0
) -> str:
    return (
        f'<image href="{_png_address(values, scale, contrast)}" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" style="image-rendering:pixelated"/>'
    )


def _png_address(values: Float[np.ndarray, "p p"], scale: float, contrast: float) -> str:
    """`values[a, b]` as a PNG in a data address, a to the right and b upwards: p² SVG squares would weigh far more."""
    from PIL import Image

    strength = (np.clip(np.abs(values) / max(scale, 1e-300), 0.0, 1.0) ** contrast)[:, :, None]
    ink = np.where(values[:, :, None] > 0, np.array(PLUS, dtype=float), np.array(MINUS, dtype=float))
    pixels = (np.array(ZERO) + (ink - np.array(ZERO)) * strength).astype(np.uint8)
    content = io.BytesIO()
    # Rows of an image run from the top.
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 0, 2)[::-1])).save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
