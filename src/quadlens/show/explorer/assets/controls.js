// Inputs of the page ↔ the state; files dropped or opened; links and downloads.
Q.controls = (() => {
  const at = (id) => document.getElementById(id);
  const RANGES = ["a", "b", "c", "jitter", "drop", "arc", "uneven"];
  const RADIOS = ["part", "period", "keep", "show", "scope"];

  /** Limits and lists that depend on the model. */
  function fit(engine) {
    const { p, d, activation } = engine.model, { clusters } = engine.info;
    for (const key of ["a", "b", "c"]) at(`in-${key}`).max = p - 1;
    at("in-n").max = d - 1;
    const wanted = clusters.length ? clusters.map(({ k }) => `${k}`) : [""];
    if (JSON.stringify(wanted) !== JSON.stringify(Array.from(at("in-k").options, ({ value }) => value)))
      at("in-k").replaceChildren(...wanted.map((k) => {
        const option = document.createElement("option");
        option.value = k;
        return option;
      }));
    if (!clusters.length) at("in-k").options[0].textContent = "no cluster";
    at("part-choice").hidden = !Q.activations.hasOddPart(activation);
    const { name, even, odd } = Q.words[activation];
    for (const [part, words] of [["relu", name], ["abs", even], ["identity", odd]]) at(`part-${part}-label`).textContent = words;
  }

  function put(input, value) {
    if (document.activeElement !== input || input.type !== "number") if (input.value !== String(value)) input.value = value;
  }

  /** How many neurons each frequency has in use, of those that read and write it. */
  function countNeurons(engine) {
    const { clusters, keys } = engine.info;
    clusters.forEach((cluster, j) => {
      const all = cluster.neurons.length, used = engine.used(cluster).length;
      const words = `${cluster.k} (${used === all ? "" : `${used} of `}${all} neuron${all === 1 ? "" : "s"}${keys.includes(cluster.k) ? "" : ", faint"})`;
      const option = at("in-k").options[j];
      if (option.textContent !== words) option.textContent = words;
    });
  }

  /** Controls follow the state. */
  function show(f) {
    const { state, engine } = f, { info } = engine, i = f.chosen;
    for (const key of RANGES) {
      const value = key === "c" ? f.c : state[key];
      put(at(`in-${key}`), value);
      const words = key.length === 1 ? Q.task.label(engine.model.task, value) : key === "drop" || key === "arc" ? `${Math.round(100 * value)} %` : key === "jitter" ? `${value} rad` : value;
      at(`out-${key}`).textContent = words;
      at(`in-${key}`).setAttribute("aria-valuetext", words);
    }
    for (const key of RADIOS) {
      const input = document.querySelector(`input[name=${key}][value=${state[key]}]`);
      if (!input.checked) input.checked = true;
    }
    at("in-follow").checked = state.c === null;
    at("in-carry").checked = state.carry;
    put(at("in-k"), state.k === null ? "" : state.k);
    put(at("in-n"), i);
    const phi = Q.fourier.wrap(info.phi[i] + engine.delta[i]), gain = i in state.gains ? state.gains[i] : 1;
    put(at("in-phi"), phi.toFixed(2));
    at("out-phi").textContent = Q.numbers.inPi(phi);
    put(at("in-gain"), gain);
    at("out-gain").textContent = `× ${Q.numbers.short(gain)}`;
    // A dial may have dropped it; then the dial, not the box, brings it back.
    const byDial = !engine.inUse(i) && !state.off.includes(i) && gain !== 0;
    at("in-off").checked = byDial || state.off.includes(i);
    at("in-off").disabled = byDial;
    at("off-label").textContent = byDial ? "dropped by a dial" : "dropped";
    countNeurons(engine);
    const { done, undone } = f.app.steps();
    at("undo").disabled = !done;
    at("redo").disabled = !undone;
    at("reset").disabled = Q.state.toFragment({ ...state, tour: 0, epoch: null }, info) === "";
  }

  function bind(app) {
    at("panel").addEventListener("submit", (event) => event.preventDefault());
    // On a phone the views come first; the controls wait behind their heading.
    if (matchMedia("(max-width: 820px)").matches) at("controls").open = false;
    for (const key of RANGES)
      at(`in-${key}`).addEventListener("input", (event) => app.set({ [key]: Number(event.target.value) }, key));
    for (const key of RADIOS)
      document.querySelectorAll(`input[name=${key}]`).forEach((input) => input.addEventListener("change", () => app.set({ [key]: input.value })));
    at("in-follow").addEventListener("change", (event) => app.set({ c: event.target.checked ? null : app.answerOn() }));
    at("in-carry").addEventListener("change", (event) => app.set({ carry: event.target.checked }));
    at("in-k").addEventListener("change", (event) => app.set({ k: Number(event.target.value), n: null }));
    at("in-n").addEventListener("input", (event) => {
      const n = Number(event.target.value);
      if (event.target.value !== "" && Number.isInteger(n) && n >= 0 && n < app.info().d) app.choose(n);
    });
    at("in-phi").addEventListener("input", (event) => app.move(app.chosen(), Number(event.target.value)));
    at("in-phi").addEventListener("change", () => app.settle());
    at("in-gain").addEventListener("input", (event) => app.set({ gains: { ...app.state().gains, [app.chosen()]: Number(event.target.value) } }, `gain ${app.chosen()}`));
    // A slider that is let go ends its step.
    at("panel").addEventListener("change", () => app.closeStep());
    at("in-off").addEventListener("change", () => app.toggleOff(app.chosen()));
    at("redraw-seed").addEventListener("click", () => app.set({ seed: app.state().seed + 1 }));
    at("reset").addEventListener("click", () => app.reset());
    at("copy-link").addEventListener("click", () => copy(app.linkTo(null)));
    at("tour-start").addEventListener("click", () => {
      app.goTo(1);
      requestAnimationFrame(() => at("tour-next").focus({ preventScroll: true }));
    });
    at("tour-next").addEventListener("click", () => app.goTo(app.state().tour + 1));
    at("tour-back").addEventListener("click", () => app.goTo(app.state().tour - 1));
    at("tour-leave").addEventListener("click", () => app.leaveTour());
    at("undo").addEventListener("click", () => app.undo());
    at("redo").addEventListener("click", () => app.redo());
    at("play").addEventListener("click", () => app.play());
    at("in-time").addEventListener("input", (event) => app.goToSnapshot(Number(event.target.value), true));
    at("in-time").addEventListener("change", (event) => app.goToSnapshot(Number(event.target.value)));
    addEventListener("keydown", (event) => shortcut(app, event) || timeKey(app, event));
    for (const id of app.VIEWS) {
      at(`link-${id}`).addEventListener("click", () => copy(app.linkTo(id)));
      at(`data-${id}`).addEventListener("click", () => download(`${id}.csv`, Q.views[id].data(app.frame())));
    }
    bindFiles(app);
    addEventListener("hashchange", () => {
      // A jump inside the page (the skip link) is no state.
      if (location.hash && !location.hash.includes("=")) return;
      app.set(app.read(location.hash));
      if (app.state().view && app.shown().includes(app.state().view)) app.reveal(app.state().view);
    });
    const again = () => {
      Q.draw.forget();
      app.schedule();
    };
    addEventListener("resize", again);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  }

  /** Esc leaves the tour; Ctrl+Z, Ctrl+Shift+Z and Ctrl+Y (⌘ on a Mac) undo and redo, except in a field with text of its own. */
  function shortcut(app, event) {
    const key = event.key.toLowerCase();
    if (key === "escape" && app.state().tour) return app.leaveTour();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.type === "number" || !["z", "y"].includes(key)) return undefined;
    event.preventDefault();
    return key === "y" || event.shiftKey ? app.redo() : app.undo();
  }

  /** Space plays the run, where no control wants it; in its panel arrows step, Home and End go to the ends. */
  function timeKey(app, event) {
    const inPanel = at("time").contains(event.target), slider = event.target === at("in-time");
    if (!app.run() || event.ctrlKey || event.metaKey || event.altKey || !(inPanel || event.target === document.body)) return;
    const steps = { ArrowLeft: app.snapshot() - 1, ArrowRight: app.snapshot() + 1, Home: 0, End: Infinity };
    if (event.key === " " && event.target !== at("play")) app.play();
    else if (inPanel && !slider && event.key in steps) app.goToSnapshot(steps[event.key]);
    else return;
    event.preventDefault();
  }

  function bindFiles(app) {
    at("open-file").addEventListener("change", (event) => {
      if (event.target.files.length) openFile(app, event.target.files[0]);
      event.target.value = "";
    });
    addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      const [file] = event.dataTransfer.files;
      if (file) openFile(app, file);
      else say("Nothing to open: drop a model file (.safetensors) that quadlens wrote.", true);
    });
  }

  // A larger file can hold no model that the page takes.
  const LARGEST_FILE = 2 ** 28;
  let latest = null;

  /** A file from the reader's disk: read here, sent nowhere. Of several at once the last counts. */
  async function openFile(app, file) {
    latest = file;
    try {
      if (file.size > LARGEST_FILE) throw new Q.safetensors.BadFile(`It has ${Q.numbers.count(file.size)} bytes; this page takes at most ${Q.numbers.count(LARGEST_FILE)}.`);
      const bytes = new Uint8Array(await file.arrayBuffer());
      if (latest !== file) return;
      app.open(bytes, file.name, "");
      say(`Opened ${file.name}. It was read on this computer only; links lead to the page's own model.`, false);
    } catch (error) {
      const reason = error instanceof Q.safetensors.BadFile ? error.message : `The browser could not read it (${error.message}).`;
      say(`${file.name} cannot be opened. ${reason} The page still shows ${app.name()}.`, true);
    }
  }

  function say(words, bad) {
    const box = at("message");
    box.textContent = words;
    box.className = bad ? "bad" : "good";
    box.hidden = false;
  }

  /** Clipboard where the browser allows it; else the old way; else the link to copy by hand. */
  async function copy(link) {
    try {
      await navigator.clipboard.writeText(link);
    } catch {
      const area = document.createElement("textarea");
      area.value = link;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) return say(`Copy this link: ${link}`, false);
    }
    return say(`Link copied: ${link}`, false);
  }

  function download(name, text) {
    const link = document.createElement("a"), url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.href = url;
    link.download = `quadlens-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  return { fit, show, bind, say, openFile };
})();
