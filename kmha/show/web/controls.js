// The controls: what is chosen, and how keys change it.

/**
 * @typedef {{
 *   moment: number, sentence: number, view: number, layer: number, head: string, figure: string, zoom: number
 * }} Choice
 */

/**
 * Return an element of the page.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`there is no ${kind.name} with the id ${id}`);
  return found;
}

/**
 * Give a <select> its options, each a value and a text, and choose a value.
 * @param {string} id
 * @param {[string, string][]} options
 * @param {string} chosen
 */
function fill(id, options, chosen) {
  const select = element(id, HTMLSelectElement);
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
}

/**
 * @param {import("./data.js").Data} data
 * @param {Choice} choice
 * @returns {import("./data.js").Sentence}
 */
export function chosenSentence(data, choice) {
  return data.moments[choice.moment].sentences[choice.sentence];
}

/**
 * Show the choice in the controls. What does not exist becomes what is nearest.
 * @param {import("./data.js").Data} data
 * @param {Choice} choice
 */
export function showChoice(data, choice) {
  const sentence = chosenSentence(data, choice);
  choice.view = Math.min(choice.view, sentence.views.length - 1);
  const view = sentence.views[choice.view];
  choice.layer = Math.min(choice.layer, view.layers.length - 1);
  const heads = view.layers[choice.layer].heads;
  if (Number(choice.head) >= heads) choice.head = String(heads - 1);
  element("steps-field", HTMLElement).hidden = !view.layers[choice.layer].steps;
  if (choice.figure === "steps" && !view.layers[choice.layer].steps) choice.figure = "map";
  if (choice.figure === "steps" && !(Number(choice.head) >= 0)) choice.head = "0"; // steps are those of one head
  /** @type {(texts: string[]) => [string, string][]} */
  const numbered = (texts) => texts.map((text, index) => [String(index), text]);
  fill("sentence", numbered(data.moments[0].sentences.map((each) => each.title)), String(choice.sentence));
  fill("view", numbered(sentence.views.map((each) => each.name)), String(choice.view));
  fill("layer", numbered(view.layers.map((each) => each.name)), String(choice.layer));
  fill("head", headOptions(heads), choice.head);
  const stepping = choice.figure === "steps";
  for (const option of element("head", HTMLSelectElement).options) {
    option.disabled = stepping && !(Number(option.value) >= 0);
  }
  element("zoom", HTMLInputElement).disabled = stepping;
  for (const id of ["png", "svg", "csv"]) {
    const button = element(id, HTMLButtonElement);
    button.disabled = stepping;
    button.title = stepping ? "Steps cannot be saved: choose heat map or arcs first." : "";
  }
  element("note", HTMLElement).hidden = !stepping;
  const moment = element("moment", HTMLInputElement);
  moment.max = String(data.moments.length - 1);
  moment.value = String(choice.moment);
  const at = `step ${data.moments[choice.moment].step}`;
  moment.setAttribute("aria-valuetext", at);
  element("moment-step", HTMLOutputElement).textContent = at;
  element("moment-field", HTMLElement).hidden = data.moments.length === 1;
  element("sentence-field", HTMLElement).hidden = data.moments[0].sentences.length === 1;
  element("only", HTMLElement).hidden = data.moments[0].sentences.length > 1;
  element("only", HTMLElement).textContent = sentence.title;
  for (const radio of document.querySelectorAll("input[name=figure]")) {
    if (radio instanceof HTMLInputElement) radio.checked = radio.value === choice.figure;
  }
}

/**
 * @param {number} heads
 * @returns {[string, string][]}
 */
function headOptions(heads) {
  const each = Array.from(
    { length: heads },
    (_, head) => /** @type {[string, string]} */ ([String(head), `head ${head + 1}`]),
  );
  return [
    ["mean", "mean of the heads"],
    ["maximum", "maximum of the heads"],
    ["entropy", "entropy of each head in nats"],
    ...each,
  ];
}

/**
 * Describe the choice in words, without the figure.
 * @param {import("./data.js").Data} data
 * @param {Choice} choice
 * @returns {string}
 */
export function describe(data, choice) {
  const view = chosenSentence(data, choice).views[choice.view];
  const layer = view.layers[choice.layer];
  const head = headOptions(layer.heads).find(([value]) => value === choice.head);
  const count = view.layers.length > 1 ? ` of ${view.layers.length}` : "";
  const at = data.moments.length > 1 ? `, training step ${data.moments[choice.moment].step}` : "";
  return `${view.name}: ${layer.name}${count}, ${head ? head[1] : ""}${at}`;
}

/**
 * Describe the choice in words, with the figure.
 * @param {import("./data.js").Data} data
 * @param {Choice} choice
 * @returns {string}
 */
export function describeFigure(data, choice) {
  const figure = { map: "heat map", arcs: "arcs", steps: "steps" }[choice.figure];
  return `${describe(data, choice)}, as ${figure}`;
}

/**
 * Listen to the controls, and call `changed` after each change of the choice.
 * @param {Choice} choice
 * @param {() => void} changed
 */
export function listen(choice, changed) {
  /** @type {[string, (value: string) => void][]} */
  const selects = [
    ["sentence", (value) => (choice.sentence = Number(value))],
    ["view", (value) => ([choice.view, choice.layer] = [Number(value), 0])],
    ["layer", (value) => (choice.layer = Number(value))],
    ["head", (value) => (choice.head = value)],
  ];
  for (const [id, set] of selects) {
    const select = element(id, HTMLSelectElement);
    select.addEventListener("change", () => (set(select.value), changed()));
  }
  for (const radio of document.querySelectorAll("input[name=figure]")) {
    radio.addEventListener("change", () => {
      if (radio instanceof HTMLInputElement) choice.figure = radio.value;
      changed();
    });
  }
  const [zoom, moment] = [element("zoom", HTMLInputElement), element("moment", HTMLInputElement)];
  zoom.addEventListener("input", () => ((choice.zoom = Number(zoom.value)), changed()));
  moment.addEventListener("input", () => ((choice.moment = Number(moment.value)), changed()));
  element("controls", HTMLFormElement).addEventListener("submit", (event) => event.preventDefault());
}

/**
 * Change the head (left and right, round and round) or the layer (up and down). Return whether the key does so.
 * @param {import("./data.js").Data} data
 * @param {Choice} choice
 * @param {string} key
 * @returns {boolean}
 */
export function step(data, choice, key) {
  const view = chosenSentence(data, choice).views[choice.view];
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[key];
  if (by === undefined) return false;
  if (key === "ArrowUp" || key === "ArrowDown") {
    choice.layer = Math.min(Math.max(choice.layer + by, 0), view.layers.length - 1);
  } else {
    const heads = headOptions(view.layers[choice.layer].heads).map(([value]) => value);
    choice.head = heads[(heads.indexOf(choice.head) + by + heads.length) % heads.length];
  }
  return true;
}
