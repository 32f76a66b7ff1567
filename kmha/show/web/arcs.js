// Arcs: the queries on the left, the keys on the right, and an arc for each score, wider and darker for a larger score.

import { LEGEND, number, paintLegend } from "./legend.js";
import { measure, shorten } from "./painter.js";
import { asText } from "./theme.js";

const LEAST = 0.05; // part of the largest score below which no arc is drawn, unless its token is chosen
const MOST = 3000; // number of arcs that a browser draws without a pause
const STEPS = 200; // of the scale, between which the least score is chosen
const PALEST = 90; // index of the colour that is nearest to the background

/**
 * @typedef {{
 *   width: number, height: number, top: number, left: number, right: number, line: number, size: number,
 *   rows: string[], columns: string[], lineOfColumns: number, drawn: number[], note: string
 * }} ArcsLayout
 */

/**
 * Return the sizes and positions of all parts. The shorter side is as high as the longer one.
 * @param {import("./data.js").Matrix} shown
 * @param {number} room width in pixels
 * @param {number} zoom
 * @returns {ArcsLayout}
 */
function layoutArcs(shown, room, zoom) {
  const most = Math.max(shown.rows.length, shown.columns.length);
  const height = most * Math.max(14, Math.min(28, 700 / most)) * zoom;
  const [line, lineOfColumns] = [shown.rows, shown.columns].map((texts) =>
    Math.min(height / texts.length, (2 * height) / most),
  );
  const size = Math.min(14, 0.85 * Math.min(line, lineOfColumns));
  const width = Math.min(room, 720 * zoom);
  const [rows, columns] = [shown.rows, shown.columns].map((texts) =>
    texts.map((text) => shorten(text, size, width / 4)),
  );
  const left = Math.max(...rows.map((text) => measure(text, size))) + 8;
  const right = width - Math.max(...columns.map((text) => measure(text, size))) - 8;
  const sizes = { width, height: height + 12 + LEGEND, top: 6, left, right, line, lineOfColumns, size };
  return { ...sizes, rows, columns, ...choose(shown) };
}

/**
 * @param {ArcsLayout} at
 * @param {number} row
 * @returns {number}
 */
function heightOfRow(at, row) {
  return at.top + (row + 0.5) * at.line;
}

/**
 * @param {ArcsLayout} at
 * @param {number} column
 * @returns {number}
 */
function heightOfColumn(at, column) {
  return at.top + (column + 0.5) * at.lineOfColumns;
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {ArcsLayout} at
 * @param {string} colour
 * @param {number} index
 */
function arc(painter, shown, at, colour, index) {
  const part = shown.values[index] / shown.highest;
  const [row, column] = [Math.floor(index / shown.columns.length), index % shown.columns.length];
  const width = 0.5 + Math.min(5, 0.4 * Math.min(at.line, at.lineOfColumns)) * part;
  painter.curve(at.left, heightOfRow(at, row), at.right, heightOfColumn(at, column), colour, width, 0.15 + 0.85 * part);
}

/**
 * Choose the scores that get an arc when no token is chosen, the largest ones last.
 * @param {import("./data.js").Matrix} shown
 * @returns {{drawn: number[], note: string}} their indexes, and what the legend says of the others
 */
function choose(shown) {
  const counts = new Uint32Array(STEPS + 1);
  for (const value of shown.values) counts[Math.floor((STEPS * value) / shown.highest)]++;
  let [step, count] = [STEPS, counts[STEPS]];
  while (step > LEAST * STEPS && count + counts[step - 1] <= MOST) count += counts[--step];
  const least = (step / STEPS) * shown.highest;
  const drawn = [...shown.values.keys()].filter((index) => shown.values[index] >= least);
  drawn.sort((a, b) => shown.values[a] - shown.values[b]);
  if (drawn.length > MOST) return { drawn: drawn.slice(-MOST), note: `at most ${MOST} arcs` };
  return { drawn, note: `no arcs below ${number(least)}${shown.unit}` };
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {ArcsLayout} at
 * @param {import("./theme.js").Theme} theme
 */
function paintArcs(painter, shown, at, theme) {
  for (const index of at.drawn) {
    const shade = Math.max(PALEST, Math.round((255 * shown.values[index]) / shown.highest));
    arc(painter, shown, at, asText(theme.palette[shade]), index);
  }
  at.rows.forEach((_, row) => tokenOfRow(painter, at, row, theme.text, false));
  at.columns.forEach((_, column) => tokenOfColumn(painter, at, column, theme.text, false));
  legend(painter, shown, at, theme);
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {ArcsLayout} at
 * @param {import("./theme.js").Theme} theme
 */
function legend(painter, shown, at, theme) {
  paintLegend(painter, shown, theme, 4, at.height - LEGEND, ["left (row)", "right (column)"], false, at.note);
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {ArcsLayout} at
 * @param {number} row
 * @param {string} colour
 * @param {boolean} bold
 */
function tokenOfRow(painter, at, row, colour, bold) {
  painter.text(at.rows[row], at.left - 4, heightOfRow(at, row), { size: at.size, align: "end", colour, bold });
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {ArcsLayout} at
 * @param {number} column
 * @param {string} colour
 * @param {boolean} bold
 */
function tokenOfColumn(painter, at, column, colour, bold) {
  painter.text(at.columns[column], at.right + 4, heightOfColumn(at, column), { size: at.size, colour, bold });
}

/**
 * Return the row or the column at a position, and -1 for the other one.
 * @param {ArcsLayout} at
 * @param {number} x
 * @param {number} y
 * @returns {[number, number]}
 */
function findInArcs(at, x, y) {
  const onLeft = x < (at.left + at.right) / 2;
  const index = Math.floor((y - at.top) / (onLeft ? at.line : at.lineOfColumns));
  if (index < 0 || index >= (onLeft ? at.rows : at.columns).length) return [-1, -1];
  return onLeft ? [index, -1] : [-1, index];
}

/**
 * Draw the arcs of one token, and the names of the tokens that they reach.
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {ArcsLayout} at
 * @param {import("./theme.js").Theme} theme
 * @param {number} row
 * @param {number} column
 */
function markArcs(painter, shown, at, theme, row, column) {
  for (let index = 0; index < shown.values.length; index++) {
    const [i, j] = [Math.floor(index / shown.columns.length), index % shown.columns.length];
    const chosen = (row < 0 || i === row) && (column < 0 || j === column);
    if (!chosen || !shown.values[index]) continue;
    arc(painter, shown, at, theme.accent, index);
    if (row < 0) tokenOfRow(painter, at, i, theme.text, false);
    if (column < 0) tokenOfColumn(painter, at, j, theme.text, false);
  }
  legend(painter, shown, at, theme);
  if (row >= 0) tokenOfRow(painter, at, row, theme.accent, true);
  if (column >= 0) tokenOfColumn(painter, at, column, theme.accent, true);
}

export const arcs = { layout: layoutArcs, paint: paintArcs, find: findInArcs, mark: markArcs, dims: true };
