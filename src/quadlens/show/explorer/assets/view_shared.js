// What the neurons of each key frequency share, against a - b, with a dial that takes attention from constant to softmax.
Q.views.shared = (() => {
  const D = Q.draw, { short, percent, csv } = Q.numbers, PAD = { left: 22, right: 8, top: 16, bottom: 18 };
  // Name and colour of each curve.
  const CURVES = [["F₀", "k2", (F, d) => F[0].re[d]], ["|F₁|", "plus", (F, d) => size(F[1], d)], ["|F₂|", "minus", (F, d) => size(F[2], d)]];
  // Up to this many elements frequencies are found before the first picture.
  const AT_ONCE = 71;
  let dial, shown, panels = [], keys = null;

  function build(stage, info, app) {
    const label = document.createElement("label"), box = document.createElement("div");
    label.htmlFor = "in-attention";
    label.textContent = "attention: constant ← → softmax ";
    shown = document.createElement("output");
    label.append(shown);
    dial = Object.assign(document.createElement("input"), { id: "in-attention", type: "range", min: 0, max: 1, step: 0.01 });
    dial.addEventListener("input", () => app.set({ attention: Number(dial.value) }, "attention"));
    dial.addEventListener("change", () => app.closeStep());
    box.className = "panels";
    const key = document.createElement("p");
    key.append(...CURVES.map(([name, ink]) => {
      const word = document.createElement("b");
      word.textContent = `${name} `;
      word.style.color = `var(--${ink})`;
      return word;
    }), "- - - 2|cos u|");
    stage.replaceChildren(label, dial, key, box);
    // Large models have their first picture before this is found.
    const engine = app.engine();
    [keys, panels] = [null, []];
    if (info.p <= AT_ONCE) find(engine, box);
    else setTimeout(() => {
      if (app.engine() !== engine) return;
      find(engine, box);
      app.redraw("shared");
    }, 0);
  }

  function find(engine, box) {
    keys = engine.keysOfPlane();
    panels = keys.map((one) => {
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `F₀, F₁ and F₂ of frequency ${one.k} against a − b`);
      canvas.setAttribute("aria-describedby", "words-shared");
      box.append(canvas);
      return canvas;
    });
  }

  const size = ({ re, im }, d) => Math.hypot(re[d], im[d]);

  /** Differences in the order of the angle kw(a - b), from -π to π. */
  function order({ p, k }) {
    const angle = (d) => Q.fourier.wrap((2 * Math.PI * ((k * d) % p)) / p);
    return Array.from({ length: p }, (_, d) => [angle(d), d]).sort((x, y) => x[0] - y[0]);
  }

  /** The difference of the inputs on show, under the names that make the task addition. */
  function difference(f) {
    const { p } = f.engine.model, [a, b] = f.engine.renamed(f.state.a, f.state.b, 0);
    return (((a - b) % p) + p) % p;
  }

  function draw(f) {
    dial.value = f.state.attention;
    shown.textContent = f.state.attention;
    if (!keys) return;
    const now = keys.map((one) => Q.lens.at(one, f.state.attention)), here = difference(f);
    const top = now.reduce((most, { F }) => F.reduce((m, one) => one.re.reduce((x, _, d) => Math.max(x, size(one, d)), m), most), 2.1);
    keys.forEach((one, j) => panel(panels[j], one, now[j].F, top, here));
  }

  function panel(canvas, one, F, top, here) {
    const { g, width, height } = D.open(canvas), low = Math.min(0, ...F[0].re);
    const X = (angle) => PAD.left + ((angle + Math.PI) / (2 * Math.PI)) * (width - PAD.left - PAD.right);
    const Y = (y) => height - PAD.bottom - ((y - low) / (top - low)) * (height - PAD.top - PAD.bottom);
    D.line(g, PAD.left, Y(0), width - PAD.right, Y(0), D.colour("line"));
    D.text(g, `k = ${one.k}, ${one.neurons.length} neurons`, PAD.left, 11, "left", "fg");
    for (const y of [0, 1, 2]) D.text(g, y, PAD.left - 4, Y(y) + 4, "right");
    for (const [angle, words] of [[-Math.PI, "−π"], [0, "kw(a − b)"], [Math.PI, "π"]]) D.text(g, words, X(angle), height - 4, angle > 1 ? "right" : angle < -1 ? "left" : "center");
    const line = (points, style, dash) => {
      g.strokeStyle = style;
      g.setLineDash(dash);
      g.lineWidth = dash.length ? 1 : 2;
      g.beginPath();
      points.forEach(([x, y], j) => (j ? g.lineTo(X(x), Y(y)) : g.moveTo(X(x), Y(y))));
      g.stroke();
      g.setLineDash([]);
    };
    line(Array.from({ length: 121 }, (_, j) => [-Math.PI + (j * Math.PI) / 60, 2 * Math.abs(Math.cos(-Math.PI / 2 + (j * Math.PI) / 120))]), D.colour("soft"), [3, 3]);
    const places = order(one);
    const [angleHere] = places.find(([, d]) => d === here);
    for (const [, ink, of] of CURVES) {
      line(places.map(([angle, d]) => [angle, of(F, d)]), D.colour(ink), []);
      g.fillStyle = D.colour(ink);
      g.beginPath();
      g.arc(X(angleHere), Y(of(F, here)), 3.5, 0, 2 * Math.PI);
      g.fill();
    }
  }

  function words(f) {
    const { attention } = f.state, d = difference(f);
    if (!keys) return "Looking for what the neurons share…";
    if (!keys.length) return "No neuron reads and writes the same frequency: nothing is shared.";
    const gates = attention === 1 ? "Softmax, as trained" : attention === 0 ? "Constant: every weight at its mean over all inputs" : `${percent(attention)} of the way from constant to softmax`;
    return `${gates}. At a − b = ${d}: ${keys.map((one) => {
      const { F, shares } = Q.lens.at(one, attention);
      return `k = ${one.k} has F₀ = ${short(F[0].re[d])}, |F₁| = ${short(size(F[1], d))}, |F₂| = ${short(size(F[2], d))}, products ${(100 * shares.product).toFixed(1)} %`;
    }).join("; ")}. ${f.engine.settled ? `${f.verdict.wrong} of ${f.verdict.inputs} inputs are wrong.` : ""}`;
  }

  function data(f) {
    const found = f.engine.keysOfPlane(), now = found.map((one) => Q.lens.at(one, f.state.attention));
    return csv(["k", "difference", "F0", "F1_re", "F1_im", "F2_re", "F2_im"], found.flatMap((one, j) =>
      Array.from({ length: one.p }, (_, d) => [one.k, d, now[j].F[0].re[d], now[j].F[1].re[d], now[j].F[1].im[d], now[j].F[2].re[d], now[j].F[2].im[d]])));
  }

  return { build, draw, words, data };
})();
