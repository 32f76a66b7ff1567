// The lines below a picture: what rows and columns are, the scale, and what grey means.

import { asText } from "./theme.js";

export const LEGEND = 114; // height in pixels

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {import("./theme.js").Theme} theme
 * @param {number} left
 * @param {number} top
 * @param {[string, string]} axes where the queries and the keys are
 * @param {boolean} grey whether masked scores are grey
 * @param {string} note
 */
export function paintLegend(painter, shown, theme, left, top, axes, grey, note) {
  painter.text(`${axes[0]}: ${shown.rowsAre}`, left, top + 14, { colour: theme.text });
  painter.text(`${axes[1]}: ${shown.columnsAre}`, left, top + 32, { colour: theme.text });
  painter.text("0", left, top + 54, { colour: theme.text });
  painter.cells(left + 14, top + 48, 0.5, 12, 1, 256, (index) => theme.palette[index]);
  painter.box(left + 14, top + 48, 128, 12, theme.line, 1);
  const highest = `${number(shown.highest)}${shown.unit}, ${shown.highestIs}`;
  painter.text(highest, left + 148, top + 54, { colour: theme.text });
  painter.text(shown.valuesAre, left, top + 76, { colour: theme.quiet });
  const boxed = grey && shown.zeros;
  if (boxed) {
    painter.box(left, top + 90, 12, 12, asText(theme.zero), 0);
    painter.box(left, top + 90, 12, 12, theme.line, 1);
  }
  const notes = [shown.masked, note].filter(Boolean).join("; ");
  painter.text(notes, left + (boxed ? 18 : 0), top + 96, { colour: theme.quiet });
}

/**
 * Return a number with three decimals and a real minus sign.
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  return value
    .toFixed(3)
    .replace(/^-(?=[.0]*$)/, "")
    .replace("-", "−");
}
