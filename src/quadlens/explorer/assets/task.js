// The task: which c is the right answer to (a, b), in its own words, and the renaming that makes it addition.
// As quadlens.model.task; whatever judges an answer asks here.
Q.task = (() => {
  const GROUP = /^([CDSA])([1-9]\d{0,5})$/, LINEAR = /^linear:(-?\d{1,9}),(-?\d{1,9})$/, LARGEST_GROUP = 2048;
  const mod = (x, n) => ((x % n) + n) % n;
  const gcd = (x, y) => (y ? gcd(y, x % y) : Math.abs(x));
  const count = (n) => Int32Array.from({ length: n }, (_, i) => i);

  function isPrime(p) {
    for (let q = 2; q * q <= p; q++) if (p % q === 0) return false;
    return p >= 2;
  }

  function power(base, exponent, p) {
    let out = 1;
    for (let j = 0; j < exponent; j++) out = (out * base) % p;
    return out;
  }

  /** Number of elements of a group by its name; null where no group is called that. */
  function order(name) {
    let total = 1;
    for (const part of name.split("x")) {
      const found = GROUP.exec(part);
      if (!found) return null;
      const degree = Number(found[2]);
      let mine = found[1] === "D" ? 2 * degree : degree;
      if (found[1] === "S" || found[1] === "A") {
        mine = found[1] === "A" && degree > 1 ? 0.5 : 1;
        for (let j = 2; j <= Math.min(degree, 20); j++) mine *= j;
      }
      total *= mine;
    }
    return total <= LARGEST_GROUP ? total : null;
  }

  /** α and β of α a + β b; null where the name is no such task. */
  function coefficients(name, n) {
    if (name === "add" || name === "subtract") return [1, name === "add" ? 1 : n - 1];
    const found = LINEAR.exec(name);
    return found ? [Number(found[1]), Number(found[2])] : null;
  }

  /** {name, n, answers, symbols, place, words, cyclic} of a formula; `need(condition, words)` refuses. */
  function byFormula(name, n, need) {
    const linear = coefficients(name, n), p = name === "multiply0" ? n : n + 1;
    need(linear || ["multiply", "divide", "multiply0"].includes(name), order(name) === null
      ? `No task is called ${name}; expected add, subtract, linear:α,β, multiply, divide, multiply0, or a group with its table.`
      : `The task ${name} comes without its table.`);
    const answers = new Int32Array(n * n);
    if (linear) {
      for (const value of linear) need(gcd(value, n) === 1, `${name}: ${value} and n = ${n} have a common factor; expected units modulo n.`);
      const [alpha, beta] = linear.map((x) => mod(x, n));
      for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) answers[a * n + b] = (alpha * a + beta * b) % n;
      const symbols = name === "add" ? "a + b" : name === "subtract" ? "a − b" : `${alpha}a + ${beta}b`;
      const ofA = count(n).map((i) => (alpha * i) % n), ofB = count(n).map((i) => (beta * i) % n);
      return { name, n, answers, symbols, place: `mod ${n}`, words: `${symbols} mod ${n}`, cyclic: { ofA, ofB, ofC: count(n), isIdentity: alpha === 1 && beta === 1 } };
    }
    need(isPrime(p), `${name} is about a prime modulus; ${n} elements would make it ${p}, which is not prime.`);
    const factor = count(n).map((b) => (name === "divide" ? power(b + 1, p - 2, p) : b + 1));
    for (let a = 0; a < n; a++)
      for (let b = 0; b < n; b++) answers[a * n + b] = name === "multiply0" ? (a * b) % p : ((a + 1) * factor[b]) % p - 1;
    const symbols = name === "divide" ? "a / b" : "a · b";
    return { name, n, answers, symbols, place: `mod ${p}`, words: `${symbols} mod ${p}${name === "multiply0" ? ", 0 included" : ""}`, cyclic: name === "multiply0" ? searched(answers, n) : logarithms(name, n) };
  }

  /** The discrete logarithm to the smallest primitive root. */
  function logarithms(name, n) {
    const p = n + 1;
    for (let root = 1; ; root++) {
      const log = new Int32Array(n).fill(-1);
      for (let j = 0, x = 1; j < n; j++, x = (x * root) % p) if (log[x - 1] < 0) log[x - 1] = j;
      if (log.includes(-1)) continue;
      const ofB = name === "multiply" ? log : log.map((x) => mod(-x, n));
      return { ofA: log, ofB, ofC: log, root, isIdentity: n < 3 };
    }
  }

  /** A task from its table, which is n × n with values 0 … n-1. */
  function byTable(name, n, answers, need) {
    if (name !== "table") {
      need(order(name) !== null, `No group is called ${name}; expected C118, D59, S5, A5 or a product such as C5xC5.`);
      need(order(name) === n, `The table has ${n} elements, but ${name} has ${order(name)}.`);
    }
    need(answers.every((x) => x >= 0 && x < n), `The table of ${name} has values other than 0 … ${n - 1}.`);
    const symbols = name[0] === "S" || name[0] === "A" ? "σ·τ" : "a·b";
    return { name, n, answers, symbols, place: name === "table" ? "by a table" : `in ${name}`, words: name === "table" ? "a·b by a table" : `${symbols} in ${name}`, cyclic: searched(answers, n) };
  }

  /** The renaming that makes a table addition, if there is one: see find_cyclic_relabelling in Python. */
  function searched(answers, n) {
    const plain = answers.every((c, at) => c === (Math.floor(at / n) + (at % n)) % n);
    if (plain) return { ofA: count(n), ofB: count(n), ofC: count(n), isIdentity: true };
    const column = count(n).map((a) => answers[a * n]), row = answers.slice(0, n);
    for (const line of [column, row]) if (new Set(line).size < n) return null;
    const loop = new Int32Array(n * n);
    for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) loop[column[a] * n + row[b]] = answers[a * n + b];
    for (let g = 0; g < n; g++) {
      const log = new Int32Array(n).fill(-1);
      let x = answers[0];
      for (let j = 0; j < n && log[x] < 0; j++, x = loop[x * n + g]) log[x] = j;
      if (log.includes(-1)) continue;
      const found = { ofA: column.map((c) => log[c]), ofB: row.map((c) => log[c]), ofC: log, isIdentity: false };
      const holds = answers.every((c, at) => log[c] === (found.ofA[Math.floor(at / n)] + found.ofB[at % n]) % n);
      return holds ? found : null;
    }
    return null;
  }

  /** How the first element is called: on the units of Z_p element i is the residue i + 1. */
  const first = (task) => (task.name === "multiply" || task.name === "divide" ? 1 : 0);
  const label = (task, i) => i + first(task);

  /** A question with its answer as a reader writes it: `12 − 30 ≡ 41`. */
  function sentence(task, a, b, c) {
    const { symbols } = task, [x, y, z] = [a, b, c].map((i) => label(task, i));
    if (LINEAR.test(task.name)) return `${symbols.replace("a", `·${x}`).replace("b", `·${y}`)} ≡ ${z}`;
    if (symbols === "σ·τ" || symbols === "a·b") return `${x}·${y} = ${z}`;
    return `${symbols.replace("a", x).replace("b", y)} ≡ ${z}`;
  }

  return { byFormula, byTable, sentence, first, label };
})();
