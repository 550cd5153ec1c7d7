(() => {
  const ids = JSON.parse(document.getElementById("ids").textContent);
  const { by, fit, follow } = figures;
  const at = (id) => document.getElementById(id);
  // Names of keys and classes are data: they become text, never markup.
  const write = (id, text) => { const node = at(id); if (node.textContent !== text) node.textContent = text; };
  const make = (tag, text) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; return node; };

  const asked = { stream: null, name: null, search: "", classes: "", paused: false, first: null, last: null, download: 0 };
  let board, range, told = null, mode = "0", ours = false, beaten = Date.now();
  const link = (name) => `${location.pathname}?key=${encodeURIComponent(name)}`;
  asked.name = new URLSearchParams(location.search).get("key");

  const ask = () => { board.asked = JSON.stringify(asked); };

  function rows(id, pairs) {
    const body = at(id).tBodies[0];
    body.replaceChildren(...pairs.map(([name, value]) => {
      const row = make("tr");
      row.append(make("td", name), make("td", value));
      return row;
    }));
  }

  function movers(lines) {
    at("movers").tBodies[0].replaceChildren(...lines.map((line) => {
      const row = make("tr"), name = make("td"), bar = make("td"), track = make("span");
      if (line.slot !== null) {
        const swatch = make("span");
        swatch.className = "swatch";
        swatch.style.background = ids.colours[line.slot];
        name.append(swatch);
      }
      name.append(line.name);
      track.className = "bar";
      const share = make("i");
      share.style.width = `${100 * line.share}%`;
      track.append(share);
      if (line.home !== null) {
        const home = make("u");
        home.style.left = `${100 * line.home}%`;
        track.append(home);
      }
      track.setAttribute("aria-hidden", "true");
      bar.append(track);
      row.append(name, make("td", line.source), make("td", line.now), make("td", line.interval), make("td", line.change), bar);
      return row;
    }));
  }

  function zoom() {
    if (!told || told.end === null || mode === "drawn") return;
    let begin = told.begins[Number(mode)], end = told.end;
    if (begin >= end) [begin, end] = [begin - 1, end + 1];
    ours = true;
    range.setv({ start: begin, end: end, reset_start: told.begins[0], reset_end: end });
    ours = false;
  }

  function choose(wanted) {
    mode = wanted;
    at("range").value = mode;
    Object.assign(asked, { first: mode === "0" || !told ? null : told.begins[Number(mode)], last: null });
    zoom();
    ask();
  }

  function drawn() {
    if (ours || (told && range.start === told.begins[0] && range.end === told.end)) return;
    mode = "drawn";
    at("range").value = mode;
    Object.assign(asked, { first: range.start, last: range.end });
    ask();
  }

  function tell() {
    if (!board.told) return;
    told = JSON.parse(board.told);
    if (told.reload) { location.replace(link(told.name)); return; }
    if (at("name").textContent !== told.name && asked.stream === told.stream) history.replaceState(null, "", link(told.name));
    write("name", told.name);
    document.title = `${told.alarm.state === "raised" ? "▲ " : ""}${told.name} – class mix`;
    // A class and its share stay on one line where there is room.
    at("mix-now").replaceChildren(...told.mix.flatMap((each, j) => [" ", make("span", j + 1 < told.mix.length ? `${each},` : each)]));
    write("alarm-word", told.alarm.word);
    at("alarm-card").dataset.state = told.alarm.state;
    write("alarm-said", told.alarm.said);
    write("check-word", told.check.word);
    at("check-card").dataset.state = told.check.flagged ? "bad" : "good";
    write("check-said", told.check.said);
    write("window", told.window);
    write("confidence", told.confidence);
    movers(told.movers);
    write("told", told.found > told.movers.length ? `${told.movers.length} of ${told.found} classes` : told.found ? "" : "no class of that name");
    at("onsets").replaceChildren(...told.alarm.onsets.map((each) => make("li", each)));
    rows("numbers", told.numbers);
    rows("settings", told.settings);
    zoom();
    fit(ids.painted, ids.legend);
    document.documentElement.dataset.ready = "yes";
  }

  function pulse() {
    if (!board.pulse) return;
    const said = JSON.parse(board.pulse);
    const health = at("health");
    health.dataset.state = said.state;
    write("health", `${said.health}${said.unread ? `, ${said.unread} still to read` : ""} · ${said.updates.toLocaleString("en")} updates`);
    at("notes").replaceChildren(...said.notes.map((each) => make("div", each)));
    write("found", said.streams > 1 ? `${said.found.toLocaleString("en")} of ${said.streams.toLocaleString("en")} keys` : "");
    keys(said.keys);
    document.documentElement.dataset.connected = "yes";
  }

  let listed = "";
  function keys(entries) {
    const list = at("keys"), shown = told ? told.stream : null;
    const now = JSON.stringify([entries, shown]);
    // Not under the reader's hands: a list that is open stays as it is.
    if (now === listed || (document.activeElement === list && list.matches(":open, :hover"))) return;
    listed = now;
    const options = entries.map(([id, name, state, alarms]) => {
      const option = make("option", `${["", "△ ", "▲ "][state]}${name}${alarms ? ` (${alarms} alarm${alarms > 1 ? "s" : ""})` : ""}`);
      option.value = String(id);
      return option;
    });
    if (shown !== null && !entries.some(([id]) => id === shown)) {
      const option = make("option", told.name);
      option.value = String(shown);
      options.unshift(option);
    }
    list.replaceChildren(...options);
    if (shown !== null) list.value = String(shown);
  }

  function save(name, blob) {
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  const stem = () => `mix-${told ? told.name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 60) : "none"}`;

  async function picture() {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const views = ids.figures.map((id) => Bokeh.index.roots.find((view) => view.model.id === id)).filter((view) => view);
    const layers = views.map((view) => view.export("png", true).canvas).filter((layer) => layer.width);
    const wide = Math.max(...layers.map((layer) => layer.width)), head = 60;
    const sheet = make("canvas");
    sheet.width = wide;
    sheet.height = head + layers.reduce((sum, layer) => sum + layer.height, 0);
    const pen = sheet.getContext("2d");
    pen.fillStyle = colour("--back");
    pen.fillRect(0, 0, sheet.width, sheet.height);
    pen.fillStyle = colour("--ink");
    pen.font = "24px system-ui, sans-serif";
    pen.fillText(told ? `${told.name}: ${told.mix.join(", ")}` : "", 12, 38, wide - 24);
    let y = head;
    for (const layer of layers) { pen.drawImage(layer, 0, y); y += layer.height; }
    save(`${stem()}.png`, await new Promise((done) => sheet.toBlob(done, "image/png")));
  }

  let back = false;
  async function listen() {
    if (Date.now() - beaten < 6000) return;
    at("health").dataset.state = "lost";
    write("health", "the dashboard does not answer; what you see is from before");
    if (back) return;
    back = true;
    try { if ((await fetch("metadata", { cache: "no-store" })).status < 500) location.reload(); } catch { /* still away */ }
    back = false;
  }

  function later(action) {
    let waiting;
    return () => { clearTimeout(waiting); waiting = setTimeout(action, 150); };
  }

  function begin() {
    board = Bokeh.documents.length ? by(ids.board) : null;
    if (!board || ids.figures.some((id) => !Bokeh.index.roots.some((view) => view.model.id === id))) { setTimeout(begin, 30); return; }
    range = by(ids.range);
    follow(ids.painted, ids.legend);
    board.properties.told.change.connect(tell);
    board.properties.pulse.change.connect(pulse);
    board.properties.beat.change.connect(() => { beaten = Date.now(); });
    board.properties.csv.change.connect(() => save(`${stem()}.csv`, new Blob([board.csv.slice(board.csv.indexOf("\n") + 1)], { type: "text/csv" })));
    range.properties.start.change.connect(drawn);
    range.properties.end.change.connect(drawn);
    at("search").addEventListener("input", later(() => { asked.search = at("search").value; ask(); }));
    at("classes").addEventListener("input", later(() => { asked.classes = at("classes").value; ask(); }));
    at("keys").addEventListener("change", () => {
      asked.stream = Number(at("keys").value);
      asked.name = null;
      ask();
    });
    at("range").addEventListener("change", () => choose(at("range").value));
    for (const id of ids.figures) by(id).on_event("reset", () => choose("0"));
    at("pause").addEventListener("click", () => {
      asked.paused = !asked.paused;
      at("pause").setAttribute("aria-pressed", String(asked.paused));
      write("pause", asked.paused ? "Go on" : "Pause");
      ask();
    });
    at("csv").addEventListener("click", () => { asked.download += 1; ask(); });
    at("png").addEventListener("click", picture);
    setInterval(listen, 2000);
    ask();
    tell();
    pulse();
  }
  begin();
})();
