// How numbers are written in the page.
Q.numbers = (() => {
  /** Three significant digits, a real minus sign, and no more zeros than needed. */
  function short(x) {
    if (x === null || x === undefined || Number.isNaN(x)) return "–";
    if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
    const size = Math.abs(x);
    const words = size < 1e-200 ? "0" : size >= 1000 ? size.toFixed(0) : size < 1e-4 ? size.toExponential(1) : size.toPrecision(3);
    return (x < 0 ? "−" : "") + words;
  }

  const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (x) => `${short(100 * x)} %`;
  const turns = (x) => `${short(x / Math.PI)}π`;

  /** Rows of an array of arrays as CSV. */
  function csv(head, rows) {
    return [head, ...rows].map((row) => row.join(",")).join("\n") + "\n";
  }

  return { short, count, percent, turns, csv };
})();
