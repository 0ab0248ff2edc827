// The page itself: one state, one engine; every change goes state → engine → frame → views.
Q.app = (() => {
  const VIEWS = ["circle", "rectangles", "logits", "pre", "column", "grid", "gates", "shared"];
  const { short, count, percent, atMost, percentAtMost } = Q.numbers;
  const at = (id) => document.getElementById(id);
  // Milliseconds for summing logits before the first picture, and in each slice after it.
  const FIRST = 50, SLICE = 12;
  let engine, state, past, forms = null, frame = null, name = "", hovered = null, pointedC = null;
  // The views that apply to the model on the page.
  let shown = VIEWS;
  // Whether the model is the page's own, of which it is known whether it computes integrals.
  let own = false;
  // The page's own model and what is known of it; the run that made it, the place in it that the engine is at (null: its end,
  // the model itself), the place while it plays or is scrubbed, and the time of the last picture.
  let home = null, run = null, place = null, passing = null, playing = false, then = 0;
  // Snapshots per second.
  const PACE = 5;
  const CALM = matchMedia("(prefers-reduced-motion: reduce)");
  // Views on the screen; while a run plays, the others wait.
  const inSight = new Set(VIEWS);
  const sight = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => inSight[isIntersecting ? "add" : "delete"](target.id.slice(5))));
  let scheduled = 0, working = 0, writing = 0, ruleKey = "", rule = null, claims = null, difference = null, spoken = 0;
  const timings = [];

  const info = () => engine.info;

  function inkOfK(k) {
    const j = info().keys.indexOf(k);
    return j < 0 ? "quiet" : `k${j % 8}`;
  }

  const inkOf = (i) => (info().clusterOf[i] < 0 ? "quiet" : inkOfK(info().clusters[info().clusterOf[i]].k));
  const colourOfK = (k) => Q.draw.colour(inkOfK(k));
  const colourOf = (i) => Q.draw.colour(inkOf(i));

  /** Put a model on the page; a file that cannot be read leaves everything as it was. */
  function open(bytes, label, fragment) {
    const model = Q.collapse.collapse(Q.safetensors.read(bytes));
    engine = new Q.engine.Engine(model);
    [home, run, place, passing, playing] = [{ model, info: engine.info, heaviest: heaviestWeight(engine.info) }, null, null, null, false];
    [forms, ruleKey, hovered, pointedC, difference, name] = [null, "", null, null, null, label];
    past = new Q.history.History();
    state = read(fragment);
    introduce(Q.sha256.hex(bytes));
    Q.controls.fit(engine);
    Q.time.build(null, api);
    for (const id of shown) Q.views[id].build(at(`stage-${id}`), engine.info, api);
    engine.sync(state);
    engine.work(FIRST);
    render();
    document.documentElement.dataset.model = label;
  }

  /** The run that made the page's model: from now on it can be played. */
  function attach(found, fragment) {
    run = found;
    if (fragment.includes("epoch=")) state = read(fragment);
    Q.time.build(run, api);
    for (const id of VIEWS) sight.observe(at(`view-${id}`));
    Q.views.circle.build(at("stage-circle"), home.info, api);
    schedule();
  }

  const heaviestWeight = ({ rho, omega }) => Math.max(1e-300, rho.reduce((most, x, i) => Math.max(most, x * omega[i]), 0));

  /** Bring the engine to the place in the run that is asked for; on the way its margins are the run's own, at rest they are computed. */
  function follow() {
    const wanted = passing !== null ? passing : state.epoch === null ? null : run.epochs.indexOf(state.epoch);
    const key = `${wanted} ${passing !== null && wanted !== null}`;
    if (!run || key === place || (place === null && wanted === null)) return false;
    const model = wanted === null ? home.model : run.at(wanted);
    // Rings and colours are those of the frequencies that matter at the end.
    const info = wanted === null ? home.info : { ...Q.clusters.analyse(model, model.spectra), keys: home.info.keys, largest: home.info.largest };
    engine.adopt(model, info, passing !== null && wanted !== null ? model.margin : null);
    [forms, difference, ruleKey, place] = [null, null, "", wanted === null ? null : key];
    Q.controls.fit(engine);
    return true;
  }

  /** Place j of the run, or its end: the dials go back, since they bend another network. While `moving`, nothing is summed. */
  function goToSnapshot(j, moving) {
    const end = j >= run.epochs.length, epoch = end ? null : run.epochs[Math.max(0, j)];
    playing = false;
    passing = moving && !end ? Math.max(0, j) : null;
    set({ ...Q.state.atRest, epoch });
  }

  const snapshot = () => (state.epoch === null ? run.epochs.length : run.epochs.indexOf(state.epoch));

  function play() {
    if (playing) return goToSnapshot(Math.round(passing));
    passing = snapshot() >= run.epochs.length - 1 ? 0 : snapshot();
    set({ ...Q.state.atRest, epoch: run.epochs[passing] });
    [playing, then] = [true, performance.now()];
    return requestAnimationFrame(tick);
  }

  /** The next picture of a run that plays; from snapshot to snapshot, twice a second, where the reader wants no motion. */
  function tick(now) {
    if (!playing) return;
    const calm = CALM.matches, step = Math.max(0, Math.min(0.2, (now - then) / 1000)) * PACE, last = run.epochs.length - 1;
    if (!calm || now - then >= 500) {
      passing = Math.min(last, calm ? Math.floor(passing) + 1 : passing + step);
      then = now;
      state = { ...state, epoch: run.epochs[Math.floor(passing)] };
      render();
    }
    if (passing >= last) goToSnapshot(last + 1);
    else requestAnimationFrame(tick);
  }

  /** Everything that names the model, or speaks of its activation; what was to be said of another is not said any more. */
  function introduce(sha256) {
    const { p, d, activation, task } = engine.model, { waves } = info(), { page } = Q.words;
    const absent = absences(), rule = waves && !Q.words[activation].no_rule;
    own = sha256 === page.verdict.sha256;
    shown = VIEWS.filter((id) => !absent.some(({ views }) => views.includes(id)));
    for (const id of VIEWS) at(`view-${id}`).hidden = !shown.includes(id);
    at("absent").textContent = absent.map(({ why }) => why).join(" ");
    document.documentElement.dataset.waves = waves;
    document.documentElement.dataset.rule = shown.includes("rectangles");
    at("title").textContent = page.titles[rule ? 0 : 1];
    at("intro").textContent = filled(page.intros[rule ? "rule" : "plain"]) + (waves && !task.cyclic.isIdentity ? ` ${filled(page.renamed)}` : "") + (task.symbols === "σ·τ" ? ` ${page.permutations}` : "") + (own && page.verdict.sentence ? ` ${page.verdict.sentence}` : "");
    at("claims").hidden = !own || !page.verdict.sentence;
    at("model-name").textContent = `${name}: ${task.name === "add" ? `p = ${p}` : `${count(p)} elements`}, ${count(d)} neurons`;
    at("footer-name").textContent = name;
    at("footer-sha").textContent = sha256;
    document.title = `quadlens explorer: ${name}`;
    for (const id of VIEWS) at(`how-${id}`).textContent = Q.words[activation].how[waves ? 0 : 1][id];
    clearTimeout(spoken);
    at("spoken").textContent = "";
  }

  /** A sentence with the task's own words in it. */
  const filled = (words) => words.replace(/\{(\w+)\}/g, (_, key) => engine.model.task[key]);

  /** Views that do not apply to this model, each with why; the same in words.py. */
  function absences() {
    const { gated, attention, task } = engine.model, { absent } = Q.words.page, found = [];
    if (gated.length) found.push("gates");
    else if (!task.cyclic) found.push("task");
    if (!gated.length) found.push(attention ? "constant" : "none");
    else if (!Q.lens.applies(engine.model)) found.push(task.cyclic ? "many" : "unshared");
    return found.map((key) => ({ views: absent[key].views, why: filled(absent[key].why) }));
  }

  /** A fragment that names only a step of the tour means that step's saved view. */
  function read(fragment) {
    const found = Q.state.fromFragment(fragment, info());
    // Without frequencies there are no phases to move, nothing to fold or fit, and no tour of them.
    if (!info().waves) Object.assign(found, { jitter: 0, arc: 0, keep: "all", show: "model", scope: "all", moves: {} });
    if (!engine.model.gated.length) found.attention = 1;
    if (!tourFits()) found.tour = 0;
    if (!run || !run.epochs.includes(found.epoch)) found.epoch = null;
    return found.tour && /^#?tour=\d$/.test(fragment) ? Q.tour.stateOf(found.tour, info()) : found;
  }

  /** The tour is about the integral, at a frequency that some neuron reads and writes. */
  const tourFits = () => info().waves && info().largest !== null;

  function heaviestOf(k) {
    // Of the page's own model, so that one neuron is followed through the run.
    const { clusters, rho, omega } = home.info, cluster = clusters.find((one) => one.k === k);
    return cluster ? cluster.neurons[Q.clusters.firstLargest(cluster.neurons.map((i) => rho[i] * omega[i]))] : 0;
  }

  /** Everything the views need, computed once. */
  function compute() {
    const moved = follow(), changed = engine.sync(state) || moved, shape = Q.activations.shapeOf(engine.model.activation, state.part);
    if (changed || (frame && frame.state.show !== state.show)) difference = null;
    const key = `${state.k}`;
    if (changed || key !== ruleKey) {
      rule = state.k === null || shape === null ? null : engine.scheme(state.k);
      claims = rule && Q.quadrature.claims(rule);
      ruleKey = key;
    }
    if (state.show !== "model" && !forms) forms = Q.closedForm.fit(engine.model, info());
    const form = state.show === "model" ? null : forms[state.part];
    const c = answerOn();
    if (form && engine.settled && difference === null) difference = Q.closedForm.largestDifference(form, engine);
    return {
      app: api, state, engine, form, rule, claims, c, shape, difference, chosen: chosen(),
      high: hovered === null ? chosen() : hovered, hoverC: pointedC,
      point: rule && Q.quadrature.at(rule, shape, ...engine.renamed(state.a, state.b, c)),
      weightOf: new Map(rule ? rule.neurons.map((i, j) => [i, rule.w[j]]) : []),
      split: engine.split(state.a, state.b), verdict: engine.verdict(),
      heaviest: home.heaviest, integrates: own && Q.words.page.verdict.integrates === true, gliding: playing && !CALM.matches,
    };
  }

  function render() {
    const start = performance.now();
    scheduled = 0;
    frame = compute();
    for (const id of shown) paint(id);
    Q.controls.show(frame);
    if (run) Q.time.show(run, passing !== null ? passing : state.epoch === null ? null : snapshot(), playing, engine.model.p);
    status();
    tour();
    const done = engine.settled;
    document.documentElement.dataset.settled = done;
    timings.push(performance.now() - start);
    if (timings.length > 1000) timings.shift();
    if (!done && !working) working = setTimeout(work, 0);
    clearTimeout(writing);
    if (!playing) writing = setTimeout(write, 150);
  }

  function paint(id) {
    if (playing && !inSight.has(id)) return;
    Q.views[id].draw(frame);
    // Nobody reads words that change with every picture.
    if (playing && timings.length % 8) return;
    at(`words-${id}`).textContent = Q.views[id].words(frame);
  }

  /** Sum the rest of the logits in slices, so that the page never stops answering. */
  function work() {
    working = 0;
    const done = engine.work(SLICE);
    if (done) return schedule();
    frame.verdict = engine.verdict();
    paint("grid");
    status();
    working = setTimeout(work, 0);
  }

  function schedule() {
    document.documentElement.dataset.settled = false;
    if (!scheduled) scheduled = requestAnimationFrame(render);
  }

  function status() {
    const { a, b, k, period } = state, { p } = engine.model, { total } = frame.split, right = engine.right(a, b);
    let best = right === 0 ? 1 : 0;
    for (let c = 0; c < p; c++) if (c !== right && total[c] > total[best]) best = c;
    const ok = total[right] > total[best], v = frame.verdict, base = claims && (frame.shape === "relu" ? claims.baseline / 2 : claims.baseline);
    const { task } = engine.model;
    at("status-answer").textContent = `${Q.task.sentence(task, a, b, ok ? right : best)} ${ok ? "✓" : "✗"}`;
    at("status-answer").className = ok ? "good" : "bad";
    at("status-margin").textContent = `${task.place}, ${ok ? "" : `right is ${Q.task.label(task, right)}, `}margin ${short(total[right] - total[best])}`;
    at("status-wrong").textContent = engine.settled ? `${count(v.wrong)} of ${count(p * p)}` : `counting… ${count(v.wrong)} of ${count(v.inputs)}`;
    at("status-wrong").className = v.wrong === 0 ? "good" : "bad";
    at("status-smallest").textContent = `smallest margin ${short(v.smallest)}`;
    const exact = claims && frame.shape in claims.exactPsi ? claims.exactPsi[frame.shape] : null, bound = Q.views.rectangles.boundOf(frame);
    at("status-exact").textContent = exact === null ? "–" : short(exact);
    at("status-relative").textContent = exact === null ? (rule || frame.shape === null ? "not for this activation" : "no rule at this frequency") : `relative ${percent(exact / base)}, k = ${k}`;
    at("status-bound").textContent = bound === null ? "–" : `≤ ${atMost(bound)}`;
    at("status-bound-relative").textContent = bound === null ? frame.shape === null ? "not for this activation" : "none for this part" : `relative ≤ ${percentAtMost(bound / base)}, ${period} period`;
    clearTimeout(spoken);
    if (!engine.settled) return;
    spoken = setTimeout(() => {
      at("spoken").textContent = `${name}: ${at("status-answer").textContent}. Wrong inputs: ${at("status-wrong").textContent}.${shown.includes("rectangles") ? ` Exact error ${at("status-exact").textContent}.` : ""}`;
    }, 700);
  }

  function tour() {
    const step = state.tour, box = at("tour");
    box.hidden = !step;
    at("tour-start").hidden = !!step || !tourFits();
    const views = step ? Q.tour.STEPS[step - 1].views : state.view ? [state.view] : [];
    for (const id of VIEWS) at(`view-${id}`).classList.toggle("spot", views.includes(id));
    if (!step) return;
    at("tour-title").textContent = `${step} of ${Q.state.STEPS}: ${Q.tour.STEPS[step - 1].title}`;
    at("tour-words").textContent = Q.tour.STEPS[step - 1].say(frame);
    at("tour-back").disabled = step === 1;
    at("tour-next").textContent = step === Q.state.STEPS ? "Finish" : "Next";
  }

  function goTo(step) {
    set(step >= 1 && step <= Q.state.STEPS ? Q.tour.stateOf(step, info()) : { ...Q.state.defaults(info()) });
    if (step >= 1 && step <= Q.state.STEPS) reveal(Q.tour.STEPS[step - 1].views[0]);
  }

  function leaveTour() {
    set({ tour: 0 });
    // The button is back in the next picture.
    requestAnimationFrame(() => at("tour-start").focus({ preventScroll: true }));
  }

  /** Scroll a view into sight, at once where the reader wants no motion. */
  function reveal(id) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    at(`view-${id}`).scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  }

  function write() {
    const fragment = Q.state.toFragment(state, info());
    if (fragment !== location.hash.slice(1)) history.replaceState(null, "", `#${fragment}`);
  }

  /** Change the state; `motion` names a drag or slider that is still moving. */
  function set(patch, motion) {
    if (playing && !("epoch" in patch)) [playing, passing] = [false, null];
    past.note(state, patch, motion);
    state = { ...state, ...patch };
    schedule();
  }

  function step(patch) {
    if (!patch) return;
    state = { ...state, ...patch };
    engine.restart();
    schedule();
  }

  const linkTo = (view) => {
    const fragment = Q.state.toFragment({ ...state, view: view || null }, info());
    return `${location.href.split("#")[0]}#${fragment}`;
  };

  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    schedule();
  }

  function hoverC(c) {
    if (c === pointedC) return;
    pointedC = c;
    schedule();
  }

  const choose = (i) => set({ n: i, k: info().clusterOf[i] >= 0 ? info().kIn[i] : state.k });
  // What follows reads the state, not the last frame: two keys may come before the next picture.
  const chosen = () => (state.n === null ? heaviestOf(state.k) : state.n);
  const answerOn = () => (state.c === null ? engine.right(state.a, state.b) : state.c);
  const dialled = (i) => (state.scope === "all" || info().kIn[i] === state.k ? state.jitter * engine.drawn.jitter[i] : 0);
  const phaseOf = (i) => info().phi[i] + dialled(i) + (state.moves[i] || 0);

  /** Put neuron i at the angle φ on the circle. */
  function move(i, angle) {
    const by = Q.state.rounded(Q.fourier.wrap(angle - info().phi[i] - dialled(i)));
    set({ moves: { ...state.moves, [i]: by } }, `move ${i}`);
  }

  const turn = (i, by) => move(i, phaseOf(i) + by);

  function amplify(i, factor) {
    const now = i in state.gains ? state.gains[i] : 1;
    set({ gains: { ...state.gains, [i]: Q.state.rounded(Math.min(10, now * factor)) } }, `amplify ${i}`);
  }

  const toggleOff = (i) => set({ off: state.off.includes(i) ? state.off.filter((j) => j !== i) : [...state.off, i] });

  /** Choose the next neuron around the circle in the chosen cluster. */
  function neighbour(step) {
    const cluster = info().clusters.find((one) => one.k === state.k);
    if (!cluster) return set({ n: (chosen() + step + info().d) % info().d });
    const phi = (i) => Q.quadrature.mod(phaseOf(i), 2 * Math.PI);
    const round = [...cluster.neurons].sort((i, j) => phi(i) - phi(j)), now = round.indexOf(chosen());
    return set({ n: round[(Math.max(0, now) + step + round.length) % round.length] });
  }

  /** After a drag: sum everything again, which clears what rounding many small updates left. */
  function settle() {
    past.close();
    engine.restart();
    schedule();
  }

  const api = {
    VIEWS, shown: () => shown, open, set, hover, hoverC, choose, move, turn, amplify, toggleOff, neighbour, settle, goTo, leaveTour, reveal, linkTo, read,
    colourOf, colourOfK, inkOf, redraw: schedule, schedule, info, timings, frame: () => frame, engine: () => engine, state: () => state, chosen, answerOn,
    name: () => name,
    run: () => run, attach, play, goToSnapshot, snapshot, playing: () => playing,
    reset: () => set({ ...Q.state.defaults(info()), tour: state.tour, epoch: state.epoch }),
    undo: () => step(past.undo()),
    redo: () => step(past.redo()),
    closeStep: () => past.close(),
    steps: () => ({ done: past.done.length, undone: past.undone.length }),
  };
  return api;
})();
