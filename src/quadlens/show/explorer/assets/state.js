// What is looked at and how it is bent: one plain object, and its form in the address after '#'.
Q.state = (() => {
  const CHOICES = {
    part: ["relu", "abs", "identity"], period: ["full", "half"], keep: ["all", "secondary", "primary"],
    show: ["model", "interpretation", "difference"], scope: ["all", "k"],
  };
  const DIALS = { jitter: 1, drop: 1, arc: 1, uneven: 2, attention: 1 };
  const STEPS = 7;

  /** epoch null: the page's own model, at the end of its run. attention 1: softmax, where the model has one. c null: the right answer. n null: the heaviest neuron of the frequency. */
  function defaults(info) {
    const { p } = info;
    return {
      a: Math.min(12, p - 1), b: Math.min(30, p - 2), c: null, k: info.largest, n: null,
      ...atRest, period: "full", seed: 1, tour: 0, view: null, epoch: null,
    };
  }

  /** All dials back, the model as it is. */
  const atRest = {
    part: "relu", keep: "all", show: "model", scope: "all", carry: true, jitter: 0, drop: 0, arc: 0, uneven: 0, attention: 1, moves: {}, gains: {}, off: [],
  };

  const rounded = (x) => Math.round(x * 1e4) / 1e4;
  const pairs = (x) => Object.keys(x).map((i) => `${i}:${x[i]}`).join(",");

  /** The address fragment: only what differs from the defaults. */
  function toFragment(state, info) {
    const base = defaults(info), words = [];
    for (const key of Object.keys(base)) {
      let value = state[key];
      if (key === "moves" || key === "gains") value = pairs(value) || null;
      else if (key === "off") value = value.length ? value.join(",") : null;
      else if (value === base[key]) value = null;
      else if (key === "carry") value = value ? 1 : 0;
      if (value !== null) words.push(`${key}=${value}`);
    }
    return words.join("&");
  }

  function whole(text, low, high, otherwise) {
    const x = Number(text);
    return text !== "" && Number.isInteger(x) && x >= low && x <= high ? x : otherwise;
  }

  function number(text, low, high, otherwise) {
    const x = Number(text);
    return text !== "" && Number.isFinite(x) ? rounded(Math.min(high, Math.max(low, x))) : otherwise;
  }

  function readPairs(text, d, low, high) {
    const out = {};
    for (const word of text.split(",")) {
      const [i, x] = word.split(":"), at = whole(i, 0, d - 1, null), value = number(x === undefined ? "" : x, low, high, null);
      if (at !== null && value !== null) out[at] = value;
    }
    return out;
  }

  /** The state of a fragment; words it does not know, or values out of range, are left at their defaults. */
  function fromFragment(fragment, info) {
    const state = defaults(info), { p, d } = info;
    for (const word of fragment.replace(/^#/, "").split("&")) {
      const cut = word.indexOf("="), key = word.slice(0, cut), text = decodeURIComponent(safe(word.slice(cut + 1)));
      if (cut < 1 || !(key in state)) continue;
      if (key in CHOICES) state[key] = CHOICES[key].includes(text) ? text : state[key];
      else if (key in DIALS) state[key] = number(text, 0, DIALS[key], state[key]);
      else if (key === "k") state.k = info.clusters.some((one) => one.k === Number(text)) ? Number(text) : state.k;
      else if (key === "n") state.n = whole(text, 0, d - 1, null);
      else if (key === "seed") state.seed = whole(text, 0, 2 ** 31, state.seed);
      else if (key === "epoch") state.epoch = whole(text, 0, Number.MAX_SAFE_INTEGER, null);
      else if (key === "tour") state.tour = whole(text, 0, STEPS, 0);
      else if (key === "carry") state.carry = text !== "0";
      else if (key === "view") state.view = /^[a-z]+$/.test(text) ? text : null;
      else if (key === "moves") state.moves = readPairs(text, d, -Math.PI, Math.PI);
      else if (key === "gains") state.gains = readPairs(text, d, 0, 10);
      else if (key === "off") state.off = [...new Set(text.split(",").map((i) => whole(i, 0, d - 1, null)).filter((i) => i !== null))];
      else state[key] = whole(text, 0, p - 1, state[key]);
    }
    return state;
  }

  /** A half-typed percent sign must not stop the page. */
  function safe(text) {
    try {
      decodeURIComponent(text);
      return text;
    } catch {
      return "";
    }
  }

  const broken = (s) => s.jitter > 0 || s.drop > 0 || s.arc > 0 || s.uneven > 0 || s.off.length > 0 || Object.keys(s.moves).length > 0 || Object.keys(s.gains).length > 0;

  return { atRest, defaults, toFragment, fromFragment, rounded, broken, DIALS, STEPS };
})();
