// The task: which c is the right answer to (a, b), in its own words, and the renaming that makes it addition.
// As quadlens.network.task; whatever judges an answer asks here.
Q.task = (() => {
  const GROUP = /^([CDSA])([1-9]\d{0,5})$/, LINEAR = /^linear:(-?\d{1,9}),(-?\d{1,9})$/, LARGEST_GROUP = 2048, MOST_STEPS = 1e7;
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

  /** Rows of one factor of a group, by the rules of quadlens.network.groups: Cn, Dn, Sn or An. */
  function factor(kind, degree) {
    const i = [...Array(degree).keys()];
    if (kind === "C") return i.map((a) => i.map((b) => (a + b) % degree));
    if (kind === "D") {
      const all = [...Array(2 * degree).keys()], turn = (x) => (x < degree ? 1 : -1);
      return all.map((x) => all.map((y) => mod((x % degree) + turn(x) * (y % degree), degree) + (turn(x) === turn(y) ? 0 : degree)));
    }
    const grow = (chosen) => (chosen.length === degree ? [chosen] : i.filter((k) => !chosen.includes(k)).flatMap((k) => grow([...chosen, k])));
    const even = (x) => x.reduce((sum, v, at) => sum + x.slice(at + 1).filter((w) => w < v).length, 0) % 2 === 0;
    const elements = grow([]).filter((x) => kind === "S" || even(x)), number = new Map(elements.map((x, at) => [x.join(), at]));
    return elements.map((x) => elements.map((y) => number.get(y.map((k) => x[k]).join())));
  }

  function groupTable(name) {
    let table = [[0]];
    for (const part of name.split("x")) {
      const [, kind, degree] = GROUP.exec(part), right = factor(kind, Number(degree)), size = right.length;
      table = table.flatMap((row) => right.map((line) => row.flatMap((x) => line.map((y) => x * size + y))));
    }
    return table;
  }

  /** A number for each element that no renumbering changes: order, how many commute with it, how many are its roots. */
  function kinds(table) {
    const n = table.length, roots = new Array(n).fill(0);
    for (let x = 0; x < n; x++) roots[table[x][x]]++;
    return table.map((row, x) => {
      let size = 1, y = row[x];
      for (; y !== x && size <= n; size++) y = table[y][x];
      const commuting = row.filter((z, other) => table[other][x] === z).length;
      return (size * (n + 1) + commuting) * (n + 1) + roots[x];
    });
  }

  /** Whether a table is the product of a group, its elements in any order: as is_group_called in Python. */
  function isGroupCalled(name, table) {
    const known = groupTable(name), n = known.length, mine = kinds(known), theirs = kinds(table), generators = [];
    if (mine.slice().sort((x, y) => x - y).join() !== theirs.slice().sort((x, y) => x - y).join()) return false;
    let steps = 0;
    const mapped = (other, images, targets) => {
      const found = new Map(images.map((image, j) => [generators[j], image]));
      for (const [x, fx] of found) {
        steps += images.length;
        for (let j = 0; j < images.length; j++) {
          const y = known[x][generators[j]], target = other[fx][images[j]];
          if (!found.has(y)) found.set(y, target);
          if (found.get(y) !== target || mine[y] !== targets[target]) return null;
        }
      }
      return found;
    };
    for (let inside = new Map(); inside.size < n; inside = mapped(known, generators, mine)) {
      const free = [...Array(n).keys()].filter((x) => !inside.has(x));
      generators.push(free.reduce((best, x) => (mine[x] > mine[best] ? x : best)));
    }
    const search = (chosen) => {
      const found = mapped(table, chosen, theirs);
      if (!found || chosen.length === generators.length) return found;
      const taken = new Set(found.values());
      for (let y = 0; y < n && steps <= MOST_STEPS; y++) {
        if (taken.has(y) || theirs[y] !== mine[generators[chosen.length]]) continue;
        const whole = search([...chosen, y]);
        if (whole) return whole;
      }
      return null;
    };
    const images = generators.length ? search([]) : new Map([[0, 0]]);
    if (!images || images.size < n || new Set(images.values()).size < n) return false;
    return known.every((row, x) => row.every((z, y) => table[images.get(x)][images.get(y)] === images.get(z)));
  }

  /** A task from its table, which is n × n with values 0 … n-1. */
  function byTable(name, n, answers, need) {
    if (name !== "table") {
      need(order(name) !== null, `No group is called ${name}; expected C118, D59, S5, A5 or a product such as C5xC5.`);
      need(order(name) === n, `The table has ${n} elements, but ${name} has ${order(name)}.`);
    }
    need(answers.every((x) => x >= 0 && x < n), `The table of ${name} has values other than 0 … ${n - 1}.`);
    const rows = () => Array.from({ length: n }, (_, a) => [...answers.subarray(a * n, a * n + n)]);
    need(name === "table" || isGroupCalled(name, rows()), `The table of ${name} is not that of the group, in whatever order of its elements.`);
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
