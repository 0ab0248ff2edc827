// p × p maps: the pre-activation of one neuron, the margin of every input, and the gates of softmax attention.
Q.views.pre = (() => {
  const D = Q.draw, { short, csv } = Q.numbers;
  let canvas;

  function build(stage, info, app) {
    stage.replaceChildren();
    canvas = Q.views.mapCanvas(stage, "pre", app, () => null);
  }

  function draw(f) {
    const { p } = f.engine.model, x = values(f), scale = x.reduce((most, y) => Math.max(most, Math.abs(y)), 1e-300);
    canvas.map = D.heatmap(canvas, f.engine.model.task, (a, b) => x[a * p + b], [scale, scale], { cells: [[f.state.a, f.state.b, D.colour("fg")]] });
  }

  /** Pre-activations of the highlighted neuron, at a·p + b. */
  function values(f) {
    const { p } = f.engine.model, i = f.high;
    return Float64Array.from({ length: p * p }, (_, at) => f.engine.pre(i, Math.floor(at / p), at % p));
  }

  function words(f) {
    const { p } = f.engine.model, all = values(f), x = all[f.state.a * p + f.state.b];
    const say = Q.words[f.engine.model.activation], { info } = f.engine;
    const on = all.reduce((n, y) => n + (y > 0), 0), most = all.reduce((m, y) => Math.max(m, y), -Infinity);
    return `Neuron ${f.high} at ${Q.views.inputs(f, f.state.a, f.state.b)}: pre-activation ${short(x)}, ${!f.engine.inUse(f.high) ? "dropped" : x > 0 ? say.positive : say.negative}. It is ${say.positive} (blue) for ${Q.numbers.percent(on / (p * p))} of all inputs; at most ${short(most)}.${info.waves ? ` Its wave has frequency ${info.kIn[f.high]}.` : ""}`;
  }

  function data(f) {
    const { p } = f.engine.model;
    return csv(["a", "b", "pre_activation"], Array.from(values(f), (x, at) => [Math.floor(at / p), at % p, x]));
  }

  return { build, draw, words, data };
})();

Q.views.grid = (() => {
  const D = Q.draw, { short, atMost, count, csv } = Q.numbers;
  let canvas, pointed = null;

  function build(stage, info, app) {
    pointed = null;
    stage.replaceChildren();
    canvas = Q.views.mapCanvas(stage, "grid", app, (cell) => {
      pointed = cell;
    });
  }

  /** Margin on show at (a, b): the model's, the interpretation's, or their difference. */
  function value(f, a, b) {
    if (a >= f.engine.rowsSeen) return NaN;
    const { p } = f.engine.model, own = f.engine.margin[a * p + b];
    if (f.state.show === "model" || !f.form) return own;
    const ideal = Q.closedForm.margin(f.form, a, b);
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
    canvas.map = D.heatmap(canvas, f.engine.model.task, (a, b) => value(f, a, b), scale, { cells, strong: f.state.show !== "difference" });
  }

  function words(f) {
    const { p, task } = f.engine.model, name = (c) => Q.task.label(task, c), v = f.verdict, [a, b] = pointed || [f.state.a, f.state.b];
    const here = a < f.engine.rowsDone
      ? `${Q.views.inputs(f, a, b)}: answers ${name(f.engine.answer[a * p + b])}, right is ${name(f.engine.right(a, b))}, margin ${short(f.engine.margin[a * p + b])}.`
      : `${Q.views.inputs(f, a, b)}: right is ${name(f.engine.right(a, b))}.`;
    const all = f.engine.settled
      ? ` ${v.wrong === 0 ? `All ${count(v.inputs)} inputs are right` : `${count(v.wrong)} of ${count(v.inputs)} inputs are wrong`}; margins from ${short(v.smallest)} (${Q.views.inputs(f, v.a, v.b)}) to ${short(v.largest)}.`
      : ` Counting: ${count(v.inputs)} of ${count(p * p)} inputs so far.`;
    if (f.state.show === "model" || !f.form) return here + all;
    const worst = f.form.margins.reduce((x, y) => Math.min(x, y), Infinity);
    return `${here}${all} The interpretation's own smallest margin is ${short(worst)}${f.difference === null ? "" : `; model and interpretation differ by at most ${atMost(f.difference)} in any logit`}.`;
  }

  function data(f) {
    const { p } = f.engine.model, rows = [];
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++)
        rows.push([a, b, f.engine.right(a, b), f.engine.answer[a * p + b], f.engine.margin[a * p + b], f.form ? Q.closedForm.margin(f.form, a, b) : ""]);
    return csv(["a", "b", "right", "answer", "margin", "interpretation_margin"], rows);
  }

  return { build, draw, words, data };
})();

Q.views.gates = (() => {
  const D = Q.draw, { short, csv } = Q.numbers, NAMES = ["a", "b", "="];
  let maps = [];

  /** One map per head and position, and the canvas of each. */
  function build(stage, info, app) {
    const { gated } = app.engine();
    stage.replaceChildren();
    maps = [];
    stage.style.setProperty("--positions", gated.length);
    for (let h = 0; h < (gated.length ? gated[0].heads : 0); h++)
      gated.forEach((one, t) => {
        const box = document.createElement("div"), title = document.createElement("p");
        title.textContent = `head ${h} on ${NAMES[one.position]}`;
        box.append(title);
        stage.append(box);
        maps.push({ h, t, canvas: Q.views.mapCanvas(box, "gates", app, () => null, title.textContent) });
      });
  }

  /** The whole weight of head h on the t-th position: its constant part and what softmax adds. */
  function weight({ model: { p, attention }, gated }, h, t, a, b) {
    return attention[gated[t].position] + gated[t].gates[(h * p + a) * p + b];
  }

  function draw(f) {
    const { engine } = f, { p, attention } = engine.model;
    let scale = 1e-300;
    for (const { position, gates } of engine.gated) for (const gate of gates) scale = Math.max(scale, Math.abs(attention[position] + gate));
    for (const { h, t, canvas } of maps)
      canvas.map = D.heatmap(canvas, f.engine.model.task, (a, b) => weight(engine, h, t, a, b), [scale, scale], { cells: [[f.state.a, f.state.b, D.colour("fg")]] });
  }

  function words(f) {
    const { engine } = f, { gated } = engine, { p } = engine.model, { a, b } = f.state;
    const heads = Array.from({ length: gated[0].heads }, (_, h) => gated.map((one, t) => {
      let low = Infinity, high = -Infinity;
      for (let x = 0; x < p; x++)
        for (let y = 0; y < p; y++) {
          const mine = weight(engine, h, t, x, y);
          low = Math.min(low, mine), high = Math.max(high, mine);
        }
      return `${short(weight(engine, h, t, a, b))} on ${NAMES[one.position]} (${short(low)} to ${short(high)})`;
    }).join(", "));
    return `At ${Q.views.inputs(f, a, b)}, with the range over all inputs: ${heads.map((one, h) => `head ${h} puts ${one}`).join("; ")}.`;
  }

  function data(f) {
    const { engine } = f, { p } = engine.model;
    return csv(["a", "b", ...maps.map(({ h, t }) => `head_${h}_on_${["a", "b", "equals"][engine.gated[t].position]}`)],
      Array.from({ length: p * p }, (_, at) => [Math.floor(at / p), at % p, ...maps.map(({ h, t }) => weight(engine, h, t, Math.floor(at / p), at % p))]));
  }

  return { build, draw, words, data };
})();

/** One input, its elements under their names. */
Q.views.inputs = ({ engine }, a, b) => `a = ${Q.task.label(engine.model.task, a)}, b = ${Q.task.label(engine.model.task, b)}`;

/** A canvas with a p × p map in which a click or the arrow keys choose (a, b). */
Q.views.mapCanvas = (stage, id, app, point, label) => {
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.className = "square";
  canvas.setAttribute("role", "application");
  if (label) canvas.setAttribute("aria-label", label);
  else canvas.setAttribute("aria-labelledby", `title-${id}`);
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
