// The task: which c is the right answer to (a, b). Whatever judges an answer asks here; only the quadrature and the
// closed form know that the task is addition.
Q.task = (() => {
  /** answers[a·p + b] for every input. */
  function answersOf({ p }) {
    return Int32Array.from({ length: p * p }, (_, at) => (Math.floor(at / p) + (at % p)) % p);
  }

  const question = (a, b) => `${a} + ${b}`;

  return { answersOf, question };
})();
