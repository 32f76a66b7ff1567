// The lines below a picture: what rows and columns are, the scale, and what grey means.

import { asText } from "./theme.js";

export const LEGEND = 76; // height in pixels

/**
 * @param {import("./painter.js").Painter} painter
 * @param {import("./data.js").Matrix} shown
 * @param {import("./theme.js").Theme} theme
 * @param {number} left
 * @param {number} top
 * @param {string} note
 */
export function paintLegend(painter, shown, theme, left, top, note) {
  painter.text(`${shown.rowsAre} → ${shown.columnsAre}`, left, top + 14, { colour: theme.text });
  painter.text("0", left, top + 36, { colour: theme.text });
  painter.cells(left + 14, top + 30, 0.5, 12, 1, 256, (index) => theme.palette[index]);
  painter.box(left + 14, top + 30, 128, 12, theme.line, 1);
  painter.text(`${number(shown.highest)}${shown.unit}`, left + 148, top + 36, { colour: theme.text });
  if (shown.zeros) {
    painter.box(left, top + 54, 12, 12, asText(theme.zero), 0);
    painter.box(left, top + 54, 12, 12, theme.line, 1);
  }
  const zeros = shown.zeros ? "exactly 0 in every head (masked)" : "";
  const notes = [zeros, note].filter(Boolean).join("; ");
  painter.text(notes, left + (shown.zeros ? 18 : 0), top + 60, { colour: theme.quiet });
}

/**
 * Return a number with three digits.
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  return String(Number(value.toPrecision(3)));
}
