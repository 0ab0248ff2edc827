// The dials that break a model, as one phase shift and one gain per neuron.
Q.edits = (() => {
  /** mulberry32: a small generator with the same numbers everywhere. */
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = state;
      t = Math.imul(t ^ (t >>> 15), t | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  /** For each neuron: two normal draws (jitter, unevenness) and one uniform (dropping). */
  function draws(d, seed) {
    const next = generator(seed);
    const jitter = new Float64Array(d), uneven = new Float64Array(d), drop = new Float64Array(d);
    for (let i = 0; i < d; i++) {
      const radius = Math.sqrt(-2 * Math.log(1 - next())), angle = 2 * Math.PI * next();
      jitter[i] = radius * Math.cos(angle);
      uneven[i] = radius * Math.sin(angle);
      drop[i] = next();
    }
    return { jitter, uneven, drop };
  }

  /** delta[i]: how far φ_i is moved; gain[i]: what W_L[:, i] is multiplied by, 0 for a dropped neuron. */
  function apply(info, state, drawn) {
    const delta = new Float64Array(info.d), gain = new Float64Array(info.d).fill(1);
    for (let i = 0; i < info.d; i++) {
      if (state.scope === "all" || info.kIn[i] === state.k) {
        delta[i] = state.jitter * drawn.jitter[i];
        gain[i] = Math.exp(state.uneven * drawn.uneven[i]);
        const along = (info.phi[i] + Math.PI) / (2 * Math.PI);
        if (drawn.drop[i] < state.drop || along - Math.floor(along) < state.arc) gain[i] = 0;
      }
      if (i in state.moves) delta[i] += state.moves[i];
      if (i in state.gains) gain[i] *= state.gains[i];
    }
    for (const i of state.off) gain[i] = 0;
    return { delta, gain };
  }

  return { generator, draws, apply };
})();
