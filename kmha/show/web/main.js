// The page: what is chosen, drawn and marked.

import { arcs } from "./arcs.js";
import { chosenSentence, describe, describeFigure, element, listen, showChoice, step } from "./controls.js";
import { chosenMatrix, isZero } from "./data.js";
import { csv, fileName, save } from "./files.js";
import { heatMap } from "./heat_map.js";
import { number } from "./legend.js";
import { CanvasPainter, lines, measure, SvgPainter } from "./painter.js";
import { showSteps } from "./steps.js";
import { scoreTable } from "./table.js";
import { theme } from "./theme.js";

const LARGEST_CANVAS = 8000; // in pixels of the screen; browsers refuse much larger ones
const TITLE = 13; // font size of the title of a saved picture
const LINE = 20; // height of one of its lines

/** @type {import("./data.js").Data} */
const data = JSON.parse(element("data", HTMLElement).textContent || "");
/** @type {import("./controls.js").Choice} */
const choice = {
  moment: data.moments.length - 1,
  sentence: 0,
  view: data.moments[0].sentences[0].views.length - 1,
  layer: 0,
  head: "mean",
  figure: "map",
  zoom: 1,
};
const drawn = element("drawn", HTMLCanvasElement);
const marked = element("marked", HTMLCanvasElement);
const frame = element("frame", HTMLElement);
const details = element("table", HTMLDetailsElement);
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
let chosen = { row: -1, column: -1 }; // the marked tokens
let pinned = false; // whether they stay marked when the pointer moves
let tokens = ""; // the tokens that are shown, for which the marks are meant
let shown = chosenMatrix(data, choice);
let figure = /** @type {any} */ (heatMap);
let at = /** @type {any} */ (null);

/** Draw what is chosen. */
function draw() {
  showChoice(data, choice);
  const view = chosenSentence(data, choice).views[choice.view];
  shown = chosenMatrix(data, choice);
  const now = JSON.stringify([choice.sentence, choice.view, shown.rows, shown.columns]);
  if (now !== tokens) {
    [tokens, chosen, pinned] = [now, { row: -1, column: -1 }, false];
    say();
  }
  const description = describeFigure(data, choice);
  const title = element("shown", HTMLElement);
  if (title.textContent !== description) title.textContent = description;
  const { steps } = view.layers[choice.layer];
  figure = choice.figure === "arcs" ? arcs : heatMap;
  const stepping = steps !== null && choice.figure === "steps";
  element("picture", HTMLElement).hidden = stepping;
  element("steps", HTMLElement).hidden = !stepping;
  if (stepping) showSteps(element("steps", HTMLElement), steps, Number(choice.head), view);
  else drawPicture();
}

/** Draw the heat map or the arcs. */
function drawPicture() {
  at = figure.layout(shown, frame.clientWidth, choice.zoom);
  figure.paint(new CanvasPainter(sized(drawn, at.width, at.height)), shown, at, colours());
  sized(marked, at.width, at.height);
  const { row, column } = chosen;
  chosen = { row: -1, column: -1 };
  mark(row, column);
  if (details.open) fillTable();
}

/** @returns {import("./theme.js").Theme} */
function colours() {
  return theme(data.colours, dark.matches && !printing);
}

/**
 * Size a canvas, also for screens with more than one pixel for each of CSS, and return its empty surface.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
function sized(canvas, width, height) {
  const scale = Math.min(printing ? 3 : devicePixelRatio, LARGEST_CANVAS / Math.max(width, height));
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(scale, scale);
  return context;
}

/**
 * Mark tokens: a row, a column, or both. -1 marks none.
 * @param {number} row
 * @param {number} column
 */
function mark(row, column) {
  const nothing = row < 0 && column < 0;
  pinned = pinned && !nothing;
  if (row === chosen.row && column === chosen.column && !nothing) return;
  if (!nothing || chosen.row >= 0 || chosen.column >= 0) {
    const context = /** @type {CanvasRenderingContext2D} */ (marked.getContext("2d"));
    context.clearRect(0, 0, at.width, at.height);
    if (!nothing) figure.mark(new CanvasPainter(context), shown, at, colours(), row, column);
  }
  drawn.classList.toggle("dim", figure.dims && !nothing);
  chosen = { row, column };
  say();
}

/**
 * Pin what is marked, or release it.
 * @param {boolean} pin
 */
function setPinned(pin) {
  pinned = pin && (chosen.row >= 0 || chosen.column >= 0);
  say();
}

function say() {
  const pair = element("pair", HTMLElement);
  pair.replaceChildren(...inWords(), pinned ? " (pinned)" : "");
  pair.tabIndex = pair.scrollHeight > pair.clientHeight ? 0 : -1; // its height is fixed, and keys scroll a long text
}

/**
 * Return the row and the column under the pointer, each -1 if there is none.
 * @param {MouseEvent} event
 * @returns {[number, number]}
 */
function under(event) {
  const box = drawn.getBoundingClientRect();
  return figure.find(at, event.clientX - box.left, event.clientY - box.top);
}

/**
 * Describe the marked tokens: one score, or the highest of a token. Tokens read from right to left change no order.
 * @returns {(Node | string)[]}
 */
function inWords() {
  const { rows, columns, values, unit } = shown;
  const { row, column } = chosen;
  if (row < 0 && column < 0) return [];
  const token = (/** @type {string} */ text) => {
    const isolated = document.createElement("bdi");
    isolated.textContent = text;
    return isolated;
  };
  if (row >= 0 && column >= 0) {
    const index = row * columns.length + column;
    const score = isZero(shown, index) ? "masked" : `${number(values[index])}${unit}`;
    return [token(rows[row]), " → ", token(columns[column]), `: ${score}`];
  }
  const others = (row >= 0 ? columns : rows).map((text, index) => {
    const [i, j] = row >= 0 ? [row, index] : [index, column];
    return { text, value: values[i * columns.length + j] };
  });
  const highest = others
    .filter((other) => other.value > 0)
    .sort((a, b) => b.value - a.value)
    .slice(0, 5)
    .flatMap((other, index) => [index ? ", " : "", token(other.text), `: ${number(other.value)}${unit}`]);
  return row >= 0 ? [token(rows[row]), " → ", ...highest] : [...highest, " → ", token(columns[column])];
}

function fillTable() {
  element("table", HTMLElement)
    .querySelector(".scroll")
    ?.replaceChildren(scoreTable(shown, describe(data, choice)));
}

/**
 * Change the choice or the marked token by a key.
 * @param {KeyboardEvent} event
 */
function press(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Enter") setPinned(!pinned);
  else if (event.shiftKey && event.key.startsWith("Arrow")) {
    const vertical = event.key === "ArrowUp" || event.key === "ArrowDown";
    const by = event.key === "ArrowUp" || event.key === "ArrowLeft" ? -1 : 1;
    /** @type {(index: number, count: number) => number} */
    const moved = (index, count) => Math.min(Math.max(index + by, 0), count - 1);
    if (vertical) mark(moved(chosen.row, shown.rows.length), chosen.column);
    else mark(chosen.row, moved(chosen.column, shown.columns.length));
  } else if (step(data, choice, event.key)) draw();
  else return;
  event.preventDefault();
}

/**
 * Draw the picture for a file, on white and with a title.
 * @param {(width: number, height: number) => import("./painter.js").Painter} surface
 * @returns {{width: number, height: number, painter: import("./painter.js").Painter}}
 */
function drawFile(surface) {
  const layout = { ...figure.layout(shown, 960, choice.zoom) };
  const light = theme(data.colours, false);
  const sentence = chosenSentence(data, choice).title;
  const least = Math.max(layout.width, 480);
  const title = [`${data.title} · ${sentence}`, describeFigure(data, choice)].flatMap((text) =>
    lines(text, TITLE, least - 8),
  );
  const above = LINE * title.length + 4;
  const width = Math.max(least, ...title.map((line) => measure(line, TITLE) + 8));
  const height = layout.height + above;
  const painter = surface(width, height);
  layout.top += above;
  layout.height = height;
  figure.paint(painter, shown, layout, light);
  title.forEach((line, index) => {
    painter.text(line, 4, LINE * (index + 0.5), { size: TITLE, colour: light.text, bold: true });
  });
  return { width, height, painter };
}

function saveSvg() {
  const { width, height, painter } = drawFile(() => new SvgPainter());
  if (!(painter instanceof SvgPainter)) return;
  save(fileName(describeFigure(data, choice), "svg"), painter.file(width, height), "image/svg+xml");
}

function savePng() {
  const canvas = document.createElement("canvas");
  drawFile((width, height) => {
    const scale = Math.min(2, LARGEST_CANVAS / Math.max(width, height));
    [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(scale, scale);
    return new CanvasPainter(context);
  });
  canvas.toBlob((blob) => blob && save(fileName(describeFigure(data, choice), "png"), blob, "image/png"));
}

let waiting = false;

/** Draw once before the screen is shown next, however much changes until then. */
function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

listen(choice, draw);
frame.addEventListener("keydown", press);
addEventListener("keydown", (event) => event.key === "Escape" && mark(-1, -1));
drawn.addEventListener("pointerdown", (event) => pinned || mark(...under(event)));
drawn.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch" && pinned) setPinned(false); // a finger that moves does not click
  if (!pinned) mark(...under(event));
});
drawn.addEventListener("click", (event) => {
  const [row, column] = under(event);
  const again = pinned && row === chosen.row && column === chosen.column;
  mark(row, column);
  setPinned(!again);
});
frame.addEventListener("pointerleave", (event) => {
  if (!pinned && event.pointerType !== "touch") mark(-1, -1); // a finger hides what it points at until it leaves
});
element("png", HTMLButtonElement).addEventListener("click", savePng);
element("svg", HTMLButtonElement).addEventListener("click", saveSvg);
element("csv", HTMLButtonElement).addEventListener("click", () => {
  save(fileName(describe(data, choice), "csv"), csv(shown), "text/csv");
});
details.addEventListener("toggle", () => details.open && fillTable());
dark.addEventListener("change", draw);
addEventListener("beforeprint", () => ((printing = true), draw()));
addEventListener("afterprint", () => ((printing = false), draw()));
let width = frame.clientWidth;
new ResizeObserver(() => {
  if (frame.clientWidth !== width) drawSoon();
  width = frame.clientWidth;
}).observe(frame);
draw();
