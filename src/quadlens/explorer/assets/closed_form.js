// The interpretation: logit ≈ Σ_k (C_k |cos u| + D_k cos 2u) cos(k w (a+b-c)), fitted to the model as it came.
Q.closedForm = (() => {
  const { PI } = Math;

  /** C_k from the even part on |cos u|, D_k from the odd part on cos 2u (least squares over all a, b, c). */
  function fit(model, info) {
    const { p, d } = model, { output, table } = info, half = output.half;
    const even = Q.engine.activation(model.activation, "abs"), odd = Q.engine.activation(model.activation, "identity");
    const keys = info.keys, n = keys.length;
    const evenProfile = new Float64Array(n * p), oddProfile = new Float64Array(n * p);
    const eRe = new Float64Array(n), eIm = new Float64Array(n), oRe = new Float64Array(n), oIm = new Float64Array(n);
    // Σ_c W_L[c,i] e^{-ikwc} is p/2 times neuron i's output coefficient, so no sum over c is needed.
    const re = new Float64Array(d * n), im = new Float64Array(d * n);
    for (let i = 0; i < d; i++)
      keys.forEach((k, j) => {
        re[i * n + j] = output.re[i * half + k - 1];
        im[i * n + j] = output.im[i * half + k - 1];
      });
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        [eRe, eIm, oRe, oIm].forEach((x) => x.fill(0));
        for (let i = 0; i < d; i++) {
          const x = model.Ua[i * p + a] + model.Ub[i * p + b], e = even(x), o = odd(x);
          for (let j = 0; j < n; j++) {
            eRe[j] += e * re[i * n + j];
            eIm[j] += e * im[i * n + j];
            oRe[j] += o * re[i * n + j];
            oIm[j] += o * im[i * n + j];
          }
        }
        const at = (a - b + p) % p;
        for (let j = 0; j < n; j++) {
          const turn = (keys[j] * (a + b)) % p, c = table.cos[turn], s = table.sin[turn];
          evenProfile[j * p + at] += (eRe[j] * c - eIm[j] * s) / p;
          oddProfile[j * p + at] += (oRe[j] * c - oIm[j] * s) / p;
        }
      }
    const C = keys.map((k, j) => ratio(evenProfile, j, p, (t) => Math.abs(Math.cos((PI * ((k * t) % p)) / p))));
    const D = keys.map((k, j) => ratio(oddProfile, j, p, (t) => Math.cos((2 * PI * ((k * t) % p)) / p)));
    return tabled({ p, keys, C, D });
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
    const t = (form.keys[j] * distance) % form.p;
    return form.C[j] * Math.abs(Math.cos((PI * t) / form.p)) + form.D[j] * Math.cos((2 * PI * t) / form.p);
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

  /** Its logits over c for one input. */
  function logits(form, a, b) {
    const { p, table } = form, d = (a - b + p) % p;
    return Float64Array.from({ length: p }, (_, c) => table[d * p + ((a + b - c + p) % p)]);
  }

  /** Largest |model - interpretation| over all a, b, c, the model's logits centred over c (a constant decides nothing). */
  function largestDifference(form, engine) {
    const { p, table } = form;
    let worst = 0;
    for (let a = 0; a < p; a++)
      for (let b = 0; b < p; b++) {
        const at = (a * p + b) * p, d = ((a - b + p) % p) * p;
        let mean = 0;
        for (let c = 0; c < p; c++) mean += engine.logits[at + c];
        mean /= p;
        for (let c = 0; c < p; c++) worst = Math.max(worst, Math.abs(engine.logits[at + c] - mean - table[d + ((a + b - c + p) % p)]));
      }
    return worst;
  }

  return { fit, logits, largestDifference };
})();
