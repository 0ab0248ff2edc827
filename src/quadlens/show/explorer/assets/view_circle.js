// The circle of phases: every neuron a dot at its φ, its weight the size, one ring per key frequency.
Q.views = {};
Q.views.circle = (() => {
  const { short, inPi, count, csv } = Q.numbers;
  const SVG = "http://www.w3.org/2000/svg";
  const OUTER = 94, STEP = 60, INNER = 22;
  let svg, dots = [], wedge, mark, ghost, spoke, tops = [], rings, radii = [], placed = [];

  function make(name, attributes, parent) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent.appendChild(node);
    return node;
  }

  function ringOf(info, i) {
    const at = info.clusterOf[i] < 0 ? -1 : info.keys.indexOf(info.clusters[info.clusterOf[i]].k);
    return at < 0 ? INNER : radiusOf(info, at);
  }

  const radiusOf = (info, at) => OUTER - (info.keys.length > 1 ? (at * STEP) / Math.max(3, info.keys.length) : 0);

  /** A new model: new dots. */
  function build(stage, info, app) {
    stage.replaceChildren();
    svg = make("svg", { viewBox: "-132 -110 264 220", role: "application", tabindex: 0, "aria-labelledby": "title-circle", "aria-describedby": "words-circle" }, stage);
    wedge = make("path", { class: "wedge" }, svg);
    rings = make("g", { class: "rings" }, svg);
    info.keys.forEach((k, at) => make("circle", { r: radiusOf(info, at), "data-k": k }, rings));
    // In a run, neurons come to their rings from the middle.
    if (app.run() || info.clusterOf.some((j) => j < 0 || !info.keys.includes(info.clusters[j].k))) make("circle", { r: INNER }, rings);
    for (const [words, x, y, anchor] of [["φ = 0", 104, 3, "start"], ["π/2", 0, -103, "middle"], ["±π", -105, 3, "end"], ["−π/2", 0, 109, "middle"]])
      make("text", { x, y, "text-anchor": anchor }, svg).textContent = words;
    spoke = make("line", { class: "spoke", x1: 0, y1: 0 }, svg);
    ghost = make("circle", { class: "ghost", r: 3 }, svg);
    const group = make("g", {}, svg);
    radii = Float64Array.from({ length: info.d }, (_, i) => ringOf(info, i));
    dots = Array.from({ length: info.d }, (_, i) => make("circle", { class: "dot", "data-i": i }, group));
    placed = [];
    tops = Array.from({ length: 12 }, () => make("circle", { class: "top", r: 4.5 }, svg));
    mark = make("circle", { class: "mark" }, svg);
    attach(app);
  }

  const pointAt = (radius, phi) => [radius * Math.cos(phi), -radius * Math.sin(phi)];

  function draw(f) {
    const { engine, state } = f, { info } = engine;
    const heaviest = f.heaviest;
    for (let i = 0; i < info.d; i++) {
      const phi = info.phi[i] + engine.delta[i], gain = engine.gain[i], mine = info.kIn[i] === state.k && info.clusterOf[i] >= 0;
      const was = placed[i], ink = f.app.inkOf(i), ring = ringOf(info, i), size = (info.rho[i] * info.omega[i] * (gain || 1)) / heaviest;
      // While a run plays, a neuron that changes its ring takes some frames for it.
      radii[i] = f.gliding && Math.abs(ring - radii[i]) > 0.5 ? radii[i] + 0.25 * (ring - radii[i]) : ring;
      if (was && was[0] === phi && was[1] === gain && was[2] === mine && was[3] === size && was[4] === ink && was[5] === radii[i]) continue;
      placed[i] = [phi, gain, mine, size, ink, radii[i]];
      const [x, y] = pointAt(radii[i], phi), dot = dots[i];
      dot.setAttribute("cx", x.toFixed(2));
      dot.setAttribute("cy", y.toFixed(2));
      // Weights beyond float64, whose share of the heaviest is no number, are drawn as the heaviest.
      dot.setAttribute("r", (0.7 + 2.5 * Math.sqrt(size <= 2 ? size : Number.isNaN(size) ? 1 : 2)).toFixed(2));
      if (!was || was[4] !== ink) dot.setAttribute("style", `--own: var(--${ink})`);
      if (!was || was[2] !== mine || (was[1] === 0) !== (gain === 0)) dot.setAttribute("class", `dot${mine ? " mine" : ""}${gain === 0 ? " off" : ""}`);
    }
    const { s, u } = Q.quadrature.angles(info.p, state.k || 0, ...engine.renamed(state.a, state.b, 0)), middle = Math.cos(u) < 0 ? Math.PI - s : -s;
    wedge.style.display = state.k === null ? "none" : "";
    const [x0, y0] = pointAt(OUTER + 8, middle - Math.PI / 2), [x1, y1] = pointAt(OUTER + 8, middle + Math.PI / 2);
    wedge.setAttribute("d", `M${x0} ${y0}A${OUTER + 8} ${OUTER + 8} 0 0 0 ${x1} ${y1}Z`);
    const i = f.high, [hx, hy] = pointAt(radii[i], info.phi[i] + engine.delta[i]), [gx, gy] = pointAt(radii[i], info.phi[i]);
    mark.setAttribute("cx", hx), mark.setAttribute("cy", hy), mark.setAttribute("r", 6);
    mark.setAttribute("data-i", i);
    spoke.setAttribute("x2", hx), spoke.setAttribute("y2", hy);
    ghost.setAttribute("cx", gx), ghost.setAttribute("cy", gy);
    ghost.style.display = engine.delta[i] === 0 ? "none" : "";
    const heavy = f.hoverC === null ? [] : contributors(f, f.hoverC, tops.length);
    tops.forEach((top, j) => {
      top.style.display = j < heavy.length ? "" : "none";
      if (j >= heavy.length) return;
      const [x, y] = pointAt(radii[heavy[j]], info.phi[heavy[j]] + engine.delta[heavy[j]]);
      top.setAttribute("cx", x), top.setAttribute("cy", y), top.setAttribute("data-i", heavy[j]);
    });
  }

  /** The neurons that add most, in size, to logit c of the chosen input. */
  function contributors(f, c, n) {
    const { engine, state } = f, { p, d } = engine.model;
    const size = Float64Array.from({ length: d }, (_, i) =>
      Math.abs(!engine.inUse(i) ? 0 : engine.sigma(engine.pre(i, state.a, state.b)) * engine.WL[i * p + c]));
    return Array.from(size.keys()).filter((i) => size[i] > 0).sort((i, j) => size[j] - size[i]).slice(0, n);
  }

  /** Nearest dot within reach of the pointer, dropped ones too; null if none. */
  function nearest(event, reach) {
    // The drawing keeps its shape, so the tighter side decides the scale.
    const box = svg.getBoundingClientRect(), scale = Math.max(264 / box.width, 220 / box.height);
    const x = (event.clientX - box.left - box.width / 2) * scale, y = (event.clientY - box.top - box.height / 2) * scale;
    let best = null, distance = (reach * scale) ** 2;
    placed.forEach(([phi], i) => {
      const [px, py] = pointAt(radii[i], phi), own = (px - x) ** 2 + (py - y) ** 2;
      if (own < distance) [best, distance] = [i, own];
    });
    return { i: best, angle: Math.atan2(-y, x) };
  }

  function attach(app) {
    let dragged = null;
    svg.addEventListener("pointerdown", (event) => {
      const { i } = nearest(event, event.pointerType === "touch" ? 22 : 12);
      if (i === null) return;
      event.preventDefault();
      svg.focus({ preventScroll: true });
      dragged = i;
      svg.setPointerCapture(event.pointerId);
      app.choose(i);
    });
    svg.addEventListener("pointermove", (event) => {
      const { i, angle } = nearest(event, 10);
      if (dragged === null) app.hover(i);
      else app.move(dragged, angle);
    });
    const drop = () => {
      if (dragged !== null) app.settle();
      dragged = null;
    };
    svg.addEventListener("pointerup", drop);
    svg.addEventListener("pointercancel", drop);
    svg.addEventListener("pointerleave", () => app.hover(null));
    // A finger on a dot drags the dot; a finger elsewhere scrolls the page.
    svg.addEventListener("touchstart", (event) => {
      if (nearest(event.touches[0], 22).i !== null) event.preventDefault();
    }, { passive: false });
    svg.addEventListener("keydown", (event) => {
      const i = app.chosen(), step = event.shiftKey ? 0.2 : 0.02;
      const keys = {
        ArrowRight: () => app.neighbour(1), ArrowLeft: () => app.neighbour(-1),
        ArrowUp: () => app.turn(i, step), ArrowDown: () => app.turn(i, -step),
        "+": () => app.amplify(i, 1.1), "=": () => app.amplify(i, 1.1), "-": () => app.amplify(i, 1 / 1.1),
        Delete: () => app.toggleOff(i), Backspace: () => app.toggleOff(i),
      };
      if (!(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
    // A key that is held down is one step of undo.
    svg.addEventListener("keyup", () => app.closeStep());
  }

  function words(f) {
    const { engine, state } = f, { info } = engine, i = f.high;
    const cluster = info.clusterOf[i] >= 0 ? `reads and writes k = ${info.kIn[i]}` : `reads k = ${info.kIn[i]}, writes k = ${info.kOut[i]}: in no cluster`;
    const psi = Q.fourier.wrap(info.psi[i] + (engine.how.carry ? 2 * engine.delta[i] : 0)), phi = Q.fourier.wrap(info.phi[i] + engine.delta[i]);
    const { all, byKey, rest } = engine.counts(), sizes = [...byKey].map(([k, n]) => `${count(n)} at k = ${k}`);
    if (rest || !sizes.length) sizes.push(`${count(rest)} at no key frequency`);
    const off = engine.inUse(i) ? "" : " (dropped)";
    return `${count(all)} of ${count(info.d)} neurons in use: ${sizes.join(", ")}. Neuron ${i}${off} ${cluster}: φ = ${inPi(phi)}, ψ = ${inPi(psi)}, ψ − 2φ = ${inPi(Q.fourier.wrap(psi - 2 * phi))}, weight ρω = ${short(info.rho[i] * info.omega[i] * engine.gain[i])}${state.k === info.kIn[i] && f.rule && f.weightOf.has(i) ? `, width w = ${short(f.weightOf.get(i))}` : ""}.`;
  }

  function data(f) {
    const { engine } = f, { info } = engine;
    return csv(["neuron", "k_in", "k_out", "clustered", "phi", "psi", "rho", "omega", "moved", "gain"],
      Array.from({ length: info.d }, (_, i) => [i, info.kIn[i], info.kOut[i], info.clusterOf[i] >= 0 ? 1 : 0,
        info.phi[i] + engine.delta[i], info.psi[i] + (engine.how.carry ? 2 * engine.delta[i] : 0), info.rho[i], info.omega[i] * engine.gain[i], engine.delta[i], engine.gain[i]]));
  }

  return { build, draw, words, data };
})();
