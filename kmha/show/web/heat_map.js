// The heat map: a row for each query, a column for each key, and a cell for each score.

import { isZero } from "./data.js";
import { LEGEND, paintLegend } from "./legend.js";
import { measure, shorten } from "./painter.js";

const SIZE = 12; // font size
const LABEL = 16; // room for one line of text
const LARGEST = 120; // width of a label
const LARGEST_CELL = 42;

/**
 * @typedef {{
 *   width: number, height: number, left: number, top: number, cellWidth: number, cellHeight: number,
 *   rows: string[], columns: string[], upright: boolean[]
 * }} MapLayout
 */

/**
 * Return the sizes and positions of all parts.
 * @param {import("./data.js").Matrix} shown
 * @param {number} room width in pixels
 * @param {number} zoom
 * @returns {MapLayout}
 */
function layoutMap(shown, room, zoom) {
  const [rows, columns] = [shown.rows, shown.columns].map((texts) =>
    texts.map((text) => shorten(text, SIZE, Math.min(LARGEST, room / 4))),
  );
  const left = Math.max(...rows.map((text) => measure(text, SIZE))) + 8;
  const fitting = (room - left - 2) / columns.length;
  const cellWidth = Math.min(Math.max(fitting, 3), LARGEST_CELL) * zoom;
  const cellHeight = Math.min(cellWidth, Math.max(14, 700 / rows.length) * zoom);
  const longest = Math.max(...columns.map((text) => measure(text, SIZE)));
  const narrow = longest + 4 > cellWidth;
  const upright = shown.columns.map((text) => narrow && Array.from(new Intl.Segmenter().segment(text)).length > 1);
  const top = Math.max(narrow ? longest : 0, LABEL) + 6;
  const width = Math.max(left + cellWidth * columns.length + 2, Math.min(room, 380));
  const height = top + cellHeight * rows.length + LEGEND;
  return { width, height, left, top, cellWidth, cellHeight, rows, columns, upright };
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {MapLayout} at
 * @param {import("./theme.js").Theme} theme
 */
function paintMap(painter, shown, at, theme) {
  const { left, top, cellWidth, cellHeight, rows, columns } = at;
  const scale = 255 / shown.highest;
  painter.cells(left, top, cellWidth, cellHeight, rows.length, columns.length, (index) =>
    isZero(shown, index) ? theme.zero : theme.palette[Math.round(shown.values[index] * scale)],
  );
  painter.box(left, top, cellWidth * columns.length, cellHeight * rows.length, theme.line, 1);
  const every = Math.ceil(LABEL / cellHeight);
  for (let row = 0; row < rows.length; row += every) rowLabel(painter, at, row, theme.text, false);
  const step = Math.ceil(LABEL / cellWidth);
  for (let column = 0; column < columns.length; column += step) columnLabel(painter, at, column, theme.text, false);
  paintLegend(painter, shown, theme, 4, top + cellHeight * rows.length, ["row", "column"], true, "");
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {MapLayout} at
 * @param {number} row
 * @param {string} colour
 * @param {boolean} bold
 */
function rowLabel(painter, at, row, colour, bold) {
  painter.text(at.rows[row], at.left - 5, at.top + (row + 0.5) * at.cellHeight, {
    size: SIZE,
    align: "end",
    colour,
    bold,
  });
}

/**
 * @param {import("./painter.js").Painter} painter
 * @param {MapLayout} at
 * @param {number} column
 * @param {string} colour
 * @param {boolean} bold
 */
function columnLabel(painter, at, column, colour, bold) {
  const x = at.left + (column + 0.5) * at.cellWidth;
  const upright = at.upright[column];
  const y = upright ? at.top - 4 : at.top - LABEL / 2 - 3;
  painter.text(at.columns[column], x, y, {
    size: SIZE,
    align: upright ? "start" : "middle",
    upright,
    colour,
    bold,
  });
}

/**
 * Return the row and the column at a position, each -1 if it is outside.
 * @param {MapLayout} at
 * @param {number} x
 * @param {number} y
 * @returns {[number, number]}
 */
function findInMap(at, x, y) {
  const column = Math.floor((x - at.left) / at.cellWidth);
  const row = Math.floor((y - at.top) / at.cellHeight);
  const inRows = row >= 0 && row < at.rows.length;
  const inColumns = column >= 0 && column < at.columns.length;
  if ((!inRows && y > at.top) || (!inColumns && x > at.left)) return [-1, -1];
  return [inRows ? row : -1, inColumns ? column : -1];
}

/**
 * Mark a row and a column.
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} _shown
 * @param {MapLayout} at
 * @param {import("./theme.js").Theme} theme
 * @param {number} row
 * @param {number} column
 */
function markMap(painter, _shown, at, theme, row, column) {
  const { left, top, cellWidth, cellHeight } = at;
  if (row >= 0) {
    painter.box(left, top + row * cellHeight, cellWidth * at.columns.length, cellHeight, theme.accent, 2);
    painter.box(0, top + (row + 0.5) * cellHeight - LABEL / 2, left - 2, LABEL, theme.back, 0);
    rowLabel(painter, at, row, theme.accent, true);
  }
  if (column >= 0) {
    painter.box(left + column * cellWidth, top, cellWidth, cellHeight * at.rows.length, theme.accent, 2);
    const wide = at.upright[column] ? LABEL : Math.max(cellWidth, LABEL);
    painter.box(left + (column + 0.5) * cellWidth - wide / 2, 0, wide, top - 2, theme.back, 0);
    columnLabel(painter, at, column, theme.accent, true);
  }
}

export const heatMap = { layout: layoutMap, paint: paintMap, find: findInMap, mark: markMap, dims: false };
