// The panel of the run: play, scrub, and the curves of what was known when.
Q.time = (() => {
  const D = Q.draw, { short, count, percent } = Q.numbers, at = (id) => document.getElementById(id);
  // Shares of 1, drawn from 0 to 100 %; the loss has its own scale, logarithmic, on the same height.
  const CURVES = [
    ["held-out loss (log)", "bound", null],
    ["right", "accent", (row) => row.accuracy],
    ["neurons at key frequencies", "output", (row) => row.clustered],
    ["lens R²", "identity", (row) => row.lens_r2],
    ["proved", "good", (row) => row.certified_share],
  ];
  let canvas, place = null;

  /** For a run, or hidden where there is none. */
  function build(run, app) {
    at("time").hidden = !run;
    if (!run) return;
    at("in-time").max = run.epochs.length;
    canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-labelledby", "time-title");
    canvas.setAttribute("aria-describedby", "words-time");
    at("time-chart").replaceChildren(canvas);
    canvas.addEventListener("click", (event) => {
      if (!place) return;
      const x = (event.clientX - canvas.getBoundingClientRect().left - place.left) / place.width, wanted = x * place.last;
      const far = (epoch) => Math.abs(Math.log1p(epoch) - wanted);
      app.goToSnapshot(run.epochs.reduce((best, epoch, j) => (far(epoch) < far(run.epochs[best]) ? j : best), 0));
    });
  }

  /** t: place in the run, null at the page's own model. */
  function show(run, t, playing, p) {
    const own = t === null, row = own ? null : run.rowAt(t), last = run.rows[run.rows.length - 1].epoch;
    const slider = at("in-time"), value = own ? run.epochs.length : Math.floor(t);
    if (Number(slider.value) !== value) slider.value = value;
    const words = own ? "the model itself" : `epoch ${count(row.epoch)} of ${count(last)}`;
    if (at("out-time").textContent !== words) {
      at("out-time").textContent = words;
      slider.setAttribute("aria-valuetext", words);
      at("words-time").textContent = own ? ownWords(run, p) : rowWords(row, p);
    }
    const label = playing ? "❚❚ Pause" : "▶ Play";
    if (at("play").textContent !== label) at("play").textContent = label;
    at("play").setAttribute("aria-pressed", playing);
    chart(run, own ? last : run.epochs[Math.floor(t)] + (t % 1) * ((run.epochs[Math.floor(t) + 1] || 0) - run.epochs[Math.floor(t)]), p);
  }

  const proofWords = (row, p) =>
    row.certified_share === null ? "" : ` A short proof covers ${count(Math.round(row.certified_share * p * p))} of ${count(p * p)} inputs${row.rank === null ? "" : ` (rank ${row.rank}, ${percent(row.cost_share)} of brute force)`}.`;

  function rowWords(row, p) {
    const held = row.test_loss === null ? "" : `, held-out loss ${short(row.test_loss)}`;
    const lens = row.lens_r2 === null ? "there is no integral to speak of" : `the shared integral is ${percent(Math.max(0, row.lens_r2))} of the logits`;
    return `Loss ${short(row.train_loss)}${held}; ${percent(row.accuracy)} of all inputs right, ${percent(row.clustered || 0)} of the neurons read and write a key frequency, ${lens}.${proofWords(row, p)}`;
  }

  const ownWords = (run, p) => `Weights as they are in the file. Of the run's last snapshot: ${rowWords(run.rows[run.rows.length - 1], p)}`;

  /** The curves' names, in as many lines as they need; how many. */
  function legend(g, left, width) {
    let x = left, line = 0;
    for (const [words, name] of CURVES) {
      const long = 22 + g.measureText(words).width;
      if (x > left && x + long > width) [x, line] = [left, line + 1];
      g.fillStyle = D.colour(name);
      g.fillRect(x, 5 + 14 * line, 9, 3);
      D.text(g, words, x + 12, 11 + 14 * line, "left");
      x += long;
    }
    return line + 1;
  }

  function chart(run, epoch, p) {
    const { g, width, height } = D.open(canvas), left = 40, right = 8, bottom = 16;
    const top = 6 + 14 * legend(g, left, width);
    const w = width - left - right, h = height - top - bottom, last = Math.log1p(run.rows[run.rows.length - 1].epoch);
    place = { left, width: w, last };
    const X = (e) => left + (Math.log1p(e) / last) * w, Y = (share) => top + (1 - share) * h;
    for (const share of [0, 0.5, 1]) {
      D.line(g, left, Y(share), left + w, Y(share), D.colour("line"));
      D.text(g, `${100 * share} %`, left - 4, Y(share) + 4, "right");
    }
    for (const e of [0, 10, 100, 1000, 10000, 100000].filter((x) => Math.log1p(x) <= last * 1.001))
      D.text(g, e ? count(e) : "epoch 0", X(e), height - 3, e === 0 ? "left" : X(e) > left + w - 20 ? "right" : "center");
    const losses = run.rows.map((row) => Math.log(Math.max(1e-12, row.test_loss === null ? row.train_loss : row.test_loss)));
    const most = Math.max(...losses), least = Math.min(...losses);
    CURVES.forEach(([, name, of]) => {
      g.strokeStyle = D.colour(name);
      g.lineWidth = 1.8;
      g.beginPath();
      run.rows.forEach((row, j) => {
        const share = of ? of(row) : (losses[j] - least) / (most - least || 1);
        if (share !== null) g.lineTo(X(row.epoch), Y(Math.max(0, share)));
      });
      g.stroke();
    });
    D.line(g, X(epoch), top - 4, X(epoch), top + h, D.colour("fg"));
  }

  return { build, show };
})();
