// The model as edited: its weights, all p³ logits and all p² margins, kept up to date as cheaply as each change allows.
Q.engine = (() => {
  const F = Q.fourier;
  // Up to this many changed neurons are rank-one updates; more, and all logits are summed again.
  const FEW = 32;

  /** The token at a position: a, b or the one '='. */
  const tokenAt = (position, a, b) => (position === 0 ? a : position === 1 ? b : 0);

  /** Adds what softmax attention brings from every position: gate times table, `width` numbers per token. */
  function addGated(gated, name, width, p, a, b, out) {
    for (const one of gated)
      for (let h = 0; h < one.heads; h++) {
        const gate = one.gates[(h * p + a) * p + b], table = one[name], from = (h * one.tokens + tokenAt(one.position, a, b)) * width;
        for (let j = 0; j < width; j++) out[j] += gate * table[from + j];
      }
  }

  class Engine {
    constructor(model) {
      const { p, d } = model;
      this.model = model;
      this.info = Q.clusters.analyse(model);
      this.Ua = model.Ua.slice();
      this.Ub = model.Ub.slice();
      this.WL = model.WL.slice();
      this.attention = 1;
      this.gated = model.gated.map((one) => ({ ...one, gates: one.gates.slice() }));
      this.delta = new Float64Array(d);
      this.gain = new Float64Array(d).fill(1);
      this.logits = new Float64Array(p * p * p);
      this.margin = new Float64Array(p * p);
      this.answer = new Int32Array(p * p);
      this.rowsDone = 0;
      // Rows summed at least once: further ones have no margin to show yet.
      this.rowsSeen = 0;
      this.how = { keep: "all", part: "relu", carry: true };
      this.seed = null;
      this.sigma = Q.activations.part(model.activation, "relu");
    }

    /** Another model of the same task and shape, as it is; its logits are left to `work`, unless its margins are given. */
    adopt(model, info, margin) {
      const { p, d } = model;
      this.model = model;
      this.info = info;
      for (const name of ["Ua", "Ub", "WL"]) this[name].set(model[name]);
      this.delta = new Float64Array(d);
      this.gain = new Float64Array(d).fill(1);
      this.how = { keep: "all", part: "relu", carry: true };
      this.sigma = Q.activations.part(model.activation, "relu");
      this.rowsDone = margin ? p : 0;
      if (!margin) return;
      this.margin.set(margin);
      this.rowsSeen = p;
    }

    /** The right answer to (a, b). */
    right(a, b) {
      return this.model.task.answers[a * this.model.p + b];
    }

    /** a, b, c under the names that make the task addition. */
    renamed(a, b, c) {
      const { ofA, ofB, ofC } = this.model.task.cyclic;
      return [ofA[a], ofB[b], ofC[c]];
    }

    /** Pre-activation of neuron i. */
    pre(i, a, b) {
      const { p } = this.model;
      return this.Ua[i * p + a] + this.Ub[i * p + b] + this.attended(i, a, b);
    }

    /** What softmax attention brings to neuron i. */
    attended(i, a, b) {
      const { p, d } = this.model, { gated } = this;
      let x = 0;
      for (const { position, heads, tokens, gates, U } of gated)
        for (let h = 0; h < heads; h++) x += gates[(h * p + a) * p + b] * U[(h * tokens + tokenAt(position, a, b)) * d + i];
      return x;
    }

    /** Pre-activations of all neurons, into `out`. */
    allPre(a, b, out) {
      const { p, d } = this.model, { Ua, Ub, gated } = this;
      for (let i = 0; i < d; i++) out[i] = Ua[i * p + a] + Ub[i * p + b];
      addGated(gated, "U", d, p, a, b, out);
    }

    /** What passes by the neurons on its way to the logits of (a, b), into `out` from `at` on. */
    skip(a, b, out, at) {
      const { p, Sa, Sb } = this.model, { gated } = this;
      for (let c = 0; c < p; c++) out[at + c] = Sa[a * p + c] + Sb[b * p + c];
      addGated(gated, "S", p, p, a, b, out.subarray(at, at + p));
    }

    /** Whether neuron i adds anything: its amplitude is not zero. */
    inUse(i) {
      return this.gain[i] !== 0;
    }

    /** Neurons in use: all, at each key frequency (reading and writing it), and the rest; the last two add up to the first. */
    counts() {
      const { info } = this, byKey = new Map(info.keys.map((k) => [k, 0]));
      let all = 0, rest = 0;
      for (let i = 0; i < info.d; i++) {
        if (!this.inUse(i)) continue;
        all++;
        const k = info.clusterOf[i] < 0 ? null : info.kIn[i];
        if (byKey.has(k)) byKey.set(k, byKey.get(k) + 1);
        else rest++;
      }
      return { all, byKey, rest };
    }

    /** Neurons of a cluster that are in use. */
    used(cluster) {
      return cluster.neurons.filter((i) => this.inUse(i));
    }

    get settled() {
      return this.rowsDone === this.model.p;
    }

    /** Every gate at γ = (1-t)·mean + t·softmax, the mean over all inputs. */
    attend(t) {
      const { p, gated } = this.model;
      this.attention = t;
      this.gated.forEach((one, j) => {
        for (let h = 0; h < one.heads; h++) {
          const softmax = gated[j].gates.subarray(h * p * p, (h + 1) * p * p);
          one.gates.set(t === 1 ? softmax : softmax.map((x) => (1 - t) * one.means[h] + t * x), h * p * p);
        }
      });
    }

    /** The clusters of the plane (a, b), with their waves at constant attention and at softmax; found when first asked for. */
    keysOfPlane() {
      if (!this.planeKeys) this.planeKeys = Q.lens.analyse(this.model);
      return this.planeKeys;
    }

    /** Bring weights and logits to `state`; logits that need summing again are left to `work`. */
    sync(state) {
      const { d } = this.model;
      if (state.seed !== this.seed) {
        this.drawn = Q.edits.draws(d, state.seed);
        this.seed = state.seed;
      }
      const { delta, gain } = Q.edits.apply(this.info, state, this.drawn);
      const how = { keep: state.keep, part: state.part, carry: state.carry };
      const whole = how.keep !== this.how.keep || how.carry !== this.how.carry;
      const repart = how.part !== this.how.part;
      const changed = [], attended = this.gated.length > 0 && state.attention !== this.attention;
      if (attended) {
        this.attend(state.attention);
        this.restart();
      }
      for (let i = 0; i < d; i++) if (whole || delta[i] !== this.delta[i] || gain[i] !== this.gain[i]) changed.push(i);
      this.how = how;
      this.delta = delta;
      this.gain = gain;
      if (changed.length > FEW || repart) {
        this.sigma = Q.activations.part(this.model.activation, how.part);
        for (const i of changed) this.refresh(i);
        if (repart || changed.length) this.restart();
      } else for (const i of changed) this.replace(i);
      return changed.length > 0 || repart || attended;
    }

    /** Sum everything again from the weights; also clears the rounding that many small updates leave. */
    restart() {
      this.rowsDone = 0;
    }

    /** The edited waves of neuron i: moved along the circle by δ means every frequency j = m·k turns by m·δ. */
    refresh(i) {
      const { p } = this.model, { info, how } = this;
      const delta = this.delta[i], gain = this.gain[i];
      if (!info.waves || (delta === 0 && how.keep === "all")) {
        for (let t = i * p; t < (i + 1) * p; t++) {
          this.Ua[t] = this.model.Ua[t];
          this.Ub[t] = this.model.Ub[t];
          this.WL[t] = gain * this.model.WL[t];
        }
        return;
      }
      const m = info.multiples.get(info.kIn[i]), { ofA, ofB, ofC } = this.model.task.cyclic;
      F.turned(info.pathA, i, info.kIn[i], how.keep, m, delta, info.table, ofA, this.Ua, i * p, 1);
      F.turned(info.pathB, i, info.kIn[i], how.keep, m, delta, info.table, ofB, this.Ub, i * p, 1);
      F.turned(info.output, i, info.kOut[i], how.keep, m, how.carry ? 2 * delta : 0, info.table, ofC, this.WL, i * p, gain);
    }

    /** Change neuron i and add the difference it makes to every logit summed so far: p³ multiply-adds. */
    replace(i) {
      const { p } = this.model, { logits, sigma } = this, from = i * p;
      const ua = this.Ua.slice(from, from + p), ub = this.Ub.slice(from, from + p), wl = this.WL.slice(from, from + p);
      this.refresh(i);
      for (let a = 0; a < this.rowsDone; a++) {
        for (let b = 0; b < p; b++) {
          const more = this.attended(i, a, b), before = sigma(ua[a] + ub[b] + more), after = sigma(this.Ua[from + a] + this.Ub[from + b] + more);
          if (before === 0 && after === 0) continue;
          const at = (a * p + b) * p;
          for (let c = 0; c < p; c++) logits[at + c] += after * this.WL[from + c] - before * wl[c];
        }
      }
      for (let a = 0; a < this.rowsDone; a++) this.judge(a);
    }

    /** Sum logits of one row of inputs after another until `budget` milliseconds are over; true when all are done. */
    work(budget) {
      const start = performance.now();
      while (this.rowsDone < this.model.p) {
        this.row(this.rowsDone);
        this.judge(this.rowsDone);
        this.rowsDone++;
        this.rowsSeen = Math.max(this.rowsSeen, this.rowsDone);
        if (performance.now() - start > budget) break;
      }
      return this.settled;
    }

    /** logit(a, b, ·) for all b, from the weights; four active neurons at a time save most of the memory traffic. */
    row(a) {
      const { p, d } = this.model, { logits, sigma, WL } = this;
      const hidden = new Float64Array(d + 3), from = new Int32Array(d + 3), pre = new Float64Array(d);
      for (let b = 0; b < p; b++) {
        const at = (a * p + b) * p;
        this.skip(a, b, logits, at);
        this.allPre(a, b, pre);
        let n = 0;
        for (let i = 0; i < d; i++) {
          const h = sigma(pre[i]);
          if (h !== 0 && this.inUse(i)) {
            hidden[n] = h;
            from[n++] = i * p;
          }
        }
        hidden.fill(0, n, n + 3);
        from.fill(0, n, n + 3);
        for (let j = 0; j < n; j += 4) {
          const h0 = hidden[j], h1 = hidden[j + 1], h2 = hidden[j + 2], h3 = hidden[j + 3];
          const w0 = from[j], w1 = from[j + 1], w2 = from[j + 2], w3 = from[j + 3];
          for (let c = 0; c < p; c++) logits[at + c] += h0 * WL[w0 + c] + h1 * WL[w1 + c] + h2 * WL[w2 + c] + h3 * WL[w3 + c];
        }
      }
    }

    /** Margins and answers of one row; a tie is not right, and the answer given is then the other one. */
    judge(a) {
      const { p } = this.model, { logits } = this;
      for (let b = 0; b < p; b++) {
        const at = (a * p + b) * p, right = this.right(a, b);
        let best = -Infinity, other = 0;
        for (let c = 0; c < p; c++)
          if (c !== right && logits[at + c] > best) {
            best = logits[at + c];
            other = c;
          }
        this.margin[a * p + b] = logits[at + right] - best;
        this.answer[a * p + b] = logits[at + right] > best ? right : other;
      }
    }

    /** Wrong inputs and the smallest margin over the rows done. */
    verdict() {
      const { p } = this.model;
      let wrong = 0, smallest = Infinity, where = 0, largest = -Infinity;
      for (let j = 0; j < this.rowsDone * p; j++) {
        const m = this.margin[j];
        if (!(m > 0)) wrong++;
        if (m < smallest) [smallest, where] = [m, j];
        if (m > largest) largest = m;
      }
      return { inputs: this.rowsDone * p, wrong, smallest, largest, a: Math.floor(where / p), b: where % p };
    }

    /** Phases, weights and amplitudes of a cluster as edited; dropped neurons are no nodes. */
    scheme(k) {
      const { info, how } = this, cluster = info.clusters.find((one) => one.k === k);
      const neurons = cluster ? this.used(cluster) : [];
      const values = (of) => Float64Array.from(neurons, of);
      return Q.quadrature.scheme(
        this.model.p, k, neurons,
        values((i) => info.phi[i] + this.delta[i]), values((i) => info.psi[i] + (how.carry ? 2 * this.delta[i] : 0)),
        values((i) => info.rho[i] * info.omega[i] * Math.abs(this.gain[i])),
      );
    }

    /** The logits of one input split up: even part by cluster (the last entry: no cluster), odd part, skip, total. */
    split(a, b) {
      const { p, d } = this.model, { info, how } = this;
      const even = Q.activations.part(this.model.activation, "abs"), odd = Q.activations.part(this.model.activation, "identity");
      const byCluster = Array.from({ length: info.clusters.length + 1 }, () => new Float64Array(p));
      const identity = new Float64Array(p), skip = new Float64Array(p), total = new Float64Array(p);
      for (let i = 0; i < d; i++) {
        if (!this.inUse(i)) continue;
        const x = this.pre(i, a, b);
        const e = how.part === "identity" ? 0 : even(x), o = how.part === "abs" ? 0 : odd(x);
        const mine = byCluster[info.clusterOf[i] < 0 ? info.clusters.length : info.clusterOf[i]];
        for (let c = 0; c < p; c++) {
          mine[c] += e * this.WL[i * p + c];
          identity[c] += o * this.WL[i * p + c];
        }
      }
      this.skip(a, b, skip, 0);
      for (let c = 0; c < p; c++) total[c] = skip[c] + identity[c] + byCluster.reduce((x, part) => x + part[c], 0);
      return { byCluster, identity, skip, total };
    }

    /** What neuron i adds to each logit of (a, b). */
    share(i, a, b) {
      const { p } = this.model, at = i * p;
      const hidden = !this.inUse(i) ? 0 : this.sigma(this.pre(i, a, b));
      return this.WL.slice(at, at + p).map((x) => x * hidden);
    }
  }

  return { Engine };
})();
