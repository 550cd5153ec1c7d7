// Colours and legends of figures, by the reader's theme and the width of the page; narrow axes have fewer numbers.
const figures = (() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const by = (id) => {
    for (const doc of Bokeh.documents) {
      const model = doc.get_model_by_id(id);
      if (model !== null) return model;
    }
    return null;
  };
  const ticks = {};
  const each = (ids, change) => ids.forEach((id) => { const model = by(id); if (model) change(model); });

  function paint(painted) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ink = colour("--ink"), soft = colour("--soft"), line = colour("--line");
    each(painted.axes, (axis) => axis.setv({
      axis_line_color: line, major_tick_line_color: line,
      major_label_text_color: soft, axis_label_text_color: soft,
    }));
    each(painted.grids, (grid) => grid.setv({ grid_line_color: grid.dimension === 0 ? null : line }));
    each(painted.legends, (legend) => legend.setv({
      label_text_color: ink, inactive_fill_color: colour("--back"), inactive_fill_alpha: 0.7,
    }));
    each(painted.inked, (glyph) => glyph.setv({ line_color: ink }));
  }

  const ruler = document.createElement("canvas").getContext("2d");
  const heights = new Map();

  // As many columns as the widest name allows; what the legend takes, the figure gets on top.
  function fit(painted, sizes) {
    const width = document.body.clientWidth;
    each(painted.legends, (legend) => {
      const plot = legend.document.roots().find((root) => root.above && root.above.includes(legend));
      if (!heights.has(plot.id)) heights.set(plot.id, plot.height);
      ruler.font = `${legend.label_text_font_size} ${legend.label_text_font}`;
      const shown = legend.items.filter((item) => item.visible);
      const names = shown.map((item) => ruler.measureText(item.label.value).width);
      const wide = Math.max(0, ...names) + sizes.cell;
      const held = Math.max(1, Math.floor((width - sizes.beside) / wide));
      const ncols = Math.max(1, Math.min(held, names.length)), rows = Math.max(1, Math.ceil(names.length / ncols));
      const height = heights.get(plot.id) + (rows - 1) * sizes.row;
      if (legend.ncols !== ncols) legend.setv({ ncols });
      if (plot.height !== height) plot.setv({ height });
    });
    each(painted.x_axes, (axis) => {
      ticks[axis.id] ??= axis.ticker.desired_num_ticks;
      const most = width < 420 ? 3 : ticks[axis.id];
      if (axis.ticker.desired_num_ticks !== most) axis.ticker.setv({ desired_num_ticks: most });
    });
  }

  function follow(painted, sizes) {
    paint(painted);
    fit(painted, sizes);
    dark.addEventListener("change", () => paint(painted));
    window.addEventListener("resize", () => fit(painted, sizes));
  }
  return { by, fit, follow };
})();
