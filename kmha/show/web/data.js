// The data of the page, and the matrix of numbers that is shown.

/**
 * @typedef {{
 *   name: string, heads: number, highest: string, scores: string, zeros: string, masked: string, sums: boolean,
 *   entropy: string, steps: Calculation | null
 * }} Layer
 * @typedef {{
 *   name: string, rows: string[], columns: string[], rowsAre: string, columnsAre: string, layers: Layer[]
 * }} View
 * @typedef {{shape: number[], values: (number | string)[][]}} Numbers the first numbers of a matrix, or "-inf", "inf"
 *   or "nan"
 * @typedef {{
 *   sizes: Object<string, number>, same: string, inputNames: Object<string, string>, inputs: Object<string, Numbers>,
 *   output: Numbers, heads: Object<string, Numbers>[]
 * }} Calculation
 * @typedef {{title: string, views: View[]}} Sentence
 * @typedef {{title: string, colours: string[], moments: {step: number, sentences: Sentence[]}[]}} Data
 * @typedef {{
 *   values: Float32Array, zeros: Uint8Array | null, rows: string[], columns: string[], rowsAre: string,
 *   columnsAre: string, highest: number, highestIs: string, unit: string, valuesAre: string, masked: string
 * }} Matrix
 */

/** @type {Map<string, Uint8Array>} */
const decoded = new Map();

/**
 * Decode base64, once for each text.
 * @param {string} text
 * @returns {Uint8Array}
 */
function bytes(text) {
  let found = decoded.get(text);
  if (!found) {
    const characters = atob(text);
    found = new Uint8Array(characters.length);
    for (let i = 0; i < found.length; i++) found[i] = characters.charCodeAt(i);
    decoded.set(text, found);
  }
  return found;
}

/**
 * Return what `choice` shows of a layer: "mean" or "maximum" over the heads, the "entropy" of each head, or the number
 * of a head, from 0.
 * @param {View} view
 * @param {number} index number of the layer, from 0
 * @param {string} choice
 * @returns {Matrix}
 */
function matrix(view, index, choice) {
  const layer = view.layers[index];
  const { rows, columns, rowsAre, columnsAre } = view;
  if (choice === "entropy") {
    const highest = Math.log(Math.max(columns.length, 2));
    const values = Float32Array.from(bytes(layer.entropy), (value) => (value / 255) * highest);
    const heads = Array.from({ length: layer.heads }, (_, head) => `head ${head + 1}`);
    return {
      ...{ values, zeros: null, rows, columns: heads, rowsAre, columnsAre: "a head", highest, unit: " nats" },
      ...{ highestIs: "largest possible", valuesAre: "entropy of the scores of each query", masked: "" },
    };
  }
  const scores = bytes(layer.scores);
  const highests = new Float32Array(bytes(layer.highest).buffer); // of each row of each head
  const score = (/** @type {number} */ i) => (scores[i] / 255) * highests[Math.floor(i / columns.length)];
  const size = rows.length * columns.length;
  const values = new Float32Array(size);
  let highest = 0;
  if (choice === "mean") {
    for (let i = 0; i < scores.length; i++) values[i % size] += score(i) / layer.heads;
    for (const value of values) highest = Math.max(highest, value);
  } else {
    const start = choice === "maximum" ? 0 : Number(choice) * size;
    const end = choice === "maximum" ? scores.length : start + size;
    for (let i = start; i < end; i++) values[i % size] = Math.max(values[i % size], score(i));
    for (const value of highests) highest = Math.max(highest, value); // heads can be compared
  }
  const zeros = layer.zeros ? bytes(layer.zeros) : null;
  const one = choice === "mean" || choice === "maximum" ? `${choice} of the scores` : "scores";
  const sums = layer.sums && choice !== "maximum" ? "; each row adds up to 1" : "";
  return {
    ...{ values, zeros, rows, columns, rowsAre, columnsAre, highest: highest || 1, unit: "" },
    highestIs: choice === "mean" ? "largest mean shown" : "largest of all heads",
    valuesAre: `${one} after softmax${sums}`,
    masked: layer.masked,
  };
}

/**
 * Return the matrix of one training step, on a scale of colours that all training steps share.
 * @param {Data} data
 * @param {import("./controls.js").Choice} choice
 * @returns {Matrix}
 */
export function chosenMatrix(data, choice) {
  const all = data.moments.map(({ sentences }) =>
    matrix(sentences[choice.sentence].views[choice.view], choice.layer, choice.head),
  );
  const shown = all[choice.moment];
  if (all.length === 1) return shown;
  const highest = Math.max(...all.map((each) => each.highest));
  const highestIs = { mean: "largest mean of all steps", entropy: shown.highestIs }[choice.head];
  return { ...shown, highest, highestIs: highestIs || "largest of all steps" };
}

/**
 * Tell whether the scores at `index` are exactly 0 in every head, as behind a mask.
 * @param {Matrix} shown
 * @param {number} index
 * @returns {boolean}
 */
export function isZero(shown, index) {
  return shown.zeros !== null && ((shown.zeros[index >> 3] >> (7 - (index & 7))) & 1) === 1;
}
