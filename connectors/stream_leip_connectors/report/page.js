(() => {
  const page = JSON.parse(document.getElementById("history").textContent);
  const { by, follow } = figures;

  const box = document.getElementById("search"), told = document.getElementById("told");
  const back = document.getElementById("back"), on = document.getElementById("on");
  const panels = [...document.querySelectorAll(".panel")];
  let first = 0;

  function show() {
    const wanted = (box ? box.value : "").trim().toLowerCase();
    const found = page.order.filter((j) => page.classes[j].toLowerCase().includes(wanted));
    first = Math.min(first, Math.max(0, found.length - 1));
    first -= first % panels.length;
    panels.forEach((panel, k) => {
      const j = found[first + k];
      panel.hidden = j === undefined;
      if (j === undefined) return;
      panel.querySelector("h3").textContent = page.classes[j];
      panel.dataset.label = String(j);
      const slot = page.slots[k];
      const truth = by(slot.truth);
      if (truth && page.truth) truth.data = { x: page.truth.x, y: page.truth.y[j] };
      slot.lanes.forEach((id, i) => {
        const lane = page.lanes[i], data = { x: lane.x, y: lane.y[j] };
        if (lane.low) Object.assign(data, { low: lane.low[j], high: lane.high[j] });
        by(id).data = data;
      });
    });
    if (!told) return;
    const last = Math.min(first + panels.length, found.length);
    told.textContent = found.length ? `${first + 1} to ${last} of ${found.length}` : "no class of that name";
    back.disabled = first === 0;
    on.disabled = last >= found.length;
  }

  function begin() {
    if (!Bokeh.documents.length || !by(page.painted.axes[0])) { setTimeout(begin, 30); return; }
    follow(page.painted, page.legend);
    show();
    if (box) {
      box.addEventListener("input", () => { first = 0; show(); });
      back.addEventListener("click", () => { first -= panels.length; show(); });
      on.addEventListener("click", () => { first += panels.length; show(); });
    }
    document.documentElement.dataset.ready = "yes";
  }
  begin();
})();
