// Start: the model is in the page as base64 of its own file.
(() => {
  // The page writes its own address as soon as it shows something, and the run comes later.
  const packed = document.getElementById("model"), fragment = location.hash;
  const said = (name) => JSON.parse(document.getElementById(name).textContent);

  function start() {
    [Q.words, Q.layout] = [said("words-by-activation"), said("file-layout")];
    const text = atob(packed.textContent.trim()), bytes = new Uint8Array(text.length);
    for (let j = 0; j < text.length; j++) bytes[j] = text.charCodeAt(j);
    document.documentElement.classList.add("live");
    Q.app.open(bytes, packed.dataset.name, fragment);
    Q.controls.bind(Q.app);
    const { view, tour } = Q.app.state();
    if (view && Q.app.shown().includes(view)) Q.app.reveal(view);
    else if (tour) Q.app.reveal(Q.tour.STEPS[tour - 1].views[0]);
  }

  try {
    start();
  } catch (error) {
    // Empty views and dials that move nothing would say that all is well; what is wrong, the page's first script says.
    document.documentElement.classList.remove("live");
    throw error;
  }
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
