// The step view: one head of one layer, from its inputs to its part of the output, in six steps.

import { number } from "./legend.js";
import { addRow } from "./table.js";

/**
 * @typedef {import("./data.js").Calculation} Calculation
 * @typedef {import("./data.js").Numbers} Numbers
 * @typedef {"rows" | "columns" | null} Axis which tokens an axis has, or `null` for features
 * @typedef {{title: string, letters: string, numbers: Numbers, axes: [Axis, Axis], boolean?: boolean}} Shown
 * @typedef {Shown | string | (Shown | string)[]} Part a matrix, a sign, or several of them below each other
 * @typedef {{name: string, text: string, equation: string, products: Part[][]}} Step
 */

/** @type {Object<string, string>} */
const SPECIAL = { "-inf": "−∞", inf: "∞", nan: "NaN" };
let current = 0; // number of the step

/**
 * Return the steps of one head, with their texts and matrices.
 * @param {Calculation} calculation
 * @param {number} head from 0
 * @returns {Step[]}
 */
function stepsOf(calculation, head) {
  const own = calculation.heads[head];
  const { inputs, sizes } = calculation;
  const bias = "queryBias" in own ? "a bias" : "";
  /** @type {(title: string, letters: string, numbers: Numbers, axes: [Axis, Axis]) => Shown} */
  const shown = (title, letters, numbers, axes) => ({ title, letters, numbers, axes });
  /** @type {[string, string, string, Axis][]} */
  const projected = [
    ["query", "Q", "T", "rows"],
    ["key", "K", "S", "columns"],
    ["value", "V", "S", "columns"],
  ];
  const [query, key, value] = projected.map(([name, letter, positions, tokens]) =>
    shown(letter, `${positions}, O`, own[name], [tokens, null]),
  );
  const logits = shown("logits", "T, S", own.logits, ["rows", "columns"]);
  const masked = shown("masked logits", "T, S", own.masked, ["rows", "columns"]);
  const scores = shown("scores (softmax)", "T, S", own.scores, ["rows", "columns"]);
  const mixed = shown("mixed values", "T, O", own.mixed, ["rows", null]);
  const mask = own.mask && { ...shown("mask", "T, S", own.mask, ["rows", "columns"]), boolean: true };
  return [
    {
      name: "Project",
      text: `${calculation.same} Each is multiplied by a kernel of its own${bias && `, and ${bias} is added`}.`,
      equation: "BTI,HIO->BTHO",
      products: projected.map(([name, , positions, tokens], index) => [
        shown(calculation.inputNames[name], `${positions}, I`, inputs[name], [tokens, null]),
        "·",
        [
          shown(`${name} kernel`, "I, O", own[`${name}Kernel`], [null, null]),
          ...(bias ? [shown(`+ ${name} bias`, "1, O", own[`${name}Bias`], [null, null])] : []),
        ],
        "=",
        [query, key, value][index],
      ]),
    },
    {
      name: "Logits",
      text:
        "The logit of a query and a key is the product of their rows, divided by √O = " +
        `${number(Math.sqrt(sizes.O))}.`,
      equation: "BTHO,BSHO->BHTS",
      products: [[query, "·", key, "ᵀ / √O =", logits]],
    },
    {
      name: "Mask",
      text: mask
        ? "1 means attend. Where the mask is 0, the logit becomes −∞."
        : "This call has no mask: the logits stay as they are.",
      equation: "",
      products: mask ? [[logits, "and", mask, "=", masked]] : [[masked]],
    },
    {
      name: "Scores (softmax)",
      text:
        "exp(logit), divided by the sum of these over the row. The scores of a query add up to 1, or to 0 if the " +
        "mask hides all keys.",
      equation: "",
      products: [[masked, "→", scores]],
    },
    {
      name: "Mix",
      text: "The mean of the rows of V, weighted by the scores of the query.",
      equation: "BHTS,BSHO->BTHO",
      products: [[scores, "·", value, "=", mixed]],
    },
    {
      name: "Merge",
      text: `The output is the sum of such parts of all ${sizes.H} heads${bias && `, and ${bias}`}.`,
      equation: "BTHO,HOE->BTE",
      products: [
        [
          mixed,
          "·",
          shown("output kernel of the head", "O, E", own.outputKernel, [null, null]),
          "=",
          shown("part of the head", "T, E", own.part, ["rows", null]),
        ],
        [shown(`output: all parts${bias && " and the bias"}`, "T, E", calculation.output, ["rows", null])],
      ],
    },
  ];
}

/**
 * Show the steps of one head.
 * @param {HTMLElement} section
 * @param {Calculation} calculation
 * @param {number} head from 0
 * @param {import("./data.js").View} view
 */
export function showSteps(section, calculation, head, view) {
  const steps = stepsOf(calculation, head);
  const redraw = () => showSteps(section, calculation, head, view);
  const step = steps[current];
  const heading = document.createElement("h2");
  heading.textContent = `Step ${current + 1} of ${steps.length}: ${step.name.toLowerCase()}`;
  const text = document.createElement("p");
  text.textContent = step.text;
  if (step.equation) {
    const code = document.createElement("code");
    code.textContent = step.equation;
    text.append(" ", code);
  }
  const letters = document.createElement("p");
  letters.className = "quiet";
  const axes = `Along T: ${view.rowsAre}. Along S: ${view.columnsAre}. `;
  letters.textContent = axes + lettersInWords(calculation.sizes);
  const products = step.products.map((parts) => {
    const line = document.createElement("div");
    line.className = "product";
    line.append(...parts.map((part) => partElement(part, view)));
    return line;
  });
  const focused = section.querySelector("nav button:focus");
  section.replaceChildren(buttons(steps, redraw), heading, text, ...products, letters);
  const button = section.querySelector("[aria-current]");
  if (focused && button instanceof HTMLElement) button.focus();
}

/**
 * @param {Part} part
 * @param {import("./data.js").View} view
 * @returns {HTMLElement}
 */
function partElement(part, view) {
  if (typeof part === "string") return sign(part);
  if (!Array.isArray(part)) return matrixTable(part, view);
  const stack = document.createElement("div");
  stack.className = "stack";
  stack.append(...part.map((each) => partElement(each, view)));
  return stack;
}

/**
 * Return a button for each step.
 * @param {Step[]} steps
 * @param {() => void} redraw
 * @returns {HTMLElement}
 */
function buttons(steps, redraw) {
  const nav = document.createElement("nav");
  nav.setAttribute("aria-label", "Steps");
  steps.forEach((step, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${index + 1} ${step.name}`;
    if (index === current) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => {
      current = index;
      redraw();
    });
    nav.append(button);
  });
  return nav;
}

/**
 * @param {string} text
 * @returns {HTMLElement}
 */
function sign(text) {
  const element = document.createElement("span");
  element.className = "sign";
  element.textContent = text;
  return element;
}

/**
 * Explain the letters of the shapes.
 * @param {Object<string, number>} sizes
 * @returns {string}
 */
function lettersInWords(sizes) {
  const { T, S, H, I, O, E } = sizes;
  return (
    `T = ${T} queries, S = ${S} keys and values, H = ${H} heads, I = ${I} features of the query, ` +
    `O = ${O} features of a head, E = ${E} features of the output. B is 1 here.`
  );
}

/**
 * Return a table of numbers. Its caption has the shape, and how much is left out.
 * @param {Shown} shown
 * @param {import("./data.js").View} view
 * @returns {HTMLElement}
 */
function matrixTable(shown, view) {
  const { numbers, axes } = shown;
  const [rows, columns] = numbers.shape;
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.textContent = `${shown.title} (${shown.letters}) = (${rows}, ${columns})`;
  const count = [numbers.values.length, numbers.values[0].length];
  if (count[0] < rows || count[1] < columns) {
    const small = document.createElement("small");
    small.textContent = `the first ${count[0]} × ${count[1]}; ${rows * columns - count[0] * count[1]} numbers left out`;
    caption.append(small);
  }
  /** @type {(axis: Axis, index: number) => string} */
  const label = (axis, index) => (axis ? view[axis][index] : String(index));
  const headings = numbers.values[0].map((_, column) => label(axes[1], column));
  addRow(table.createTHead(), "", headings, "th");
  const body = table.createTBody();
  const size = (/** @type {number | string} */ value) => (typeof value === "number" ? Math.abs(value) : 0);
  const largest = Math.max(1e-9, ...numbers.values.flat().map(size));
  numbers.values.forEach((values, row) => {
    const texts = values.map((value) => {
      if (typeof value === "string") return SPECIAL[value];
      return shown.boolean ? String(value) : number(value);
    });
    const cells = addRow(body, rows === 1 ? "" : label(axes[0], row), texts, "td").cells;
    values.forEach((value, column) => {
      const colour = Number(value) < 0 ? "negative" : "positive";
      cells[column + 1].style.background = `rgba(var(--${colour}), ${(0.45 * size(value)) / largest})`;
    });
  });
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", shown.title);
  scroll.append(table);
  return scroll;
}
