// Start: the model is in the page as base64 of its own file.
(() => {
  Q.words = JSON.parse(document.getElementById("words-by-activation").textContent);
  const packed = document.getElementById("model");
  const text = atob(packed.textContent.trim()), bytes = new Uint8Array(text.length);
  for (let j = 0; j < text.length; j++) bytes[j] = text.charCodeAt(j);
  document.documentElement.classList.add("live");
  // The page writes its own address as soon as it shows something, and the run comes later.
  const fragment = location.hash;
  Q.app.open(bytes, packed.dataset.name, fragment);
  Q.controls.bind(Q.app);
  const { view, tour } = Q.app.state();
  if (view && Q.app.shown().includes(view)) Q.app.reveal(view);
  else if (tour) Q.app.reveal(Q.tour.STEPS[tour - 1].views[0]);
  const ready = () => {
    performance.mark("quadlens-ready");
    document.documentElement.dataset.ready = "true";
  };
  const played = document.getElementById("played-run");
  if (!played) return ready();
  // A browser that cannot unpack the run shows the model without it.
  const unable = (error) => Q.controls.say(`The run that made this model cannot be played here (${error.message}); everything else works.`, true);
  return Q.playedRun.load(played.textContent, Q.app.engine().model).then((run) => Q.app.attach(run, fragment), unable).then(ready);
})();
