// JSON as Python reads it, and stricter: a key that stands twice is refused, and 1.0 is not 1.
// Objects become Maps, integers BigInts, fractions Numbers, so that nothing is mistaken for something else.
Q.strictJson = (() => {
  const SPACE = /[ \t\n\r]*/y, STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
  const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y, WORD = /true|false|null/y;
  const DEEPEST = 50, LONGEST_INTEGER = 100;

  /** The value of a text; throws an Error that says what is wrong. */
  function parse(text) {
    let at = 0;

    function token(pattern) {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (found) at += found[0].length;
      return found;
    }

    function skipped(character) {
      token(SPACE);
      if (text[at] !== character) return false;
      at++;
      token(SPACE);
      return true;
    }

    function expect(done, what) {
      if (!done) throw new Error(`not well-formed JSON: expected ${what} at character ${at}`);
      return done;
    }

    function list(end, item) {
      if (skipped(end)) return;
      do item();
      while (skipped(","));
      expect(skipped(end), `"${end}"`);
    }

    function value(depth) {
      if (depth > DEEPEST) throw new Error(`nested deeper than ${DEEPEST}`);
      if (skipped("{")) return object(depth);
      if (skipped("[")) {
        const items = [];
        list("]", () => items.push(value(depth + 1)));
        return items;
      }
      const string = token(STRING);
      if (string) return JSON.parse(string[0]);
      const word = token(WORD);
      if (word) return JSON.parse(word[0]);
      const [digits, fraction, exponent] = expect(token(NUMBER), "a value");
      if (fraction || exponent) return Number(digits);
      if (digits.length > LONGEST_INTEGER) throw new Error(`an integer with ${digits.length} digits`);
      return BigInt(digits);
    }

    function object(depth) {
      const found = new Map();
      list("}", () => {
        const key = JSON.parse(expect(token(STRING), "a key")[0]);
        if (found.has(key)) throw new Error(`the key "${key}" stands twice`);
        expect(skipped(":"), '":"');
        found.set(key, value(depth + 1));
      });
      return found;
    }

    token(SPACE);
    const found = value(0);
    token(SPACE);
    expect(at === text.length, "the end");
    return found;
  }

  /** The text that Python's json.dumps(value, sort_keys=True) gives: what a checksum covers. */
  function pythonText(value) {
    if (value instanceof Map) return `{${[...value.keys()].sort().map((key) => `${quoted(key)}: ${pythonText(value.get(key))}`).join(", ")}}`;
    if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
    if (typeof value === "string") return quoted(value);
    return typeof value === "number" ? pythonFloat(value) : String(value);
  }

  const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (x) => `\\u${x.charCodeAt(0).toString(16).padStart(4, "0")}`);

  /** repr(x): the shortest digits, as 1.0, 0.0001, 1e-05 or 1e+16. */
  function pythonFloat(x) {
    if (Object.is(x, -0)) return "-0.0";
    const [digits, exponent] = x.toExponential().split("e");
    if (Number(exponent) < -4 || Number(exponent) >= 16) return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
    const plain = String(x);
    return plain.includes(".") ? plain : `${plain}.0`;
  }

  return { parse, pythonText };
})();
