// Real sequences over Z_p as sums of waves: x[t] = mean + Σ_k A_k cos(k w t + θ_k), w = 2π/p.
Q.fourier = (() => {
  const TURN = 2 * Math.PI;

  /** cos and sin of 2πt/p for t = 0 … p-1. */
  function tables(p) {
    const cos = new Float64Array(p), sin = new Float64Array(p);
    for (let t = 0; t < p; t++) {
      cos[t] = Math.cos((TURN * t) / p);
      sin[t] = Math.sin((TURN * t) / p);
    }
    return { cos, sin };
  }

  /** Coefficients A e^{iθ} of n sequences of length p; row i holds k = 1 … half at i·half + k - 1. For even p the last is the
   *  sign wave (-1)^t, which has a sign and no phase. `of[t]` is the place of entry t in the sequence. */
  function spectrum(x, n, p, table, of) {
    const half = Math.floor(p / 2);
    const mean = new Float64Array(n), re = new Float64Array(n * half), im = new Float64Array(n * half);
    const { cos, sin } = table;
    for (let i = 0; i < n; i++) {
      let sum = 0;
      for (let t = 0; t < p; t++) sum += x[i * p + t];
      mean[i] = sum / p;
      for (let k = 1; k <= half; k++) {
        let real = 0, imaginary = 0;
        for (let t = 0; t < p; t++) {
          const turn = (k * of[t]) % p;
          real += x[i * p + t] * cos[turn];
          imaginary -= x[i * p + t] * sin[turn];
        }
        re[i * half + k - 1] = (real * (2 * k === p ? 1 : 2)) / p;
        im[i * half + k - 1] = 2 * k === p ? 0 : (imaginary * 2) / p;
      }
    }
    return { n, p, half, mean, re, im };
  }

  /** √(x² + y²); Math.hypot, which is ten times as slow, where squares could leave the range of numbers. */
  function length(x, y) {
    const square = x * x + y * y;
    return square > 1e-250 && square < 1e250 ? Math.sqrt(square) : Math.hypot(x, y);
  }

  const amplitude = (s, i, k) => length(s.re[i * s.half + k - 1], s.im[i * s.half + k - 1]);
  /** √2 times the root mean square of a wave: its amplitude, but √2 times that of a sign wave. */
  const size = (s, i, k) => amplitude(s, i, k) * (2 * k === s.p ? Math.SQRT2 : 1);
  const phase = (s, i, k) => Math.atan2(s.im[i * s.half + k - 1], s.re[i * s.half + k - 1]);

  /** The frequency of the largest wave, the first of equals. */
  function primary(s, i) {
    let best = 1, most = -1;
    for (let k = 1; k <= s.half; k++) {
      const mine = size(s, i, k);
      if (mine > most) [best, most] = [k, mine];
    }
    return best;
  }

  function largestAmplitude(s, i) {
    let most = 0;
    for (let k = 1; k <= s.half; k++) most = Math.max(most, amplitude(s, i, k));
    return most;
  }

  /** k folded to 1 … ⌊p/2⌋ (0 for a multiple of p). */
  function fold(k, p) {
    const r = ((k % p) + p) % p;
    return Math.min(r, p - r);
  }

  /** For each frequency j the smallest m ≥ 1 with m·k ≡ ±j (mod p), negative where the sign is minus, 0 if none. */
  function multiples(k, p) {
    const half = Math.floor(p / 2);
    const table = new Int32Array(half + 1);
    for (let m = half; m >= 1; m--) {
      const r = (m * k) % p;
      if (r) table[Math.min(r, p - r)] = r > half ? -m : m;
    }
    return table;
  }

  /**
   * Neuron i's wave with frequency j turned by rate·m_j·delta and only some frequencies kept, written to out[at …], the
   * element whose place in the wave is of[t] at t.
   * keep: "primary" (own), "secondary" (own and its double) or "all" (everything, with the constant term).
   */
  function turned(s, i, own, keep, m, angle, table, of, out, at, gain) {
    const { p, half } = s;
    const { cos, sin } = table;
    const second = fold(2 * own, p);
    out.fill(keep === "all" ? gain * s.mean[i] : 0, at, at + p);
    for (let j = 1; j <= half; j++) {
      if (keep !== "all" && j !== own && !(keep === "secondary" && j === second)) continue;
      const x = s.re[i * half + j - 1], y = s.im[i * half + j - 1];
      const c = gain * Math.cos(m[j] * angle), d = gain * Math.sin(m[j] * angle);
      const re = x * c - y * d, im = x * d + y * c;
      for (let t = 0; t < p; t++) {
        const turn = (j * of[t]) % p;
        out[at + t] += re * cos[turn] - im * sin[turn];
      }
    }
  }

  const wrap = (x) => x - TURN * Math.round(x / TURN);

  return { TURN, length, tables, spectrum, amplitude, size, phase, primary, largestAmplitude, fold, multiples, turned, wrap };
})();
