// SHA-256, so that a damaged file is noticed even where the browser offers no crypto (some treat file:// that way).
Q.sha256 = (() => {
  const K = new Uint32Array(64);
  const START = new Uint32Array(8);

  // The constants are the fractional bits of cube and square roots of the first primes.
  (function fill() {
    let found = 0;
    for (let n = 2; found < 64; n++) {
      let prime = true;
      for (let m = 2; m * m <= n; m++) if (n % m === 0) prime = false;
      if (!prime) continue;
      K[found] = fraction(Math.cbrt(n));
      if (found < 8) START[found] = fraction(Math.sqrt(n));
      found++;
    }
  })();

  function fraction(x) {
    return Math.floor((x - Math.floor(x)) * 2 ** 32) >>> 0;
  }

  const turn = (x, n) => (x >>> n) | (x << (32 - n));

  /** Hexadecimal digest of a Uint8Array. */
  function hex(bytes) {
    const padded = new Uint8Array(((bytes.length + 8) >> 6 << 6) + 64);
    padded.set(bytes);
    padded[bytes.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
    view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
    const state = START.slice();
    const w = new Uint32Array(64);
    for (let at = 0; at < padded.length; at += 64) block(view, at, state, w);
    return Array.from(state, (x) => x.toString(16).padStart(8, "0")).join("");
  }

  function block(view, at, state, w) {
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(at + 4 * t);
    for (let t = 16; t < 64; t++) {
      const x = w[t - 15], y = w[t - 2];
      w[t] = w[t - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[t - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((x, j) => (state[j] += x));
  }

  return { hex };
})();
