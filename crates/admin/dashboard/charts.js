// Line charts and stacked areas on a canvas: scales, ticks, drawing. No state, no network.

/** The colours of tenants by place, told apart in light and in dark; the number on each mark says the same without colour. */
export const COLOURS = ["#2f6fde", "#c4532d", "#1f8a5b", "#8d5bd1", "#b8860b", "#c2407f", "#2a8fa3", "#6b7a2e", "#7a5c4a", "#5a6b8c"];

/** A round number of at least `value`: 1, 2 or 5 times a power of ten. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-9));
}

/** Four or five ticks from 0 to at least `top`. */
export function ticks(top) {
  const step = roundUp(top / 4);
  const count = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}

/** Sums from below: the areas of the series lie on each other. */
export function stack(series) {
  const length = Math.max(0, ...series.map((values) => values.length));
  const sums = new Array(length).fill(0);
  return series.map((values) => sums.map((_, index) => (sums[index] += values[index] ?? 0)).slice());
}

/** A number in three digits. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const units = ["", "k", "M", "G", "T"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return Number(value.toPrecision(3)).toString() + units[unit];
}

/**
 * Draws `series`, each `{values, colour}`, newest value last, `points` places wide, on `canvas`. With `stacked` the values are the tops
 * of areas that lie on each other.
 */
export function draw(canvas, series, { points, stacked }) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const [left, right, above, below] = [46, 6, 8, 6];
  const tops = stacked ? stack(series.map(({ values }) => values)) : series.map(({ values }) => values);
  const marks = ticks(Math.max(0, ...tops.flat().filter(Number.isFinite)));
  const top = marks[marks.length - 1];
  const x = (index, length) => left + ((points - length + index) / Math.max(1, points - 1)) * (width - left - right);
  const y = (value) => height - below - (value / top) * (height - above - below);
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const mark of marks) {
    context.strokeStyle = style.getPropertyValue("--line");
    context.fillStyle = style.getPropertyValue("--faint");
    context.beginPath();
    context.moveTo(left, y(mark));
    context.lineTo(width - right, y(mark));
    context.stroke();
    context.fillText(short(mark), left - 6, y(mark));
  }
  // The uppermost area first: those below are drawn over it.
  for (let place = series.length - 1; place >= 0; place -= 1) {
    const values = tops[place];
    context.beginPath();
    let isDrawing = false;
    values.forEach((value, index) => {
      if (!Number.isFinite(value)) { isDrawing = false; return; }
      const [px, py] = [x(index, values.length), y(value)];
      if (isDrawing) context.lineTo(px, py); else context.moveTo(px, py);
      isDrawing = true;
    });
    if (stacked && values.length > 0) {
      context.lineTo(x(values.length - 1, values.length), y(0));
      context.lineTo(x(0, values.length), y(0));
      context.closePath();
      context.fillStyle = series[place].colour;
      context.fill();
    } else {
      context.strokeStyle = series[place].colour;
      context.lineWidth = 2;
      context.stroke();
      context.lineWidth = 1;
    }
  }
}
