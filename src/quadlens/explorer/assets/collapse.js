// The collapsed model: logit(a,b,c) = Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c], in float64.
// Neuron-major: the wave of neuron i over its tokens is x[i·p … i·p + p - 1].
Q.collapse = (() => {
  /** x (n × m) times y (m × q), both row-major. */
  function product(x, y, n, m, q) {
    const out = new Float64Array(n * q);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++) {
        const factor = x[i * m + j];
        if (factor === 0) continue;
        for (let l = 0; l < q; l++) out[i * q + l] += factor * y[j * q + l];
      }
    return out;
  }

  function transposed(x, rows, columns) {
    const out = new Float64Array(x.length);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = x[i * columns + j];
    return out;
  }

  /** {p, d, activation, Ua, Ub, WL, Sa, Sb, answers} of what `safetensors.read` gives. */
  function collapse({ config, tensors }) {
    const found = config.architecture === "transformer" ? transformer(config, tensors) : mlp(config, tensors);
    for (const [name, array] of Object.entries({ U_a: found.Ua, U_b: found.Ub, W_L: found.WL, S_a: found.Sa, S_b: found.Sb }))
      if (!array.every(Number.isFinite)) throw new Q.safetensors.BadFile(`${name} of the collapsed model overflows: the weights are too large for float64.`);
    return { ...found, answers: Q.task.answersOf(config) };
  }

  function mlp(config, w) {
    const { p, d_mlp: d, activation } = config;
    return {
      p, d, activation,
      Ua: transposed(w.W_a, p, d), Ub: transposed(w.W_b, p, d), WL: w.W_out.slice(),
      Sa: new Float64Array(p * p), Sb: new Float64Array(p * p),
    };
  }

  /** What each position adds to the stream that is read: its attended part, and itself if it is the one read. */
  function streamParts(config, w) {
    const { p, d_model: d, n_heads: heads, d_head: dh } = config;
    const OV = new Float64Array(d * d);
    const bias = w.b_O.slice();
    const total = config.attention.reduce((x, y) => x + y, 0);
    for (let h = 0; h < heads; h++) {
      const W_O = w.W_O.subarray(h * dh * d, (h + 1) * dh * d);
      product(w.W_V.subarray(h * d * dh, (h + 1) * d * dh), W_O, d, dh, d).forEach((x, j) => (OV[j] += x));
      product(w.b_V.subarray(h * dh, (h + 1) * dh), W_O, 1, dh, d).forEach((x, j) => (bias[j] += total * x));
    }
    const offset = config.b_token_offset;
    const rows = [[0, p], [offset, p]];
    if (config.attention.length === 3) rows.push([offset + p, 1]);
    const parts = rows.map(([first, count], position) => {
      const x = new Float64Array(count * d);
      for (let t = 0; t < count; t++)
        for (let e = 0; e < d; e++) x[t * d + e] = w.W_E[(first + t) * d + e] + w.W_pos[position * d + e];
      const attended = product(x, OV, count, d, d);
      const self = position === config.read_position ? 1 : 0;
      return attended.map((y, j) => config.attention[position] * y + self * x[j]);
    });
    return { parts, bias };
  }

  function transformer(config, w) {
    const { p, d_model: d, d_mlp: m, d_vocab_out: v, activation } = config;
    const { parts, bias } = streamParts(config, w);
    const fromA = parts[0];
    // Constants belong to b's side: all biases are folded into U_b and S_b.
    const fromB = parts[1].map((x, j) => x + bias[j % d] + (parts[2] ? parts[2][j % d] : 0));
    const W_U = new Float64Array(d * p);
    for (let e = 0; e < d; e++) for (let c = 0; c < p; c++) W_U[e * p + c] = w.W_U[e * v + c];
    const Ub = product(fromB, w.W_in, p, d, m).map((x, j) => x + w.b_in[j % m]);
    const Sb = product(fromB.map((x, j) => x + w.b_out[j % d]), W_U, p, d, p).map((x, j) => x + w.b_U[j % p]);
    return {
      p, d: m, activation,
      Ua: transposed(product(fromA, w.W_in, p, d, m), p, m), Ub: transposed(Ub, p, m),
      WL: product(w.W_out, W_U, m, d, p),
      Sa: product(fromA, W_U, p, d, p), Sb,
    };
  }

  return { collapse };
})();
