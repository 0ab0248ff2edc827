// Bars over c: the column of W_L of one neuron, and the logits of one input taken apart.
Q.views.barCanvas = (stage, id, app) => {
  stage.replaceChildren();
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-labelledby", `title-${id}`);
  canvas.setAttribute("aria-describedby", `words-${id}`);
  stage.append(canvas);
  const under = (event) => {
    const box = canvas.getBoundingClientRect(), { p } = app.info();
    const c = Math.floor(((event.clientX - box.left - Q.views.LEFT) / (box.width - Q.views.LEFT - Q.views.RIGHT)) * p);
    return c >= 0 && c < p ? c : null;
  };
  canvas.addEventListener("pointermove", (event) => app.hoverC(under(event)));
  canvas.addEventListener("pointerleave", () => app.hoverC(null));
  canvas.addEventListener("click", (event) => {
    const c = under(event);
    if (c !== null) app.set({ c });
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const { p } = app.info();
    app.set({ c: (app.answerOn() + (event.key === "ArrowRight" ? 1 : p - 1)) % p });
  });
  return canvas;
};
Q.views.LEFT = 42;
Q.views.RIGHT = 6;

/** Ticks of c, the chosen one marked; returns the left edge and width of each bar. */
Q.views.barAxis = (f, g, width, y, chosen) => {
  const D = Q.draw, { p, task } = f.engine.model, { LEFT, RIGHT } = Q.views, first = Q.task.first(task);
  const step = (width - LEFT - RIGHT) / p, tick = p > 80 ? 20 : 10;
  for (let c = first ? tick - first : 0; c < p; c += tick) if (Math.abs(c - chosen) > tick / 3) D.text(g, c + first, LEFT + (c + 0.5) * step, y + 13, "center");
  D.text(g, `c = ${chosen + first}`, Math.min(width - 30, Math.max(LEFT + 18, LEFT + (chosen + 0.5) * step)), y + 13, "center", "fg");
  return { step, x: (c) => LEFT + c * step };
};

Q.views.column = (() => {
  const D = Q.draw, { short, inPi, csv } = Q.numbers;
  let canvas;

  function build(stage, info, app) {
    canvas = Q.views.barCanvas(stage, "column", app);
  }

  /** W_L[:, i] as edited, and the one wave that stands for it, where neurons have frequencies. */
  function waves(f) {
    const { engine } = f, { info } = engine, { p } = engine.model, i = f.high, k = info.kOut[i];
    const bars = engine.WL.subarray(i * p, (i + 1) * p);
    if (!info.waves) return { p, i, k, bars, omega: 0, wave: null };
    const { ofC } = engine.model.task.cyclic, m = info.multiples.get(info.kIn[i])[k];
    const psi = Q.fourier.phase(info.output, i, k) + (engine.how.carry ? 2 * m * engine.delta[i] : 0);
    const omega = Q.fourier.amplitude(info.output, i, k) * engine.gain[i];
    return { p, i, k, bars, psi, omega, wave: (c) => omega * Math.cos((2 * Math.PI * k * ofC[c]) / p + psi), between: (c) => omega * Math.cos((2 * Math.PI * k * c) / p + psi) };
  }

  function draw(f) {
    const { g, width, height } = D.open(canvas), { p, k, bars, wave, between, omega } = waves(f), c0 = f.hoverC === null ? f.c : f.hoverC;
    const scale = Math.max(1e-300, Math.abs(omega), ...bars.map(Math.abs)) * 1.1, top = 8, h = height - top - 20, middle = top + h / 2;
    const Y = (y) => middle - (y / scale) * (h / 2), axis = Q.views.barAxis(f, g, width, top + h, c0);
    D.line(g, Q.views.LEFT, middle, width - Q.views.RIGHT, middle, D.colour("line"));
    for (const y of [scale / 1.1, -scale / 1.1]) D.text(g, short(y), Q.views.LEFT - 4, Y(y) + 4, "right");
    for (let c = 0; c < p; c++) {
      g.fillStyle = c === c0 ? D.colour("fg") : D.colour("output");
      g.fillRect(axis.x(c) + 0.5, Math.min(middle, Y(bars[c])), Math.max(1, axis.step - 1), Math.abs(Y(bars[c]) - middle));
    }
    // Only where elements keep their order is there a curve between them.
    if (wave) overlay(g, axis, p, f.engine.model.task.cyclic.isIdentity ? k : p, (c) => Y((Number.isInteger(c) ? wave : between)(c)));
  }

  /** The wave between the tokens; where it turns faster than a line can show, only its values at them. */
  function overlay(g, axis, p, k, y) {
    g.strokeStyle = g.fillStyle = D.colour("fg");
    g.lineWidth = 1.2;
    if (p / k < 4.5) {
      for (let c = 0; c < p; c++) g.fillRect(axis.x(c) + axis.step / 2 - 1.5, y(c) - 1.5, 3, 3);
      return;
    }
    g.setLineDash([3, 3]);
    g.beginPath();
    for (let j = 0; j <= 8 * (p - 1); j++) g.lineTo(axis.x(j / 8) + axis.step / 2, y(j / 8));
    g.stroke();
    g.setLineDash([]);
  }

  function words(f) {
    const { i, k, bars, psi, omega, p, wave } = waves(f), c = f.hoverC === null ? f.c : f.hoverC, name = (j) => Q.task.label(f.engine.model.task, j);
    if (!f.engine.inUse(i)) return `Neuron ${i} is dropped: it writes nothing.`;
    if (!wave) return `Neuron ${i} writes ${short(bars[c])} to the logit of c = ${name(c)} per unit of activation; most to c = ${name(bars.indexOf(bars.reduce((x, y) => Math.max(x, y), -Infinity)))}.`;
    let all = 0, left = 0, mean = 0;
    for (let j = 0; j < p; j++) mean += bars[j] / p;
    for (let j = 0; j < p; j++) {
      all += (bars[j] - mean) ** 2;
      left += (bars[j] - mean - wave(j)) ** 2;
    }
    const share = all > 0 ? `; that wave is ${Q.numbers.percent(1 - left / all)} of its variance` : "";
    return `Neuron ${i} writes ${short(omega)} cos(${k}wc + ψ) with ψ = ${inPi(Q.fourier.wrap(psi))} (overlaid)${share}. W_L at c = ${name(c)}: ${short(bars[c])}.`;
  }

  function data(f) {
    const { p, bars, wave } = waves(f);
    return csv(["c", "W_L", "wave"], Array.from({ length: p }, (_, c) => [c, bars[c], wave ? wave(c) : ""]));
  }

  return { build, draw, words, data };
})();

Q.views.logits = (() => {
  const D = Q.draw, { short, csv } = Q.numbers;
  let canvas;

  function build(stage, info, app) {
    canvas = Q.views.barCanvas(stage, "logits", app);
  }

  /** The parts on show, each with a name, a colour and its values over c. */
  function parts(f) {
    const { info } = f.engine, { byCluster, identity, skip } = f.split, p = info.p;
    const list = info.keys.map((k) => ({ name: `k = ${k}`, colour: f.app.colourOfK(k), values: byCluster[info.clusters.findIndex((one) => one.k === k)] || new Float64Array(info.p) }));
    const rest = new Float64Array(p);
    byCluster.forEach((values, j) => {
      if (j === info.clusters.length || !info.keys.includes(info.clusters[j].k)) values.forEach((x, c) => (rest[c] += x));
    });
    if (rest.some((x) => x !== 0)) list.push({ name: info.waves ? "other neurons" : Q.activations.hasOddPart(f.engine.model.activation) ? Q.words[f.engine.model.activation].even : "neurons", colour: D.colour("quiet"), values: rest });
    if (f.state.part !== "abs" && identity.some((x) => x !== 0)) list.push({ name: Q.words[f.engine.model.activation].odd, colour: D.colour("identity"), values: identity });
    if (skip.some((x) => x !== 0)) list.push({ name: f.engine.model.attention ? "skip" : "output bias", colour: D.colour("skip"), values: skip });
    return list;
  }

  const mean = (x) => x.reduce((y, z) => y + z, 0) / x.length;

  function draw(f) {
    const { g, width, height } = D.open(canvas), { p } = f.engine.model, c0 = f.hoverC === null ? f.c : f.hoverC;
    const list = parts(f), shareHeight = 52, top = legend(g, list, width, f), h = height - top - 22 - shareHeight;
    const difference = f.state.show === "difference" && f.form, total = f.split.total, shift = mean(total);
    const ideal = f.form && f.state.show !== "model" ? Q.closedForm.logits(f.form, f.state.a, f.state.b) : null;
    const stacks = difference ? [{ colour: D.colour("exact"), values: total.map((x, c) => x - shift - ideal[c]) }] : list;
    let high = 1e-300, low = -1e-300;
    for (let c = 0; c < p; c++) {
      let up = 0, down = 0;
      for (const { values } of stacks) values[c] > 0 ? (up += values[c]) : (down += values[c]);
      high = Math.max(high, up, difference ? 0 : total[c]), low = Math.min(low, down, difference ? 0 : total[c]);
    }
    const Y = (y) => top + ((high - y) / (high - low)) * h, axis = Q.views.barAxis(f, g, width, top + h, c0);
    for (const y of [high, low]) D.text(g, short(y), Q.views.LEFT - 4, Math.min(top + h, Y(y) + 8), "right");
    D.text(g, "0", Q.views.LEFT - 4, Y(0) + 4, "right");
    g.fillStyle = D.alpha(D.colour("exact"), 0.22);
    g.fillRect(axis.x(f.engine.right(f.state.a, f.state.b)), top, axis.step, h);
    for (let c = 0; c < p; c++) {
      let up = 0, down = 0;
      for (const { values, colour } of stacks) {
        const v = values[c], base = v > 0 ? up : down;
        g.fillStyle = colour;
        g.fillRect(axis.x(c) + 0.5, Math.min(Y(base), Y(base + v)), Math.max(1, axis.step - 1), Math.abs(Y(base + v) - Y(base)));
        v > 0 ? (up += v) : (down += v);
      }
      if (c === c0) {
        g.strokeStyle = D.colour("fg");
        g.lineWidth = 1.5;
        g.strokeRect(axis.x(c), Y(up) - 1, axis.step, Y(down) - Y(up) + 2);
      }
    }
    D.line(g, Q.views.LEFT, Y(0), width - Q.views.RIGHT, Y(0), D.colour("line"));
    if (!difference) ticks(g, axis, p, (c) => Y(total[c]));
    if (ideal && !difference) curve(g, axis, p, (c) => Y(ideal[c] + shift), D.colour("fg"), [4, 3]);
    share(f, g, axis, width, top + h + 22, shareHeight - 4, c0);
  }

  /** The whole logit of each c, as a bold tick with a rim that keeps it apart from the bars. */
  function ticks(g, axis, p, y) {
    const h = 3;
    for (const [style, rim] of [[D.colour("card"), 1], [D.colour("fg"), 0]]) {
      g.fillStyle = style;
      for (let c = 0; c < p; c++) g.fillRect(axis.x(c) - rim, y(c) - h / 2 - rim, axis.step + 2 * rim, h + 2 * rim);
    }
  }

  function curve(g, axis, p, y, style, dash) {
    g.strokeStyle = g.fillStyle = style;
    g.lineWidth = 1.6;
    g.setLineDash(dash);
    g.beginPath();
    for (let c = 0; c < p; c++) g.lineTo(axis.x(c) + axis.step / 2, y(c));
    g.stroke();
    g.setLineDash([]);
  }

  /** The strip below: what the highlighted neuron adds to each logit, on a scale of its own. */
  function share(f, g, axis, width, top, h, c0) {
    const { p } = f.engine.model, mine = f.engine.share(f.high, f.state.a, f.state.b), colour = f.app.colourOf(f.high);
    const scale = Math.max(1e-300, ...mine.map(Math.abs)), middle = top + h / 2 + 6;
    D.text(g, `share of neuron ${f.high} (full height ${short(scale > 1e-299 ? scale : 0)})`, Q.views.LEFT, top + 7, "left");
    D.line(g, Q.views.LEFT, middle, width - Q.views.RIGHT, middle, D.colour("line"));
    for (let c = 0; c < p; c++) {
      const size = (mine[c] / scale) * (h / 2 - 6);
      g.fillStyle = c === c0 ? D.colour("fg") : colour;
      g.fillRect(axis.x(c) + 0.5, Math.min(middle, middle - size), Math.max(1, axis.step - 1), Math.abs(size));
    }
  }

  function legend(g, list, width, f) {
    let x = Q.views.LEFT, y = 11;
    const entries = list.map(({ name, colour }) => [name, colour]).concat([["logit", D.colour("fg")]]);
    if (f.state.show !== "model") entries.push(["interpretation (dashed)", D.colour("fg")]);
    for (const [name, colour] of f.state.show === "difference" && f.form ? [["model − interpretation", D.colour("exact")]] : entries) {
      const w = g.measureText(name).width + 20;
      if (x + w > width) [x, y] = [Q.views.LEFT, y + 14];
      g.fillStyle = colour;
      g.fillRect(x, y - 8, 9, 9);
      D.text(g, name, x + 12, y, "left");
      x += w;
    }
    return y + 8;
  }

  function words(f) {
    const { p, task } = f.engine.model, name = (j) => Q.task.label(task, j), { a, b } = f.state, right = f.engine.right(a, b), c = f.hoverC === null ? f.c : f.hoverC, { total } = f.split;
    let best = right === 0 ? 1 : 0;
    for (let j = 0; j < p; j++) if (j !== right && total[j] > total[best]) best = j;
    const list = parts(f).map(({ name, values }) => `${short(values[c])} (${name})`).join(" + ");
    const ideal = f.form && f.state.show !== "model" ? ` The interpretation, shifted to the same mean, says ${short(Q.closedForm.logits(f.form, a, b)[c] + mean(total))}.` : "";
    return `Right answer c = ${name(right)}: logit ${short(total[right])}; the best other is c = ${name(best)} with ${short(total[best])}. Logit at c = ${name(c)}: ${short(total[c])}${list ? ` = ${list}` : ""}. Neuron ${f.high} adds ${short(f.engine.share(f.high, a, b)[c])}.${ideal}`;
  }

  function data(f) {
    const { p } = f.engine.model, list = parts(f), mine = f.engine.share(f.high, f.state.a, f.state.b);
    const ideal = f.form ? Q.closedForm.logits(f.form, f.state.a, f.state.b) : null;
    return csv(["c", ...list.map(({ name }) => name), "logit", "interpretation", `neuron_${f.high}`],
      Array.from({ length: p }, (_, c) => [c, ...list.map(({ values }) => values[c]), f.split.total[c], ideal ? ideal[c] : "", mine[c]]));
  }

  return { build, draw, words, data };
})();
