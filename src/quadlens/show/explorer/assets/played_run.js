// The run that made the page's model: its collapsed weights at some snapshots, rounded, and what `quadlens history` says of
// every snapshot. The format is that of quadlens.training.played_run.
Q.playedRun = (() => {
  const ARRAYS = 6;

  /** The bytes that zlib packed into base64 text. */
  async function inflate(text) {
    const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** cos and sin of every frequency at every token, scaled so that the stored numbers are orthonormal: row by token. */
  function basis(p) {
    const half = Math.floor(p / 2), sines = Math.floor((p - 1) / 2), rows = new Float64Array(p * p);
    const { cos, sin } = Q.fourier.tables(p);
    for (let t = 0; t < p; t++) {
      rows[t] = 1 / Math.sqrt(p);
      for (let k = 1; k <= half; k++) rows[k * p + t] = (2 * k === p ? 1 / Math.sqrt(p) : Math.sqrt(2 / p)) * cos[(k * t) % p];
      // The stored sine is the imaginary part of Σ x e^{-ikwt}.
      for (let k = 1; k <= sines; k++) rows[(half + k) * p + t] = -Math.sqrt(2 / p) * sin[(k * t) % p];
    }
    return rows;
  }

  class Run {
    /** @param home the page's own model, whose task, shape and activation every snapshot has. */
    constructor(bytes, home) {
      const view = new DataView(bytes.buffer), length = view.getUint32(0, true);
      const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))), { p, d_mlp: d } = header;
      this.home = home;
      this.rows = header.history.snapshots;
      this.epochs = header.weights.map(({ epoch }) => epoch);
      this.basis = basis(p);
      this.models = [];
      let at = 8 + length, before = null;
      this.stored = header.weights.map(({ steps }) => {
        before = Array.from({ length: ARRAYS }, (_, j) => {
          const n = j < 3 ? p * d : p * p, out = new Float32Array(n), was = before && before[j];
          for (let i = 0; i < n; i++) out[i] = (was ? was[i] : 0) + steps[j] * (((bytes[at + i] | (bytes[at + n + i] << 8)) << 16) >> 16);
          at += 2 * n;
          return out;
        });
        return before;
      });
    }

    /** What `quadlens history` says of the snapshot at or before place t. */
    rowAt(t) {
      const epoch = this.epochs[Math.floor(t)];
      return this.rows.find((row) => row.epoch === epoch);
    }

    /** The model of snapshot j with its spectra, neuron-major, elements as the page numbers them. */
    model(j) {
      if (!this.models[j]) this.models[j] = this.unpack(this.stored[j]);
      return this.models[j];
    }

    unpack([mean, difference, written, Sa, Sb, margin]) {
      const { p, d, activation, attention, task } = this.home, { ofA, ofB, ofC } = task.cyclic, half = Math.floor(p / 2);
      const a = mean.map((x, j) => x - difference[j]), b = mean.map((x, j) => x + difference[j]);
      const tokens = (rows, of) => {
        const places = new Float64Array(d * p), out = new Float32Array(d * p);
        for (let r = 0; r < p; r++)
          for (let i = 0; i < d; i++) {
            const x = rows[r * d + i];
            if (x === 0) continue;
            for (let t = 0; t < p; t++) places[i * p + t] += x * this.basis[r * p + t];
          }
        for (let i = 0; i < d; i++) for (let t = 0; t < p; t++) out[i * p + t] = places[i * p + of[t]];
        return out;
      };
      const spectrum = (rows) => {
        const re = new Float32Array(d * half), im = new Float32Array(d * half);
        for (let k = 1; k <= half; k++)
          for (let i = 0; i < d; i++) {
            re[i * half + k - 1] = rows[k * d + i] * this.basis[k * p];
            im[i * half + k - 1] = half + k < p ? rows[(half + k) * d + i] * Math.sqrt(2 / p) : 0;
          }
        return { n: d, p, half, mean: rows.slice(0, d).map((x) => x / Math.sqrt(p)), re, im };
      };
      const square = (x, rows, columns) => Float32Array.from({ length: p * p }, (_, at) => x[rows[Math.floor(at / p)] * p + columns[at % p]]);
      return {
        p, d, activation, attention, task, gated: [],
        Ua: tokens(a, ofA), Ub: tokens(b, ofB), WL: tokens(written, ofC), Sa: square(Sa, ofA, ofC), Sb: square(Sb, ofB, ofC),
        spectra: { pathA: spectrum(a), pathB: spectrum(b), output: spectrum(written) }, margin: square(margin, ofA, ofB),
      };
    }

    /** The model at place t: a snapshot, or on the straight line from one to the next. */
    at(t) {
      const j = Math.floor(t), f = t - j, from = this.model(j);
      if (f === 0) return from;
      const to = this.model(j + 1);
      const mix = (x, y) => {
        const out = new Float64Array(x.length);
        for (let i = 0; i < out.length; i++) out[i] = x[i] + f * (y[i] - x[i]);
        return out;
      };
      const wave = (x, y) => ({ ...x, mean: mix(x.mean, y.mean), re: mix(x.re, y.re), im: mix(x.im, y.im) });
      const found = { ...from, spectra: {} };
      for (const key of ["Ua", "Ub", "WL", "Sa", "Sb", "margin"]) found[key] = mix(from[key], to[key]);
      for (const key of ["pathA", "pathB", "output"]) found.spectra[key] = wave(from.spectra[key], to.spectra[key]);
      return found;
    }
  }

  const load = async (text, home) => new Run(await inflate(text), home);

  return { load };
})();
