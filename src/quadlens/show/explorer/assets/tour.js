// Seven steps from one neuron to the whole network; each is a saved state with the view to look at.
Q.tour = (() => {
  const { short, atMost, atLeast, count, percent, percentAtMost } = Q.numbers;

  const STEPS = [
    {
      title: "One neuron reads a wave", views: ["pre", "circle"], state: { keep: "primary" },
      say: (f) => `Neuron ${f.high} reads a cosine of frequency ${f.engine.info.kIn[f.high]} of a and one of b. Where the two are the same, their sum is 2ρ cos u · cos(s + φ), with s from a + b and u from a − b: stripes over (a, b). ${Q.words[f.engine.model.activation].keeps}`,
    },
    {
      title: "It writes a wave", views: ["column", "circle"], state: {},
      say: (f) => {
        const { info } = f.engine, i = f.high;
        return `Down its column of W_L the same neuron writes one cosine of the same frequency over c. For an integral, its phase ψ has to be twice its input phase φ: ψ − 2φ is ${short(Q.fourier.wrap(info.psi[i] - 2 * info.phi[i]))} radians here. Point at other dots to see theirs.`;
      },
    },
    {
      title: "A cluster on the circle", views: ["circle"], state: { part: "abs" },
      say: (f) => `${f.engine.counts().byKey.get(f.state.k) || 0} neurons share frequency ${f.state.k}. So far as their phases spread around the whole circle, a sum over neurons is a sum over sample points φ_i with weights w_i that add up to 2π.`,
    },
    {
      title: "The sum and the integral", views: ["rectangles"], state: { part: "abs" },
      say: (f) => f.point ? `Each neuron is a rectangle: as wide as w_i, as high as ${Q.activations.SHAPES[f.shape].height} cos(kwc + ψ_i). Together they make ${short(f.point.sum)}; the integral under the curve is ${Q.activations.SHAPES[f.shape].words} · cos(kw(a+b−c)) = ${short(f.point.integral)}. It is largest where c = a + b${f.integrates ? ": integrating is how the network adds" : ""}.` : Q.words[f.engine.model.activation].no_rule || "This frequency has no cluster to integrate with.",
    },
    {
      title: "How wrong is it?", views: ["rectangles"], state: { part: "abs", period: "half" },
      say: (f) => !f.claims ? Q.words[f.engine.model.activation].no_rule || "Without two neurons at one frequency there is no rule, and no error of one." : f.shape !== "abs" ? `The paper's bound is about ReLU and |x|; for ${Q.words[f.engine.model.activation].name} the sum at this a, b and c is off by ${short(f.point.error)}.` : `The paper bounds the error from the orange band (how far each rectangle reaches from its phase): at most ${atMost(f.claims.totalAbsHalf)}, ${percentAtMost(f.claims.totalAbsHalf / f.claims.baseline)} of the integral's mean size. Sorting the phases once gives the worst error over all a, b, c exactly: ${short(f.claims.exactPsi.abs)}, or ${percent(f.claims.exactPsi.abs / f.claims.baseline)}.`,
    },
    {
      title: "Break it", views: ["circle", "rectangles", "grid"], state: { arc: 0.3 },
      say: (f) => `Drop the neurons on 30 % of the circle and the rectangles must stretch over the gap${f.claims && f.shape in f.claims.exactPsi ? `: the exact error at frequency ${f.state.k} is now ${short(f.claims.exactPsi[f.shape])}` : ""}. ${count(f.verdict.wrong)} of ${count(f.verdict.inputs)} inputs are answered wrong. Drag a dot, or turn another dial.`,
    },
    {
      title: "The whole network", views: ["logits", "grid"], state: { show: "interpretation" },
      say: (f) => `A few frequencies together single out one c: logit ≈ Σ_k (C_k |cos u| + D_k cos 2u) cos(kw(a+b−c)), the dashed line${f.form ? ` with ${f.form.keys.map((k, j) => `C = ${short(f.form.C[j])}, D = ${short(f.form.D[j])} at k = ${k}`).join("; ")}` : ""}. Of ${count(f.verdict.inputs)} inputs ${f.verdict.wrong === 0 ? `every one is answered right, by a margin of at least ${atLeast(f.verdict.smallest)}` : `${count(f.verdict.wrong)} are answered wrong`}${f.difference !== null && f.difference !== undefined ? `, and no logit is further than ${atMost(f.difference)} from this formula` : ""}. quadlens certify says which answers can be proved right.`,
    },
  ];

  /** The saved state of step 1 … 7. */
  function stateOf(step, info) {
    return { ...Q.state.defaults(info), ...STEPS[step - 1].state, tour: step };
  }

  return { STEPS, stateOf };
})();
