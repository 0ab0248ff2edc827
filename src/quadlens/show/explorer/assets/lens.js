// The function that the neurons of a frequency share, F_m(a - b), and how it changes as attention goes from constant to softmax.
// A neuron is Re Σ c_m(d) e^{imθ} with θ = kwb, d = a - b; F_m is the mean of c_m e^{-imφ} over neurons (infinite_width/waves.py).
// Pre-activations are linear in the gates, so that waves at γ = (1-t)·mean + t·softmax are a blend of those at t = 0 and t = 1.
Q.lens = (() => {
  const F = Q.fourier;
  // As in Python: a neuron this faint counts for nothing; a key has this share of Σ ρω; waves up to this degree.
  const SILENT = 1e-9, KEY_SHARE = 0.01, DEGREE = 3;
  // Beyond it the transform of every neuron over all inputs takes many seconds.
  const LARGEST_P = 131;

  const applies = ({ p, gated, task }) => gated.length > 0 && task.cyclic !== null && p <= LARGEST_P;

  /** Pre-activation of neuron i over the plane, elements renamed: [a, b] at a·p + b. `mean`: every gate at its mean over all inputs. */
  function plane(model, mean, i, out) {
    const { p, d, gated, task: { cyclic: { ofA, ofB } } } = model, ua = model.Ua.slice(i * p, (i + 1) * p), ub = model.Ub.slice(i * p, (i + 1) * p);
    const own = new Float64Array(p * p);
    for (const { position, heads, tokens, gates, means, U } of gated)
      for (let h = 0; h < heads; h++) {
        // The neuron's own column first: what follows runs along memory.
        const mine = Float64Array.from({ length: p }, (_, token) => U[(h * tokens + (tokens === 1 ? 0 : token)) * d + i]);
        if (mean) for (let x = 0; x < p; x++) (position === 0 ? ua : ub)[x] += means[h] * mine[x];
        else
          for (let a = 0, at = 0, from = h * p * p; a < p; a++)
            for (let b = 0; b < p; b++, at++) own[at] += gates[from + at] * (position === 0 ? mine[a] : mine[b]);
      }
    for (let a = 0; a < p; a++) for (let b = 0, to = ofA[a] * p; b < p; b++) out[to + ofB[b]] = own[a * p + b] + ua[a] + ub[b];
    return out;
  }

  /** Σ_b x[a,b] e^{-ifwb} for every a. */
  function alongB(x, p, f, { cos, sin }) {
    const re = new Float64Array(p), im = new Float64Array(p);
    for (let a = 0; a < p; a++) {
      let r = 0, s = 0;
      for (let b = 0, turn = 0; b < p; b++, turn += turn + f < p ? f : f - p) {
        r += x[a * p + b] * cos[turn];
        s -= x[a * p + b] * sin[turn];
      }
      re[a] = r;
      im[a] = s;
    }
    return { re, im };
  }

  /** The coefficient of e^{iw(ja + hb)}, from the sums over b at h. */
  function alongA({ re, im }, p, j, { cos, sin }) {
    let r = 0, s = 0;
    for (let a = 0, turn = 0; a < p; a++, turn += turn + j < p ? j : j - p) {
      r += re[a] * cos[turn] + im[a] * sin[turn];
      s += im[a] * cos[turn] - re[a] * sin[turn];
    }
    return [r / p ** 2, s / p ** 2];
  }

  const square = ([x, y]) => x * x + y * y;
  const mod = (x, p) => ((x % p) + p) % p;

  /** The k whose waves {0, ±k} × {0, ±k} but the constant have most energy, and that energy; `guess` is tried first. */
  function strongest(x, p, guess, table) {
    const half = Math.floor(p / 2), sums = alongB(x, p, 0, table);
    // A wave that is its own mirror image counts once.
    const block = (k) => {
      const rows = alongB(x, p, k, table), pairs = [alongA(sums, p, k, table), alongA(rows, p, 0, table), alongA(rows, p, k, table)];
      const energy = pairs.reduce((sum, one) => sum + square(one), 0);
      return 2 * k === p ? energy : 2 * (energy + square(alongA(rows, p, p - k, table)));
    };
    const first = block(guess), all = x.reduce((sum, y) => sum + y * y, 0) / p ** 2 - square(alongA(sums, p, 0, table));
    // Blocks do not overlap: one with more than half of what varies is the strongest.
    if (first > 0.51 * all) return [guess, first];
    let best = [1, block(1)];
    for (let k = 2; k <= half; k++) {
      const energy = k === guess ? first : block(k);
      if (energy > best[1]) best = [k, energy];
    }
    return best;
  }

  /** The key clusters of the model as it is, each with its neurons' waves at mean gates and at softmax. */
  function analyse(model) {
    const { p, d, task } = model, table = F.tables(p), half = Math.floor(p / 2), x = new Float64Array(p * p);
    const output = F.spectrum(model.WL, d, p, table, task.cyclic.ofC), size = new Float64Array(d), members = new Map();
    for (let i = 0; i < d; i++) {
      let kOut = 1;
      for (let k = 2; k <= half; k++) if (F.amplitude(output, i, k) > F.amplitude(output, i, kOut)) kOut = k;
      const [kIn, energy] = strongest(plane(model, false, i, x), p, kOut, table);
      size[i] = Math.sqrt(energy) * F.amplitude(output, i, kIn);
      if (kIn === kOut) members.set(kIn, [...(members.get(kIn) || []), i]);
    }
    const most = size.reduce((m, y) => Math.max(m, y), 0), all = size.reduce((m, y) => m + y, 0), keys = [];
    for (const k of [...members.keys()].sort((y, z) => y - z)) {
      const neurons = members.get(k).filter((i) => size[i] > SILENT * most);
      if (neurons.length && neurons.reduce((m, i) => m + size[i], 0) >= KEY_SHARE * all) keys.push(cluster(model, k, neurons, table));
    }
    return keys;
  }

  function gcd(x, y) {
    return y ? gcd(y, x % y) : x;
  }

  /** Waves (j, h) of every neuron of a cluster: w[t][neuron][wave] = [re, im], and the energies that a blend needs. */
  function cluster(model, k, neurons, table) {
    const { p } = model, q = p / gcd(k, p), kept = [], waves = [[], []], energy = [0, 0, 0];
    for (let j = -DEGREE; j <= DEGREE; j++) if (-q < 2 * j && 2 * j <= q) kept.push(j);
    const pairs = kept.flatMap((h) => kept.map((j) => [j, h]));
    const planes = [new Float64Array(p * p), new Float64Array(p * p)];
    for (const i of neurons) {
      [true, false].forEach((mean, t) => {
        const x = plane(model, mean, i, planes[t]);
        waves[t].push(kept.flatMap((h) => {
          const rows = alongB(x, p, mod(h * k, p), table);
          return kept.map((j) => alongA(rows, p, mod(j * k, p), table));
        }));
      });
      for (let at = 0; at < p * p; at++) {
        energy[0] += planes[0][at] ** 2 / p ** 2;
        energy[1] += (2 * planes[0][at] * planes[1][at]) / p ** 2;
        energy[2] += planes[1][at] ** 2 / p ** 2;
      }
    }
    return { p, k, q, neurons, pairs, waves, energy, table };
  }

  /** Index of a wave in a cluster's list. */
  const place = ({ pairs }, j, h) => pairs.findIndex(([x, y]) => x === j && y === h);

  /** F_0, F_1, F_2 over a - b and the shares of each kind of wave, attention at t. */
  function at(one, t) {
    const { p, k, q, pairs, table: { cos, sin } } = one, twice = q === 2 ? 1 : 2;
    const wave = (i, w) => [0, 1].map((part) => (1 - t) * one.waves[0][i][w][part] + t * one.waves[1][i][w][part]);
    const ofA = place(one, 1, 0), ofB = place(one, 0, 1);
    const alphas = one.neurons.map((_, i) => wave(i, ofA).map((x) => x * twice)), betas = one.neurons.map((_, i) => wave(i, ofB).map((x) => x * twice));
    // φ = (φ^a + φ^b)/2, of the two branches the one nearer to the δ that the neurons have in common.
    let re = 0, im = 0;
    alphas.forEach(([x, y], i) => {
      re += x * betas[i][0] + y * betas[i][1];
      im += y * betas[i][0] - x * betas[i][1];
    });
    const common = Math.atan2(im, re) / 2, phi = [], rho = [];
    alphas.forEach(([x, y], i) => {
      const [v, w] = betas[i], middle = Math.atan2(x * w + y * v, x * v - y * w) / 2;
      const turned = (c, s, angle) => c * Math.cos(angle) + s * Math.sin(angle);
      phi.push(turned(x, y, middle + common) + turned(v, w, middle - common) < 0 ? middle + Math.PI : middle);
      rho.push(Math.sqrt((square([x, y]) + square([v, w])) / 2));
    });
    const total = rho.reduce((sum, x) => sum + x * x, 0), shares = { constant: 0, sum: 0, double: 0, product: 0 };
    const Fm = Array.from({ length: 3 }, () => ({ re: new Float64Array(p), im: new Float64Array(p) }));
    const energy = (1 - t) ** 2 * one.energy[0] + t * (1 - t) * one.energy[1] + t * t * one.energy[2];
    pairs.forEach(([j, h], w) => {
      const m = Math.abs(j + h), sign = j + h >= 0 ? 1 : -1, [low, high] = [Math.abs(j), Math.abs(h)].sort();
      const kind = { "0,0": "constant", "0,1": "sum", "0,2": "double", "1,1": "product" }[`${low},${high}`];
      let r = 0, s = 0;
      one.neurons.forEach((_, i) => {
        const [x, y] = wave(i, w), c = Math.cos(m * phi[i]), d = -Math.sin(m * phi[i]);
        if (kind) shares[kind] += (x * x + y * y) / energy;
        r += rho[i] * (x * c - sign * y * d);
        s += rho[i] * (x * d + sign * y * c);
      });
      if (m > 2) return;
      for (let d = 0; d < p; d++) {
        const turn = mod(sign * j * k * d, p);
        Fm[m].re[d] += (r * cos[turn] - s * sin[turn]) / total;
        Fm[m].im[d] += (r * sin[turn] + s * cos[turn]) / total;
      }
    });
    Fm[0].im.fill(0);
    return { F: Fm, shares };
  }

  return { applies, analyse, at, LARGEST_P };
})();
