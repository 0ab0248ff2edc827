// The interpretation: logit ≈ Σ_k (C_k |cos u| + D_k cos 2u) cos(k w (a+b-c)), fitted to the model as it came;
// u = k w (a-b)/2 + δ_k, the shift δ_k being 0 where a and b share their phases.
Q.closedForm = (() => {
  const { PI } = Math;

  /** C_k from the even part on |cos u|, D_k from the odd part on cos 2u (least squares over all a, b, c). */
  function fit(model, info) {
    const { p, d } = model, { output, table } = info, half = output.half;
    const keys = info.keys, n = keys.length;
    // Σ_c W_L[c,i] e^{-ikwc} is p/2 times neuron i's output coefficient, so no sum over c is needed.
    const re = new Float64Array(d * n), im = new Float64Array(d * n);
    for (let i = 0; i < d; i++)
      keys.forEach((k, j) => {
        re[i * n + j] = output.re[i * half + k - 1];
        im[i * n + j] = output.im[i * half + k - 1];
      });
    const evenProfile = profile(model, table, keys, re, im, Q.activations.part(model.activation, "abs"));
    const oddProfile = Q.activations.hasOddPart(model.activation) ? profile(model, table, keys, re, im, Q.activations.part(model.activation, "identity")) : new Float64Array(n * p);
    const shifts = keys.map((k) => info.clusters.find((one) => one.k === k).shift);
    const C = keys.map((k, j) => ratio(evenProfile, j, p, (t) => Math.abs(Math.cos((PI * ((k * t) % p)) / p + shifts[j]))));
    const D = keys.map((k, j) => ratio(oddProfile, j, p, (t) => Math.cos((2 * PI * ((k * t) % p)) / p + 2 * shifts[j])));
    const none = keys.map(() => 0);
    // The part of the activation that is shown has the part of the formula that goes with it.
    const { cyclic } = model.task;
    return { relu: tabled({ p, cyclic, keys, shifts, C, D }), abs: tabled({ p, cyclic, keys, shifts, C, D: none }), identity: tabled({ p, cyclic, keys, shifts, C: none, D }) };
  }

  /** g_k(d): the coefficient of cos(k w (a+b-c)) in Σ_i W_L[c,i] f(pre_i) over the inputs with a - b ≡ d, under their new names. */
  function profile(model, table, keys, re, im, f) {
    const { p, d, Ua, Ub } = model, { ofA, ofB } = model.task.cyclic, n = keys.length, out = new Float64Array(n * p);
    const real = new Float64Array(n), imaginary = new Float64Array(n);
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        real.fill(0);
        imaginary.fill(0);
        for (let i = 0; i < d; i++) {
          const x = f(Ua[i * p + a] + Ub[i * p + b]);
          for (let j = 0; j < n; j++) {
            real[j] += x * re[i * n + j];
            imaginary[j] += x * im[i * n + j];
          }
        }
        const at = (ofA[a] - ofB[b] + p) % p;
        for (let j = 0; j < n; j++) {
          const turn = (keys[j] * (ofA[a] + ofB[b])) % p;
          out[j * p + at] += (real[j] * table.cos[turn] - imaginary[j] * table.sin[turn]) / p;
        }
      }
    return out;
  }

  function ratio(profile, row, p, factor) {
    let top = 0, bottom = 0;
    for (let t = 0; t < p; t++) {
      top += profile[row * p + t] * factor(t);
      bottom += factor(t) ** 2;
    }
    return bottom > 0 ? top / bottom : 0;
  }

  const strength = (form, j, distance) => {
    const u = (PI * ((form.keys[j] * distance) % form.p)) / form.p + form.shifts[j];
    return form.C[j] * Math.abs(Math.cos(u)) + form.D[j] * Math.cos(2 * u);
  };

  /** Its logits depend on a - b and a + b - c alone, its margin on a - b: table[d·p + t] and margins[d]. */
  function tabled(form) {
    const { p, keys } = form, table = new Float64Array(p * p), margins = new Float64Array(p);
    for (let d = 0; d < p; d++) {
      let best = -Infinity;
      for (let t = 0; t < p; t++) {
        for (let j = 0; j < keys.length; j++) table[d * p + t] += strength(form, j, d) * Math.cos((2 * PI * ((keys[j] * t) % p)) / p);
        if (t) best = Math.max(best, table[d * p + t]);
      }
      margins[d] = table[d * p] - best;
    }
    return { ...form, table, margins };
  }

  /** a - b under the new names. */
  const distance = ({ p, cyclic }, a, b) => (cyclic.ofA[a] - cyclic.ofB[b] + p) % p;

  /** Its margin at one input. */
  const margin = (form, a, b) => form.margins[distance(form, a, b)];

  /** Its logits over c for one input. */
  function logits(form, a, b) {
    const { p, table, cyclic } = form, d = distance(form, a, b), sum = cyclic.ofA[a] + cyclic.ofB[b];
    return Float64Array.from({ length: p }, (_, c) => table[d * p + ((sum - cyclic.ofC[c] + p) % p)]);
  }

  /** Largest |model - interpretation| over all a, b, c, the model's logits centred over c (a constant decides nothing). */
  function largestDifference(form, engine) {
    const { p } = form;
    let worst = 0;
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        const at = (a * p + b) * p, ideal = logits(form, a, b);
        let mean = 0;
        for (let c = 0; c < p; c++) mean += engine.logits[at + c];
        mean /= p;
        for (let c = 0; c < p; c++) worst = Math.max(worst, Math.abs(engine.logits[at + c] - mean - ideal[c]));
      }
    return worst;
  }

  return { fit, logits, margin, largestDifference };
})();
