// What each neuron reads and writes, and the clusters I_k: neurons whose input and output frequency are both k.
Q.clusters = (() => {
  const F = Q.fourier;
  // As in Python: a neuron this faint beside the largest has no phase; a key holds this share of Σ ρω.
  const CONSTANT_SHARE = 1e-9, KEY_SHARE = 0.01;

  /** Index of the largest; of entries that are equal up to rounding, the first. */
  function firstLargest(sizes) {
    const most = sizes.reduce((x, y) => Math.max(x, y), -Infinity);
    return sizes.findIndex((x) => x >= most * (1 - 1e-6));
  }

  function analyse(model) {
    const { p, d } = model;
    const table = F.tables(p);
    const pathA = F.spectrum(model.Ua, d, p, table), pathB = F.spectrum(model.Ub, d, p, table);
    const output = F.spectrum(model.WL, d, p, table);
    // The transform is linear, so the spectrum of (U_a + U_b)/2 is the mean of the two.
    const mid = (x, y) => x.map((value, j) => (value + y[j]) / 2);
    const input = { n: d, p, half: pathA.half, mean: mid(pathA.mean, pathB.mean), re: mid(pathA.re, pathB.re), im: mid(pathA.im, pathB.im) };
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
      reads[i] = rho[i];
      writes[i] = F.amplitude(output, i, kOut[i]);
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
    const clusters = [...byK.keys()].sort((x, y) => x - y).map((k) => ({ k, neurons: byK.get(k) }));
    const clusterOf = new Int32Array(d).fill(-1);
    clusters.forEach((cluster, index) => cluster.neurons.forEach((i) => (clusterOf[i] = index)));
    const sizes = clusters.map((cluster) => cluster.neurons.reduce((sum, i) => sum + rho[i] * omega[i], 0));
    const all = sizes.reduce((x, y) => x + y, 0);
    const keys = clusters.filter((_, j) => sizes[j] >= KEY_SHARE * all).map((cluster) => cluster.k);
    const largest = sizes.length ? clusters[firstLargest(sizes)].k : null;
    const multiples = new Map();
    for (const k of new Set(kIn)) multiples.set(k, F.multiples(k, p));
    return { p, d, table, pathA, pathB, output, kIn, kOut, rho, phi, omega, psi, clusters, clusterOf, keys, largest, multiples };
  }

  return { analyse, firstLargest };
})();
