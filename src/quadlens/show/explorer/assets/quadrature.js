// A cluster as a quadrature rule: nodes φ_i, weights w_i that sum to 2π. The same formulas as quadlens.analysis.quadrature,
// in float64 (Python encloses them; here bounds carry an allowance for rounding).
Q.quadrature = (() => {
  const { PI } = Math, TURN = 2 * PI;
  const ARC_SLACK = 1e-9;
  const mod = (x, y) => ((x % y) + y) % y;

  function gcd(x, y) {
    return y ? gcd(y, x % y) : x;
  }

  /** {p, k, q, neurons, phi, psi, w}, or null: fewer than two neurons, no weight, or the sign wave, without phases. */
  function scheme(p, k, neurons, phi, psi, product) {
    const sum = product.reduce((x, y) => x + y, 0);
    if (neurons.length < 2 || !(sum > 0) || 2 * k === p) return null;
    return { p, k, q: p / gcd(k, p), neurons, phi, psi, w: product.map((x) => (x * TURN) / sum) };
  }

  function sortedOrder(values) {
    return Array.from(values.keys()).sort((i, j) => values[i] - values[j] || i - j);
  }

  /** Sorted phases, weights as widths from -period/2 on, slid by the best shift θ. */
  function rectangles(rule, half) {
    const period = half ? PI : TURN;
    const folded = rule.phi.map((x) => {
      const y = mod(x, period);
      return !half && y > PI ? y - period : y;
    });
    const order = sortedOrder(folded), n = order.length;
    const phi = new Float64Array(n), edges = new Float64Array(n + 1);
    edges[0] = -period / 2;
    order.forEach((i, j) => {
      phi[j] = folded[i];
      edges[j + 1] = edges[j] + rule.w[i] * (half ? 0.5 : 1);
    });
    return { order, phi, edges, shift: bestShift(phi, edges), half, period };
  }

  /** The median of φ(x) - x for x uniform on the circle: it minimises Σ_i e_i(θ). */
  function bestShift(phi, edges) {
    const n = phi.length;
    const at = new Float64Array(2 * n);
    for (let i = 0; i < n; i++) {
      at[i] = phi[i] - edges[i + 1];
      at[n + i] = phi[i] - edges[i];
    }
    const order = sortedOrder(at);
    let total = 0, density = 0;
    const mass = new Float64Array(2 * n), heights = new Int32Array(2 * n);
    for (let j = 0; j < 2 * n; j++) {
      if (j) total += density * (at[order[j]] - at[order[j - 1]]);
      mass[j] = total;
      density += order[j] < n ? 1 : -1;
      heights[j] = density;
    }
    const middle = total / 2;
    let i = 0;
    while (i < 2 * n - 2 && mass[i + 1] <= middle) i++;
    return at[order[i]] + (heights[i] > 0 ? (middle - mass[i]) / heights[i] : 0);
  }

  /** e_i = 2 ∫ |x + θ - φ_i| dx over rectangle i: the Lipschitz constant 2 times how far it reaches from its phase. */
  function rectangleErrors(rects) {
    return rects.phi.map((phi, i) => {
      const x = rects.edges[i] + rects.shift - phi, y = rects.edges[i + 1] + rects.shift - phi;
      return y * Math.abs(y) - x * Math.abs(x);
    });
  }

  const sum = (x) => x.reduce((y, z) => y + z, 0);

  /** Σ w_i |ψ_i - 2φ_i|, distances on the circle. */
  function angleError(rule) {
    let total = 0;
    for (let i = 0; i < rule.w.length; i++) total += rule.w[i] * Math.abs(Q.fourier.wrap(rule.psi[i] - 2 * rule.phi[i]));
    return total;
  }

  /** ½(|ν_1| + |ν_{-1}|), ν_n = Σ w e^{i(ψ + nφ)}: the exact worst case of the identity part over all real s. */
  function identitySupremum(rule, out) {
    let total = 0;
    for (const sign of [1, -1]) {
      let re = 0, im = 0;
      for (let i = 0; i < rule.w.length; i++) {
        re += rule.w[i] * Math.cos(out[i] + sign * rule.phi[i]);
        im += rule.w[i] * Math.sin(out[i] + sign * rule.phi[i]);
      }
      total += Math.hypot(re, im);
    }
    return total / 2;
  }

  /** Largest total error of rectangles that some half circle meets (ReLU(cos) vanishes on the other half). */
  function reluWindow(rects, errors) {
    let always = 0, now = 0;
    const events = [];
    errors.forEach((error, i) => {
      const low = Math.min(rects.phi[i], rects.edges[i] + rects.shift) - PI / 2 - ARC_SLACK;
      const high = Math.max(rects.phi[i], rects.edges[i + 1] + rects.shift) + PI / 2 + ARC_SLACK;
      if (high - low >= TURN) {
        always += error;
        return;
      }
      const start = mod(low, TURN), stop = mod(high, TURN);
      if (start > stop) now += error;
      events.push([start, 0, error], [stop, 1, -error]);
    });
    events.sort((x, y) => x[0] - y[0] || x[1] - y[1]);
    let worst = now;
    for (const [, , change] of events) {
      now += change;
      worst = Math.max(worst, now);
    }
    return always + worst;
  }

  /**
   * Exact worst cases over all a, b and any c, in O(d log d + p): |cos(s+φ_i)| is linear in cos s, sin s up to a sign
   * that flips once, at (π/2 - φ_i) mod π. Sort the flips, keep running sums, look each s up.
   */
  function exactErrors(rule, out) {
    const n = rule.w.length, q = rule.q;
    const kink = new Float64Array(n), sign = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const x = PI / 2 - rule.phi[i], turns = Math.floor(x / PI);
      kink[i] = x - turns * PI;
      sign[i] = mod(turns, 2) ? -1 : 1;
    }
    const order = sortedOrder(kink);
    // X and Y, real and imaginary: signed sums of w e^{iψ} cos φ and w e^{iψ} sin φ; the identity part has no signs.
    const running = new Float64Array(4), plain = new Float64Array(4), terms = new Float64Array(4 * n);
    for (let i = 0; i < n; i++) {
      const re = rule.w[i] * Math.cos(out[i]), im = rule.w[i] * Math.sin(out[i]);
      const c = Math.cos(rule.phi[i]), d = Math.sin(rule.phi[i]);
      [re * c, im * c, re * d, im * d].forEach((x, j) => {
        terms[4 * i + j] = sign[i] * x;
        running[j] += sign[i] * x;
        plain[j] += x;
      });
    }
    let next = 0, abs = 0, identity = 0, relu = 0;
    for (let j = 0; j < q; j++) {
      const s = (j * PI) / q, c = Math.cos(s), d = Math.sin(s);
      while (next < n && kink[order[next]] <= s) {
        for (let m = 0; m < 4; m++) running[m] -= 2 * terms[4 * order[next] + m];
        next++;
      }
      const re = c * running[0] - d * running[2] - (4 / 3) * Math.cos(2 * s);
      const im = c * running[1] - d * running[3] + (4 / 3) * Math.sin(2 * s);
      const iRe = c * plain[0] - d * plain[2], iIm = c * plain[1] - d * plain[3];
      abs = Math.max(abs, Math.hypot(re, im));
      identity = Math.max(identity, Math.hypot(iRe, iIm));
      relu = Math.max(relu, Math.hypot(re + iRe, im + iIm) / 2, Math.hypot(re - iRe, im - iIm) / 2);
    }
    return { abs, identity, relu };
  }

  // Four times the rounding that docs/quadrature.md §8 allows sums over n neurons: bounds stay bounds.
  const allowance = (n) => 4 * TURN * (5 * n + 700) * 2 ** -53;

  /** Mean of (4/3)|cos(jπ/D)| over j: what the integral is on average. */
  const meanCosine = (D) => (D % 2 ? 4 / (3 * D * Math.sin(PI / (2 * D))) : 4 / (3 * D * Math.tan(PI / (2 * D))));

  /** Every number the page states about one rule. */
  function claims(rule) {
    const doubled = rule.phi.map((x) => 2 * x);
    const full = rectangles(rule, false), half = rectangles(rule, true);
    const errors = rectangleErrors(full), upper = (x) => x + allowance(rule.w.length);
    const absFull = upper(sum(errors)), absHalf = upper(sum(rectangleErrors(half)));
    const angle = upper(angleError(rule)), identitySup = upper(identitySupremum(rule, doubled));
    const reluFull = upper(reluWindow(full, errors)), reluHalf = upper(absHalf / 2 + identitySup / 4);
    return {
      full, half, angle, identitySup, absFull, absHalf, reluFull, reluHalf,
      totalAbsFull: upper(absFull + angle), totalAbsHalf: upper(2 * absHalf + angle),
      totalReluFull: upper(reluFull + angle), totalReluHalf: upper(2 * reluHalf + angle),
      exact: exactErrors(rule, doubled), exactPsi: exactErrors(rule, rule.psi),
      baseline: meanCosine(rule.q % 2 ? rule.q : rule.q / 2),
    };
  }

  /** s, u of one input at frequency k, with k·(a ± b) reduced modulo 2p so that no digits are lost. */
  function angles(p, k, a, b) {
    return { s: (PI * mod(k * (a + b), 2 * p)) / p, u: (PI * mod(k * (a - b), 2 * p)) / p };
  }

  /**
   * The rule at one (a, b, c): heights f(±cos(s+φ_i)) cos(k w c + ψ_i), ± the sign of cos u; their weighted sum; and
   * the integral of f(±cos(s+φ)) cos(k w c + 2φ), which is a constant times cos(k w (a+b-c)).
   */
  function at(rule, part, a, b, c) {
    const { p, k } = rule;
    const { s, u } = angles(p, k, a, b);
    const side = Math.cos(u) < 0 ? -1 : 1, shape = Q.activations.SHAPES[part];
    const turn = (TURN * mod(k * c, p)) / p;
    const height = (phi, out) => shape.of(side * Math.cos(s + phi)) * Math.cos(turn + out);
    const heights = rule.phi.map((phi, i) => height(phi, rule.psi[i]));
    const integral = shape.integral * Math.cos((TURN * mod(k * (a + b - c), p)) / p);
    const total = heights.reduce((x, y, i) => x + y * rule.w[i], 0);
    return { s, u, side, heights, sum: total, integral, error: total - integral, curve: (x) => height(x, 2 * x) };
  }

  return { scheme, rectangles, claims, angles, at, mod };
})();
