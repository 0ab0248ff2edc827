// Two p × p maps: the pre-activation of one neuron, and the margin of every input.
Q.views.pre = (() => {
  const D = Q.draw, { short, csv } = Q.numbers;
  let canvas;

  function build(stage, info, app) {
    canvas = Q.views.mapCanvas(stage, "pre", app, () => null);
  }

  function draw(f) {
    const { p, Ua, Ub } = waves(f);
    let scale = 1e-300;
    for (let a = 0; a < p; a++) for (let b = 0; b < p; b++) scale = Math.max(scale, Math.abs(Ua[a] + Ub[b]));
    canvas.map = D.heatmap(canvas, p, (a, b) => Ua[a] + Ub[b], [scale, scale], { cells: [[f.state.a, f.state.b, D.colour("fg")]] });
  }

  function waves(f) {
    const { p } = f.engine.model, at = f.high * p;
    return { p, Ua: f.engine.Ua.subarray(at, at + p), Ub: f.engine.Ub.subarray(at, at + p) };
  }

  function words(f) {
    const { p, Ua, Ub } = waves(f), x = Ua[f.state.a] + Ub[f.state.b];
    const say = Q.words[f.engine.model.activation];
    let on = 0, most = -Infinity;
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        on += Ua[a] + Ub[b] > 0;
        most = Math.max(most, Ua[a] + Ub[b]);
      }
    return `Neuron ${f.high} at a = ${f.state.a}, b = ${f.state.b}: pre-activation ${short(x)}, ${!f.engine.inUse(f.high) ? "dropped" : x > 0 ? say.positive : say.negative}. It is ${say.positive} (blue) for ${Q.numbers.percent(on / (p * p))} of all inputs; at most ${short(most)}. Its wave has frequency ${f.engine.info.kIn[f.high]}.`;
  }

  function data(f) {
    const { p, Ua, Ub } = waves(f), rows = [];
    for (let a = 0; a < p; a++) for (let b = 0; b < p; b++) rows.push([a, b, Ua[a] + Ub[b]]);
    return csv(["a", "b", "pre_activation"], rows);
  }

  return { build, draw, words, data };
})();

Q.views.grid = (() => {
  const D = Q.draw, { short, atMost, count, csv } = Q.numbers;
  let canvas, pointed = null;

  function build(stage, info, app) {
    pointed = null;
    canvas = Q.views.mapCanvas(stage, "grid", app, (cell) => {
      pointed = cell;
    });
  }

  /** Margin on show at (a, b): the model's, the interpretation's, or their difference. */
  function value(f, a, b) {
    if (a >= f.engine.rowsSeen) return NaN;
    const { p } = f.engine.model, own = f.engine.margin[a * p + b];
    if (f.state.show === "model" || !f.form) return own;
    const ideal = f.form.margins[(a - b + p) % p];
    return f.state.show === "interpretation" ? ideal : own - ideal;
  }

  function draw(f) {
    const { p } = f.engine.model;
    const scale = [1e-300, 1e-300];
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        const v = value(f, a, b), side = v > 0 ? 0 : 1;
        if (!Number.isNaN(v)) scale[side] = Math.max(scale[side], Math.abs(v));
      }
    if (f.state.show === "difference") scale.fill(Math.max(...scale));
    const cells = [[f.state.a, f.state.b, D.colour("fg")]];
    if (pointed) cells.push([...pointed, D.colour("soft")]);
    canvas.map = D.heatmap(canvas, p, (a, b) => value(f, a, b), scale, { cells, strong: f.state.show !== "difference" });
  }

  function words(f) {
    const { p } = f.engine.model, v = f.verdict, [a, b] = pointed || [f.state.a, f.state.b];
    const here = a < f.engine.rowsDone
      ? `a = ${a}, b = ${b}: answers ${f.engine.answer[a * p + b]}, right is ${f.engine.right(a, b)}, margin ${short(f.engine.margin[a * p + b])}.`
      : `a = ${a}, b = ${b}: right is ${f.engine.right(a, b)}.`;
    const all = f.engine.settled
      ? ` ${v.wrong === 0 ? `All ${count(v.inputs)} inputs are right` : `${count(v.wrong)} of ${count(v.inputs)} inputs are wrong`}; margins from ${short(v.smallest)} (a = ${v.a}, b = ${v.b}) to ${short(v.largest)}.`
      : ` Counting: ${count(v.inputs)} of ${count(p * p)} inputs so far.`;
    if (f.state.show === "model" || !f.form) return here + all;
    const worst = f.form.margins.reduce((x, y) => Math.min(x, y), Infinity);
    return `${here}${all} The interpretation's own smallest margin is ${short(worst)}${f.difference === null ? "" : `; model and interpretation differ by at most ${atMost(f.difference)} in any logit`}.`;
  }

  function data(f) {
    const { p } = f.engine.model, rows = [];
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++)
        rows.push([a, b, f.engine.right(a, b), f.engine.answer[a * p + b], f.engine.margin[a * p + b], f.form ? f.form.margins[(a - b + p) % p] : ""]);
    return csv(["a", "b", "right", "answer", "margin", "interpretation_margin"], rows);
  }

  return { build, draw, words, data };
})();

/** A canvas with a p × p map in which a click or the arrow keys choose (a, b). */
Q.views.mapCanvas = (stage, id, app, point) => {
  stage.replaceChildren();
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.className = "square";
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-labelledby", `title-${id}`);
  canvas.setAttribute("aria-describedby", `words-${id}`);
  stage.append(canvas);
  const cell = (event) => (canvas.map ? Q.draw.cellAt(canvas, canvas.map, event, app.info().p) : null);
  canvas.addEventListener("click", (event) => {
    const at = cell(event);
    if (at) app.set({ a: at[0], b: at[1] });
  });
  canvas.addEventListener("pointermove", (event) => {
    point(cell(event));
    app.redraw(id);
  });
  canvas.addEventListener("pointerleave", () => {
    point(null);
    app.redraw(id);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { p } = app.info(), state = app.state();
    app.set({ a: (state.a + step[0] + p) % p, b: (state.b + step[1] + p) % p });
  });
  return canvas;
};
