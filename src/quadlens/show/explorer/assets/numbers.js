// How numbers are written in the page.
Q.numbers = (() => {
  /** Three significant digits of a size, and no more zeros than needed. */
  function digits(size) {
    if (size < 1e-200) return "0";
    return size >= 999.5 ? size.toFixed(0) : size < 1e-4 ? size.toExponential(1) : size.toPrecision(3);
  }

  /** The nearest number, away from zero (sign 1) or towards it (sign -1) where the nearest lies on the wrong side. */
  function beside(size, sign) {
    const nearest = Number(digits(size));
    // Where both are the same double the decimal may lie off by less than rounding, which `claims` allows for.
    if (sign * (nearest - size) >= 0 || nearest === 0) return digits(size);
    const exponent = Math.floor(Math.log10(nearest) + 1e-12), last = nearest >= 999.5 ? 0 : exponent - (nearest < 1e-4 ? 1 : 2);
    return digits(nearest + sign * 10 ** last);
  }

  function signed(x, write) {
    if (x === null || x === undefined || Number.isNaN(x)) return "–";
    if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
    const words = write(Math.abs(x));
    return (x < 0 && words !== "0" ? "−" : "") + words;
  }

  /** Three significant digits, a real minus sign. */
  const short = (x) => signed(x, digits);
  /** The same rounded up: what is read as an upper bound must be one. */
  const atMost = (x) => signed(x, (size) => beside(size, x < 0 ? -1 : 1));
  /** Rounded down, for lower bounds. */
  const atLeast = (x) => signed(x, (size) => beside(size, x < 0 ? 1 : -1));

  const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (x) => `${short(100 * x)} %`;
  const percentAtMost = (x) => `${atMost(100 * x)} %`;
  /** An angle as a multiple of π. */
  const inPi = (x) => `${short(x / Math.PI)}π`;

  /** Rows of an array of arrays as CSV. */
  function csv(head, rows) {
    return [head, ...rows].map((row) => row.join(",")).join("\n") + "\n";
  }

  return { short, atMost, atLeast, count, percent, percentAtMost, inPi, csv };
})();
