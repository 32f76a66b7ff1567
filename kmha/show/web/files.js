// What is saved: PNG, SVG and CSV.

/**
 * Return the matrix as CSV, with a row for each query.
 * @param {import("./data.js").Matrix} shown
 * @returns {string}
 */
export function csv(shown) {
  const { rows, columns, values, unit } = shown;
  const lines = [[unit.trim(), ...columns].map(quoted).join(",")];
  rows.forEach((text, row) => {
    const scores = Array.from(values.subarray(row * columns.length, (row + 1) * columns.length));
    lines.push([quoted(text), ...scores.map((score) => score.toFixed(3))].join(","));
  });
  return `\ufeff${lines.join("\r\n")}\r\n`; // spreadsheets take a file for UTF-8 by its first character
}

/**
 * Quote a text. A spreadsheet would compute one that begins like a formula.
 * @param {string} text
 * @returns {string}
 */
function quoted(text) {
  return `"${/^[=+@\t\r-]./u.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;
}

/**
 * Let the browser save a file.
 * @param {string} name
 * @param {string | Blob} content
 * @param {string} type
 */
export function save(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/**
 * Return the name of a file for what is shown.
 * @param {string} description
 * @param {string} suffix
 * @returns {string}
 */
export function fileName(description, suffix) {
  const name = description.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return `attention-${name}.${suffix}`.replace(/-+\./, ".");
}
