// The collapsed model: logit(a,b,c) = Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c], in float64.
// Neuron-major: the wave of neuron i over its tokens is x[i·p … i·p + p - 1].
// Softmax attention adds Σ_h Σ_t γ_ht(a,b) U_ht[x_t,i] to the pre-activation and Σ_h Σ_t γ_ht(a,b) S_ht[x_t,c] to the logit.
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

  /** {p, d, activation, Ua, Ub, WL, Sa, Sb, gated, attention, task} of what `safetensors.read` gives. */
  function collapse({ config, task, tensors }) {
    const found = config.architecture === "transformer" ? transformer(config, tensors) : mlp(config, tensors);
    const arrays = [["U_a", found.Ua], ["U_b", found.Ub], ["W_L", found.WL], ["S_a", found.Sa], ["S_b", found.Sb]];
    for (const { position, scores, U, S } of found.gated) arrays.push([`scores of position ${position}`, scores], [`U of position ${position}`, U], [`S of position ${position}`, S]);
    for (const [name, array] of arrays)
      if (!array.every(Number.isFinite)) throw new Q.safetensors.BadFile(`${name} of the collapsed model overflows: the weights are too large for float64.`);
    if (found.gated.length) setGates(found, config);
    return { ...found, task };
  }

  /** gates[(h·p + a)·p + b] of every position: softmax over the positions seen, times its scale; means[h] over all inputs. */
  function setGates({ p, gated }, { softmax, n_heads: heads }) {
    for (const one of gated) one.gates = new Float64Array(heads * p * p);
    const score = ({ scores, rows, columns }, h, a, b) => scores[(h * rows + (a % rows)) * columns + (b % columns)];
    for (let h = 0; h < heads; h++)
      for (let a = 0; a < p; a++)
        for (let b = 0; b < p; b++) {
          const mine = gated.map((one) => score(one, h, a, b)), most = Math.max(...mine), powers = mine.map((x) => Math.exp(x - most));
          const total = powers.reduce((x, y) => x + y, 0);
          gated.forEach((one, t) => (one.gates[(h * p + a) * p + b] = (softmax.scale * powers[t]) / total));
        }
    for (const one of gated)
      one.means = Array.from({ length: heads }, (_, h) => one.gates.subarray(h * p * p, (h + 1) * p * p).reduce((x, y) => x + y, 0) / (p * p));
  }

  function mlp(config, w) {
    const { p, d_mlp: d, activation, bias } = config;
    // Constants belong to b's side, as a transformer's do.
    return {
      p, d, activation, gated: [], attention: null,
      Ua: transposed(w.W_a, p, d), Ub: transposed(bias ? w.W_b.map((x, j) => x + w.b_in[j % d]) : w.W_b, p, d), WL: w.W_out.slice(),
      Sa: new Float64Array(p * p), Sb: Float64Array.from({ length: p * p }, (_, j) => (bias ? w.b_out[j % p] : 0)),
    };
  }

  /** The residual stream before attention: one row per a, per b, and one for '=' where it is fed. */
  function tokenStreams(config, w) {
    const { p, d_model: d, b_token_offset: offset } = config, rows = [[0, p], [offset, p]];
    if (config.attention.length === 3) rows.push([offset + p, 1]);
    return rows.map(([first, count], position) => {
      const x = new Float64Array(count * d);
      for (let t = 0; t < count; t++)
        for (let e = 0; e < d; e++) x[t * d + e] = w.W_E[(first + t) * d + e] + w.W_pos[position * d + e];
      return x;
    });
  }

  /** What each position adds to the stream that is read without softmax: its attended part, and itself if it is the one read. */
  function streamParts(config, w, streams) {
    const { d_model: d, n_heads: heads, d_head: dh } = config;
    const OV = new Float64Array(d * d);
    const bias = w.b_O.slice();
    // Softmax adds up to 1, so that it brings every head's value bias `scale` times.
    const total = config.attention.reduce((x, y) => x + y, 0) + (config.softmax ? config.softmax.scale : 0);
    for (let h = 0; h < heads; h++) {
      const W_O = w.W_O.subarray(h * dh * d, (h + 1) * dh * d);
      product(w.W_V.subarray(h * d * dh, (h + 1) * d * dh), W_O, d, dh, d).forEach((x, j) => (OV[j] += x));
      product(w.b_V.subarray(h * dh, (h + 1) * dh), W_O, 1, dh, d).forEach((x, j) => (bias[j] += total * x));
    }
    const parts = streams.map((x, position) => {
      const attended = product(x, OV, x.length / d, d, d);
      const self = position === config.read_position ? 1 : 0;
      return attended.map((y, j) => config.attention[position] * y + self * x[j]);
    });
    return { parts, bias };
  }

  /** One table per position that softmax sees: scores [head, a, b] (length 1 where they do not vary), U and S [head, token, ·]. */
  function gatedTables(config, w, streams, W_U) {
    const { p, d_model: d, d_mlp: m, n_heads: heads, d_head: dh, read_position: read, softmax } = config;
    const seen = softmax.causal ? read + 1 : streams.length;
    const head = (x, h, rows, columns) => x.subarray(h * rows * columns, (h + 1) * rows * columns);
    const through = (x, W, b, h) => product(x, head(W, h, d, dh), x.length / d, d, dh).map((y, j) => y + b[h * dh + (j % dh)]);
    return streams.slice(0, seen).map((x, position) => {
      const tokens = x.length / d, others = streams[read].length / d;
      // Scores vary with the token read and the one looked at; '=' is one token only.
      const rows = position === 0 || read === 0 ? p : 1, columns = position === 1 || read === 1 ? p : 1;
      const scores = new Float64Array(heads * rows * columns), U = new Float64Array(heads * tokens * m), S = new Float64Array(heads * tokens * p);
      for (let h = 0; h < heads; h++) {
        const queries = through(streams[read], w.W_Q, w.b_Q, h), keys = through(x, w.W_K, w.b_K, h);
        const tokenAt = (where, a, b) => (where === 0 ? a : where === 1 ? b : 0);
        for (let a = 0; a < rows; a++)
          for (let b = 0; b < columns; b++) {
            const q = tokenAt(read, a, b) % others, k = tokenAt(position, a, b) % tokens;
            let sum = 0;
            for (let j = 0; j < dh; j++) sum += queries[q * dh + j] * keys[k * dh + j];
            scores[(h * rows + a) * columns + b] = sum / softmax.divisor;
          }
        const written = product(product(x, head(w.W_V, h, d, dh), tokens, d, dh), head(w.W_O, h, dh, d), tokens, dh, d);
        U.set(product(written, w.W_in, tokens, d, m), h * tokens * m);
        S.set(product(written, W_U, tokens, d, p), h * tokens * p);
      }
      return { position, heads, tokens, rows, columns, scores, U, S };
    });
  }

  function transformer(config, w) {
    const { p, d_model: d, d_mlp: m, d_vocab_out: v, activation } = config;
    const streams = tokenStreams(config, w), { parts, bias } = streamParts(config, w, streams);
    const fromA = parts[0];
    // Constants belong to b's side: all biases are folded into U_b and S_b.
    const fromB = parts[1].map((x, j) => x + bias[j % d] + (parts[2] ? parts[2][j % d] : 0));
    const W_U = new Float64Array(d * p);
    for (let e = 0; e < d; e++) for (let c = 0; c < p; c++) W_U[e * p + c] = w.W_U[e * v + c];
    const Ub = product(fromB, w.W_in, p, d, m).map((x, j) => x + w.b_in[j % m]);
    const Sb = product(fromB.map((x, j) => x + w.b_out[j % d]), W_U, p, d, p).map((x, j) => x + w.b_U[j % p]);
    return {
      p, d: m, activation, attention: config.attention, gated: config.softmax ? gatedTables(config, w, streams, W_U) : [],
      Ua: transposed(product(fromA, w.W_in, p, d, m), p, m), Ub: transposed(Ub, p, m),
      WL: product(w.W_out, W_U, m, d, p),
      Sa: product(fromA, W_U, p, d, p), Sb,
    };
  }

  return { collapse };
})();
