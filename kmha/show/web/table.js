// The scores as a table, for screen readers and for those who want numbers.

import { isZero } from "./data.js";
import { number } from "./legend.js";

const CELLS = 20000; // in a larger matrix, only the highest scores of each row are listed
const HIGHEST = 10;

/**
 * Return a table of the scores.
 * @param {import("./data.js").Matrix} shown
 * @param {string} title
 * @returns {HTMLTableElement}
 */
export function scoreTable(shown, title) {
  const { rows, columns, values } = shown;
  const all = values.length <= CELLS;
  const table = document.createElement("table");
  table.createCaption().textContent = all ? title : `${title}: the ${HIGHEST} highest of each row`;
  const short = shown.unit ? "head" : "key"; // the unit of entropy, which has a column for each head
  const numbers = Array.from({ length: HIGHEST }, (_, index) => `${index + 1}.`);
  addRow(table.createTHead(), `query \\ ${short}`, all ? columns : numbers, "th");
  const body = table.createTBody();
  rows.forEach((text, row) => {
    const start = row * columns.length;
    const scores = Array.from(values.subarray(start, start + columns.length));
    const texts = scores.map((score, column) => (isZero(shown, start + column) ? "masked" : number(score)));
    addRow(body, text, all ? texts : highest(scores, texts, columns), "td");
  });
  return table;
}

/**
 * @param {number[]} scores
 * @param {string[]} texts of the scores
 * @param {string[]} columns
 * @returns {string[]}
 */
function highest(scores, texts, columns) {
  const order = scores.map((_, index) => index).sort((a, b) => scores[b] - scores[a]);
  return order.slice(0, HIGHEST).map((index) => `${columns[index]} (${index + 1}): ${texts[index]}`);
}

/**
 * Add a row with a heading to a part of a table.
 * @param {HTMLTableSectionElement} part
 * @param {string} heading
 * @param {string[]} texts
 * @param {"th" | "td"} kind
 * @returns {HTMLTableRowElement}
 */
export function addRow(part, heading, texts, kind) {
  const row = part.insertRow();
  [heading, ...texts].forEach((text, index) => {
    const cell = document.createElement(index ? kind : "th");
    cell.textContent = text;
    if (cell instanceof HTMLTableCellElement && cell.tagName === "TH") cell.scope = kind === "th" ? "col" : "row";
    row.append(cell);
  });
  return row;
}
