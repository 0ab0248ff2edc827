// What each neuron reads and writes, and the clusters I_k: neurons whose input and output frequency are both k.
Q.clusters = (() => {
  const F = Q.fourier;
  // As in Python: a neuron this faint beside the largest has no phase; a key holds this share of Σ ρω.
  const CONSTANT_SHARE = 1e-9, KEY_SHARE = 0.01, SAME_PHASES = 0.9, COMMON_SHIFT = 0.5;

  /** Index of the largest; of entries that are equal up to rounding, the first. */
  function firstLargest(sizes) {
    const most = sizes.reduce((x, y) => Math.max(x, y), -Infinity);
    return sizes.findIndex((x) => x >= most * (1 - 1e-6));
  }

  /** The same angle in (-π, π], -π itself and what rounding makes of it taken as π: half of it must not jump. */
  const upper = (angle) => (angle < -Math.PI + 1e-9 ? angle + F.TURN : angle);

  /** What neurons read: the mean of both paths, or, where a and b have phases of their own, half the sum of amplitudes and phases. */
  function read(a, b) {
    const mid = (x, y) => x.map((value, j) => (value + y[j]) / 2);
    // The transform is linear, so the spectrum of (U_a + U_b)/2 is the mean of the two.
    const mean = { n: a.n, p: a.p, half: a.half, mean: mid(a.mean, b.mean), re: mid(a.re, b.re), im: mid(a.im, b.im), shift: null };
    const size = (s) => s.re.map((x, j) => F.length(x, s.im[j]));
    const [ofA, ofB] = [size(a), size(b)], halves = mid(ofA, ofB);
    const large = (i, j) => halves[i * a.half + j] * (2 * (j + 1) === a.p ? Math.SQRT2 : 1);
    let kept = 0, whole = 0;
    for (let i = 0; i < a.n; i++) {
      let k = 0;
      for (let j = 1; j < a.half; j++) if (large(i, j) > large(i, k)) k = j;
      whole += halves[i * a.half + k] ** 2;
      kept += mean.re[i * a.half + k] ** 2 + mean.im[i * a.half + k] ** 2;
    }
    if (kept >= SAME_PHASES * whole) return mean;
    mean.shift = new Float64Array(a.n * a.half);
    for (let k = 0; k < a.half; k++) {
      // Of the two half sums, which differ by π, the one closer to what the neurons have in common.
      let re = 0, im = 0;
      for (let i = 0; i < a.n; i++) {
        const at = i * a.half + k;
        re += a.re[at] * b.re[at] + a.im[at] * b.im[at];
        im += a.im[at] * b.re[at] - a.re[at] * b.im[at];
      }
      const common = upper(Math.atan2(im, re)) / 2;
      for (let i = 0; i < a.n; i++) {
        const at = i * a.half + k, phase = Math.atan2(a.im[at], a.re[at]);
        const shift = common + upper(F.wrap(phase - Math.atan2(b.im[at], b.re[at]) - 2 * common)) / 2;
        mean.shift[at] = shift;
        mean.re[at] = halves[at] * Math.cos(phase - shift);
        mean.im[at] = halves[at] * Math.sin(phase - shift);
      }
    }
    return mean;
  }

  /** δ_k, which turns cos u into cos(u + δ): what the neurons' shifts, angles modulo π, have in common; 0 where nothing. */
  function commonShift({ shift, half }, k, neurons, rho, omega) {
    if (!shift) return 0;
    let re = 0, im = 0, all = 0;
    for (const i of neurons) {
      const weight = rho[i] * omega[i], twice = 2 * shift[i * half + k - 1];
      re += weight * Math.cos(twice);
      im += weight * Math.sin(twice);
      all += weight;
    }
    return all > 0 && Math.hypot(re, im) >= COMMON_SHIFT * all ? Math.atan2(im, re) / 2 : 0;
  }

  /** What there is to say of neurons without frequencies: attention that depends on the tokens, or a task that no renaming makes addition. */
  function withoutWaves({ p, d }) {
    const none = () => new Float64Array(d);
    return {
      p, d, waves: false, kIn: new Int32Array(d), kOut: new Int32Array(d), rho: none(), phi: none(), omega: none(), psi: none(),
      clusters: [], clusterOf: new Int32Array(d).fill(-1), keys: [], largest: null, multiples: new Map(),
    };
  }

  /** Frequencies and phases are those of the elements renamed so that the task is addition; `spectra` of the model where they are known. */
  function analyse(model, spectra) {
    const { p, d, task, gated } = model;
    if (gated.length || !task.cyclic) return withoutWaves(model);
    const table = F.tables(p), { ofA, ofB, ofC } = task.cyclic;
    const { pathA, pathB, output } = spectra || {
      pathA: F.spectrum(model.Ua, d, p, table, ofA), pathB: F.spectrum(model.Ub, d, p, table, ofB), output: F.spectrum(model.WL, d, p, table, ofC),
    };
    const input = read(pathA, pathB);
    const kIn = new Int32Array(d), kOut = new Int32Array(d);
    const rho = new Float64Array(d), phi = new Float64Array(d), omega = new Float64Array(d), psi = new Float64Array(d);
    const reads = new Float64Array(d), writes = new Float64Array(d);
    for (let i = 0; i < d; i++) {
      kIn[i] = F.primary(input, i);
      kOut[i] = F.primary(output, i);
      rho[i] = F.amplitude(input, i, kIn[i]);
      phi[i] = F.phase(input, i, kIn[i]);
      omega[i] = F.amplitude(output, i, kIn[i]);
      psi[i] = F.phase(output, i, kIn[i]);
      reads[i] = F.largestAmplitude(input, i);
      writes[i] = F.largestAmplitude(output, i);
    }
    const faint = (x) => {
      const floor = CONSTANT_SHARE * x.reduce((m, y) => Math.max(m, y), 0);
      return x.map((value) => (value <= floor ? 1 : 0));
    };
    const deadIn = faint(reads), deadOut = faint(writes);
    const byK = new Map();
    for (let i = 0; i < d; i++) {
      if (deadIn[i] || deadOut[i] || kIn[i] !== kOut[i]) continue;
      if (!byK.has(kIn[i])) byK.set(kIn[i], []);
      byK.get(kIn[i]).push(i);
    }
    const clusters = [...byK.keys()].sort((x, y) => x - y).map((k) => ({ k, neurons: byK.get(k), shift: commonShift(input, k, byK.get(k), rho, omega) }));
    const clusterOf = new Int32Array(d).fill(-1);
    clusters.forEach((cluster, index) => cluster.neurons.forEach((i) => (clusterOf[i] = index)));
    const sizes = clusters.map((cluster) => cluster.neurons.reduce((sum, i) => sum + rho[i] * omega[i], 0));
    const all = sizes.reduce((x, y) => x + y, 0);
    const keys = clusters.filter((_, j) => sizes[j] >= KEY_SHARE * all).map((cluster) => cluster.k);
    const largest = sizes.length ? clusters[firstLargest(sizes)].k : null;
    const multiples = new Map();
    for (const k of new Set(kIn)) multiples.set(k, F.multiples(k, p));
    return { p, d, waves: true, table, pathA, pathB, output, kIn, kOut, rho, phi, omega, psi, clusters, clusterOf, keys, largest, multiples };
  }

  return { analyse, firstLargest };
})();
