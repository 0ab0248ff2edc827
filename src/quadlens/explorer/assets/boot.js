// Start: the model is in the page as base64 of its own file.
(() => {
  Q.words = JSON.parse(document.getElementById("words-by-activation").textContent);
  const packed = document.getElementById("model");
  const text = atob(packed.textContent.trim()), bytes = new Uint8Array(text.length);
  for (let j = 0; j < text.length; j++) bytes[j] = text.charCodeAt(j);
  document.documentElement.classList.add("live");
  Q.app.open(bytes, packed.dataset.name, location.hash);
  Q.controls.bind(Q.app);
  const { view, tour } = Q.app.state();
  if (view && Q.app.shown().includes(view)) Q.app.reveal(view);
  else if (tour) Q.app.reveal(Q.tour.STEPS[tour - 1].views[0]);
  performance.mark("quadlens-ready");
  document.documentElement.dataset.ready = "true";
})();
