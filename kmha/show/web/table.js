// The scores as a table, for screen readers and for those who want numbers.

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
  const numbers = Array.from({ length: HIGHEST }, (_, index) => `${index + 1}.`);
  addRow(table.createTHead(), `${shown.rowsAre} → ${shown.columnsAre}`, all ? columns : numbers, "th");
  const body = table.createTBody();
  rows.forEach((text, row) => {
    const scores = Array.from(values.subarray(row * columns.length, (row + 1) * columns.length));
    addRow(body, text, all ? scores.map((score) => score.toFixed(3)) : highest(scores, columns), "td");
  });
  return table;
}

/**
 * @param {number[]} scores
 * @param {string[]} columns
 * @returns {string[]}
 */
function highest(scores, columns) {
  const order = scores.map((_, index) => index).sort((a, b) => scores[b] - scores[a]);
  return order.slice(0, HIGHEST).map((index) => `${columns[index]} (${index + 1}): ${scores[index].toFixed(3)}`);
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
