// The rectangles under h(φ): neuron i is as wide as its weight and as high as h at its phase.
Q.views.rectangles = (() => {
  const D = Q.draw, { short, atMost, percent, percentAtMost, csv } = Q.numbers, { PI } = Math;
  let canvas, shown = null;

  function build(stage, info, app) {
    stage.replaceChildren();
    canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-labelledby", "title-rectangles");
    canvas.setAttribute("aria-describedby", "words-rectangles");
    stage.append(canvas);
    canvas.addEventListener("pointermove", (event) => app.hover(under(event)));
    canvas.addEventListener("pointerleave", () => app.hover(null));
    canvas.addEventListener("click", (event) => {
      const i = under(event);
      if (i !== null) app.choose(i);
    });
    canvas.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      app.neighbour(event.key === "ArrowRight" ? 1 : -1);
    });
  }

  /** The neuron whose rectangle is under the pointer, or null. */
  function under(event) {
    if (!shown) return null;
    const box = canvas.getBoundingClientRect(), { rects, rule, from, span, left, width } = shown;
    const x = from + ((event.clientX - box.left - left) / width) * span;
    if (x < from || x > from + span) return null;
    const start = rects.edges[0] + rects.shift;
    const at = start + Q.quadrature.mod(x - start, rects.period);
    for (let j = 0; j < rects.phi.length; j++) if (at < rects.edges[j + 1] + rects.shift) return rule.neurons[rects.order[j]];
    return null;
  }

  /** What can be folded modulo π is |cos| alone: ReLU is then shown by its absolute-value part, identity in full. */
  function drawnAs(f) {
    const kind = f.shape, half = f.state.period === "half" && kind !== "identity";
    return { part: half && kind === "relu" ? "abs" : kind, half };
  }

  function draw(f) {
    const { g, width, height } = D.open(canvas);
    const left = 30, top = 20, bottom = 20, foot = 36, w = width - left - 6, h = height - top - bottom - foot;
    shown = null;
    if (!f.rule) {
      D.text(g, Q.words[f.engine.model.activation].no_rule ? "No rectangles for this activation." : "Fewer than two neurons are in use at this frequency: no rectangles.", width / 2, height / 2, "center");
      return;
    }
    const { part, half } = drawnAs(f), rects = half ? f.claims.half : f.claims.full;
    const from = half ? 0 : -PI, span = rects.period;
    const point = part === f.shape ? f.point : Q.quadrature.at(f.rule, part, ...f.engine.renamed(f.state.a, f.state.b, f.c));
    shown = { rects, rule: f.rule, from, span, left, width: w };
    const X = (x) => left + ((x - from) / span) * w, Y = (y) => top + h / 2 - (y / 1.35) * (h / 2);
    axes(g, X, Y, from, span, half, left, top, w, h);
    legend(g, left, [["rectangles", f.app.colourOfK(f.rule.k)], ["h(φ)", D.colour("fg")], ["the paper's error band", D.colour("bound")]]);
    g.save();
    g.beginPath();
    g.rect(left, top, w, h);
    g.clip();
    boxes(g, f, rects, point, X, Y, w);
    g.strokeStyle = D.colour("fg");
    g.lineWidth = 2;
    g.beginPath();
    for (let j = 0; j <= 300; j++) g.lineTo(X(from + (span * j) / 300), Y(point.curve(from + (span * j) / 300)));
    g.stroke();
    g.restore();
    gauge(g, f, left, top + h + bottom + 4, w);
  }

  /** Exact error and the paper's bound as two bars on one scale. */
  function gauge(g, f, left, y, w) {
    const exact = f.shape in f.claims.exactPsi ? f.claims.exactPsi[f.shape] : null, bound = boundOf(f);
    if (exact === null) return;
    const rows = [["exact error", exact, "exact", short(exact)]];
    if (bound !== null) rows.push(["paper's bound", bound, "bound", `≤ ${atMost(bound)}`]);
    const room = w - 160, scale = Math.max(1e-300, exact, bound || 0);
    rows.forEach(([words, value, name, number], j) => {
      D.text(g, words, left, y + 9 + 15 * j, "left");
      g.fillStyle = D.colour(name);
      g.fillRect(left + 88, y + 15 * j, Math.max(1, (room * value) / scale), 10);
      D.text(g, number, left + 94 + (room * value) / scale, y + 9 + 15 * j, "left", "fg");
    });
  }

  function axes(g, X, Y, from, span, half, left, top, w, h) {
    D.line(g, left, Y(0), left + w, Y(0), D.colour("line"));
    for (const y of [-1, 0, 1]) D.text(g, y < 0 ? "−1" : y, left - 5, Y(y) + 4, "right");
    const ticks = half ? [[0, "0"], [PI / 2, "π/2"], [PI, "π"]] : [[-PI, "−π"], [-PI / 2, "−π/2"], [0, "0"], [PI / 2, "π/2"], [PI, "π"]];
    ticks.forEach(([x, words], j) => D.text(g, words, X(x), top + h + 14, j === 0 ? "left" : j === ticks.length - 1 ? "right" : "center"));
    D.text(g, "φ", X(from + span * 0.625), top + h + 14, "center");
  }

  function legend(g, left, entries) {
    let x = left;
    for (const [words, colour] of entries) {
      g.fillStyle = colour;
      g.fillRect(x, 4, 9, 9);
      D.text(g, words, x + 13, 13, "left");
      x += 24 + g.measureText(words).width;
    }
  }

  function boxes(g, f, rects, point, X, Y, w) {
    const colour = f.app.colourOfK(f.rule.k), band = D.alpha(D.colour("bound"), 0.38), fill = D.alpha(colour, 0.4), edge = D.alpha(colour, 0.75);
    const n = rects.phi.length, end = PI;
    for (let j = 0; j < n; j++) {
      const neuron = f.rule.neurons[rects.order[j]], high = neuron === f.high;
      const y = point.heights[rects.order[j]];
      let x0 = rects.edges[j] + rects.shift, x1 = rects.edges[j + 1] + rects.shift, phi = rects.phi[j];
      // Name the rectangle by the copy that starts inside the picture; one over the seam is drawn at both ends.
      const low = end - rects.period, turns = Math.floor((x0 - low) / rects.period) * rects.period;
      x0 -= turns, x1 -= turns, phi -= turns;
      for (const back of x1 > end ? [0, rects.period] : [0]) {
        const l = X(x0 - back), r = X(x1 - back), reach = (x) => 2 * Math.abs(x - phi);
        const inside = phi > x0 && phi < x1;
        g.fillStyle = band;
        g.beginPath();
        g.moveTo(l, Y(y + reach(x0)));
        if (inside) g.lineTo(X(phi - back), Y(y));
        g.lineTo(r, Y(y + reach(x1)));
        g.lineTo(r, Y(y - reach(x1)));
        if (inside) g.lineTo(X(phi - back), Y(y));
        g.lineTo(l, Y(y - reach(x0)));
        g.fill();
        g.fillStyle = high ? colour : fill;
        g.fillRect(l, Math.min(Y(0), Y(y)), r - l, Math.abs(Y(y) - Y(0)));
        if (w / n > 3 || high) {
          g.lineWidth = high ? 2 : 0.5;
          g.strokeStyle = high ? D.colour("fg") : edge;
          g.strokeRect(l, Math.min(Y(0), Y(y)), r - l, Math.abs(Y(y) - Y(0)));
        }
      }
    }
  }

  function words(f) {
    const { state } = f, say = Q.words[f.engine.model.activation];
    if (!f.rule && say.no_rule) return say.no_rule;
    if (state.k === null) return "No neuron reads and writes the same frequency: no quadrature rule, no bound.";
    if (!f.rule) return `Frequency ${state.k} has fewer than two neurons in use: no quadrature rule, no bound.`;
    const { claims, point } = f, bound = boundOf(f), exact = f.shape in claims.exactPsi ? claims.exactPsi[f.shape] : null;
    const base = f.shape === "relu" ? claims.baseline / 2 : claims.baseline;
    const here = `k = ${state.k}, ${Q.views.inputs(f, state.a, state.b)}, c = ${Q.task.label(f.engine.model.task, f.c)}: rectangles sum to ${short(point.sum)}, the integral is ${short(point.integral)}, error ${short(point.error)}.`;
    if (exact === null) return `${here} Bounds are about ReLU and |x|; this model's activation is ${say.name}.`;
    const worst = ` Exact worst error over all a, b, c: ${short(exact)}${f.shape === "identity" ? "" : ` (${percent(exact / base)} of the integral's mean size; with 2φ for ψ: ${short(claims.exact[f.shape])})`}.`;
    const paper = bound === null ? " The paper bounds no identity part; its integral is 0." : ` The paper's bound, ${state.period} period: at most ${atMost(bound)} (${percentAtMost(bound / base)}), of which the angle error is at most ${atMost(claims.angle)}.`;
    const folded = state.period === "half" && f.shape !== "abs" ? (f.shape === "relu" ? " Only |cos| has period π, so the picture shows ReLU's absolute-value part folded." : " The identity part has no period π; it is shown in full.") : "";
    return here + worst + paper + folded;
  }

  /** The paper's total for the part and period on show; null where it has none. */
  function boundOf(f) {
    const name = { abs: "totalAbs", relu: "totalRelu" }[f.shape];
    return name && f.claims ? f.claims[name + (f.state.period === "half" ? "Half" : "Full")] : null;
  }

  function data(f) {
    if (!f.rule) return csv(["neuron"], []);
    const { half } = drawnAs(f), rects = half ? f.claims.half : f.claims.full;
    return csv(["neuron", "phi", "psi", "w", "left", "right", "height"], rects.order.map((i, j) =>
      [f.rule.neurons[i], rects.phi[j], f.rule.psi[i], f.rule.w[i], rects.edges[j] + rects.shift, rects.edges[j + 1] + rects.shift, f.point.heights[i]]));
  }

  return { build, draw, words, data, boundOf };
})();
