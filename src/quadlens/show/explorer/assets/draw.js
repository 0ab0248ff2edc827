// Canvas helpers: sharp at any pixel density, colours from the page's own style.
Q.draw = (() => {
  const cache = new Map();

  /** A custom property of the page; read once per theme. */
  function colour(name) {
    if (!cache.has(name)) cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return cache.get(name);
  }

  const forget = () => cache.clear();

  function rgb(hex) {
    const x = hex.replace("#", ""), wide = x.length === 3 ? x.replace(/./g, "$&$&") : x;
    return [0, 2, 4].map((i) => parseInt(wide.slice(i, i + 2), 16));
  }

  function alpha(hex, amount) {
    return `rgba(${rgb(hex)},${amount})`;
  }

  const sizes = new WeakMap();
  const watcher = typeof ResizeObserver === "function" ? new ResizeObserver((entries) => entries.forEach((e) => sizes.delete(e.target))) : null;

  /** Cleared context of a canvas with its width and height in CSS pixels. */
  function open(canvas) {
    let size = sizes.get(canvas);
    if (!size) {
      const box = canvas.getBoundingClientRect();
      size = { width: box.width, height: box.height };
      sizes.set(canvas, size);
      if (watcher) watcher.observe(canvas);
    }
    const density = window.devicePixelRatio || 1;
    const w = Math.max(1, Math.round(size.width * density)), h = Math.max(1, Math.round(size.height * density));
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const g = canvas.getContext("2d");
    g.setTransform(density, 0, 0, density, 0, 0);
    g.clearRect(0, 0, size.width, size.height);
    g.font = "11px system-ui, sans-serif";
    g.lineWidth = 1;
    return { g, width: size.width, height: size.height };
  }

  function text(g, words, x, y, align, name) {
    g.fillStyle = colour(name || "soft");
    g.textAlign = align || "left";
    g.fillText(words, x, y);
  }

  function line(g, x0, y0, x1, y1, style) {
    g.strokeStyle = style;
    g.beginPath();
    g.moveTo(x0, y0);
    g.lineTo(x1, y1);
    g.stroke();
  }

  const buffers = new WeakMap();

  /** A p × p map, x to the right, y upwards: blue above zero, vermilion below, nothing for NaN; `scale`: full strength on each side. */
  function heatmap(canvas, task, value, scale, marks) {
    const p = task.n, first = Q.task.first(task);
    const { g, width, height } = open(canvas);
    const left = 30, bottom = 20, side = Math.min(width - left - 4, height - bottom - 6);
    if (!buffers.has(canvas) || buffers.get(canvas).width !== p) {
      const made = document.createElement("canvas");
      made.width = made.height = p;
      buffers.set(canvas, made);
    }
    const buffer = buffers.get(canvas), h = buffer.getContext("2d"), image = h.createImageData(p, p);
    const ground = rgb(colour("card")), plus = rgb(colour("plus")), minus = rgb(colour("minus"));
    for (let y = 0; y < p; y++)
      for (let x = 0; x < p; x++) {
        const v = value(x, y), at = 4 * ((p - 1 - y) * p + x);
        // Of margins, a wrong answer is never faint, and differences among large ones stay visible.
        if (Number.isNaN(v)) continue;
        const t = Math.min(1, Math.abs(v) / (v > 0 ? scale[0] : scale[1])), strength = !marks.strong ? t : v > 0 ? 0.1 + 0.9 * t ** 2.5 : 0.5 + t / 2;
        const to = v > 0 ? plus : minus;
        for (let j = 0; j < 3; j++) image.data[at + j] = ground[j] + (to[j] - ground[j]) * strength;
        image.data[at + 3] = 255;
      }
    h.putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    const x0 = left + Math.max(0, (width - left - 4 - side) / 2), y0 = 4;
    g.drawImage(buffer, x0, y0, side, side);
    g.strokeStyle = colour("line");
    g.strokeRect(x0, y0, side, side);
    const cell = side / p;
    // As close as there is room for, and clear of the names at the ends.
    const tick = [10, 20, 50, 100].find((t) => t * cell >= 30) || 200;
    for (let t = first ? tick - first : 0; t < p; t += tick) {
      if ((t + 0.5) * cell < side - 34) text(g, t + first, x0 + (t + 0.5) * cell, y0 + side + 13, "center");
      if ((t + 0.5) * cell < side - 14) text(g, t + first, x0 - 4, y0 + side - (t + 0.5) * cell + 4, "right");
    }
    text(g, "a →", x0 + side, y0 + side + 13, "right");
    text(g, "b ↑", x0 - 4, y0 + 8, "right");
    for (const [x, y, style] of marks.cells) {
      g.strokeStyle = style;
      g.lineWidth = 2;
      g.strokeRect(x0 + x * cell - 1, y0 + side - (y + 1) * cell - 1, cell + 2, cell + 2);
    }
    return { x0, y0, side, cell };
  }

  /** The cell of a heat map under a pointer, or null. */
  function cellAt(canvas, map, event, p) {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left - map.x0) / map.cell), y = p - 1 - Math.floor((event.clientY - box.top - map.y0) / map.cell);
    return x >= 0 && x < p && y >= 0 && y < p ? [x, y] : null;
  }

  return { colour, forget, alpha, open, text, line, heatmap, cellAt };
})();
