// The activations, in one place: what σ does, its even and odd part, and the curve that each gives a quadrature rule.
Q.activations = (() => {
  const { PI } = Math;

  /** erfc(x) for x ≥ 3, by its continued fraction. */
  function erfcTail(x) {
    let rest = x;
    for (let n = 60; n >= 1; n--) rest = x + n / 2 / rest;
    return Math.exp(-x * x) / (Math.sqrt(PI) * rest);
  }

  /** erf(x) for 0 ≤ x < 3, by the series whose terms are all positive. */
  function erfSeries(x) {
    let term = x, sum = x;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * x * x) / (2 * n + 1);
    return (2 / Math.sqrt(PI)) * Math.exp(-x * x) * sum;
  }

  function normalCdf(x) {
    const z = Math.abs(x) / Math.SQRT2, tail = z < 3 ? 1 - erfSeries(z) : erfcTail(z);
    return x < 0 ? tail / 2 : 1 - tail / 2;
  }

  const identity = (x) => x / 2, nothing = () => 0;
  /** σ with the odd part x/2. */
  const halfLinear = (whole) => ({ relu: whole, abs: (x) => whole(x) - x / 2, identity });
  const even = (whole, shape) => ({ relu: whole, abs: whole, identity: nothing, shapes: { relu: shape, abs: shape } });
  // "relu" in the address means the whole activation, whatever it is; "abs" its even and "identity" its odd part.
  // An activation that is not homogeneous has no shapes: no one curve holds for neurons of all amplitudes.
  const ALL = {
    relu: { relu: (x) => (x > 0 ? x : 0), abs: (x) => Math.abs(x) / 2, identity, shapes: { relu: "relu", abs: "abs" } },
    abs: even(Math.abs, "abs"),
    square: even((x) => x * x, "square"),
    quartic: even((x) => x * x * (x * x), "quartic"),
    gelu: halfLinear((x) => x * normalCdf(x)),
    silu: halfLinear((x) => x / (1 + Math.exp(-x))),
    softplus: halfLinear((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
    tanh: { relu: Math.tanh, abs: nothing, identity: Math.tanh },
  };
  // Curves f(cos) of a rule, up to a factor; ∫ f(cos x) cos 2x dx over the circle, as a number and in words.
  const SHAPES = {
    relu: { of: (x) => Math.max(0, x), integral: 2 / 3, words: "2/3", height: "ReLU(cos(s + φ_i))" },
    abs: { of: Math.abs, integral: 4 / 3, words: "4/3", height: "|cos(s + φ_i)|" },
    identity: { of: (x) => x, integral: 0, words: "0", height: "cos(s + φ_i)" },
    square: { of: (x) => x * x, integral: PI / 2, words: "π/2", height: "cos²(s + φ_i)" },
    quartic: { of: (x) => x ** 4, integral: PI / 2, words: "π/2", height: "cos⁴(s + φ_i)" },
  };

  const NAMES = Object.keys(ALL);
  const part = (kind, which) => ALL[kind][which];
  /** The shape of a part; null where there is none. */
  const shapeOf = (kind, which) => (ALL[kind].shapes ? ALL[kind].shapes[which] || "identity" : null);
  /** Only then are the whole and its even part two things. */
  const hasOddPart = (kind) => ALL[kind].identity(1) !== 0;

  return { NAMES, SHAPES, part, shapeOf, hasOddPart };
})();
