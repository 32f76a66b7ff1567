// What pictures are drawn on: a canvas, or the text of an SVG. Both have the same methods.

/**
 * @typedef {{
 *   size?: number, align?: "start" | "middle" | "end", upright?: boolean, colour: string, bold?: boolean
 * }} Style
 * @typedef {CanvasPainter | SvgPainter} Painter
 */

const FONT = "system-ui, sans-serif";
const measuring = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/**
 * Return the width of a text in pixels if it is bold, as a marked label is.
 * @param {string} text
 * @param {number} size font size
 * @returns {number}
 */
export function measure(text, size) {
  measuring.font = `bold ${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

/**
 * Return the text, cut with an ellipsis if it is wider than `width`.
 * @param {string} text
 * @param {number} size font size
 * @param {number} width
 * @returns {string}
 */
export function shorten(text, size, width) {
  if (measure(text, size) <= width) return text;
  const characters = Array.from(new Intl.Segmenter().segment(text), (part) => part.segment);
  while (characters.length > 1 && measure(`${characters.join("")}…`, size) > width) characters.pop();
  return `${characters.join("")}…`;
}

/**
 * Return the lines of a text that is wider than `width`. A word that is wider stays whole.
 * @param {string} text
 * @param {number} size font size
 * @param {number} width
 * @returns {string[]}
 */
export function lines(text, size, width) {
  const found = [""];
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)) {
    const longer = found[found.length - 1] + segment;
    if (measure(longer.trim(), size) > width) found.push(segment);
    else found[found.length - 1] = longer;
  }
  return found.map((line) => line.trim()).filter(Boolean);
}

/** Draws on a canvas. */
export class CanvasPainter {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
  }

  /**
   * Fill a grid of cells. `colour` returns the colour 0xRRGGBB of a cell.
   * @param {number} left
   * @param {number} top
   * @param {number} width of a cell
   * @param {number} height of a cell
   * @param {number} rows
   * @param {number} columns
   * @param {(index: number) => number} colour
   */
  cells(left, top, width, height, rows, columns, colour) {
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      const value = colour(i);
      image.data.set([value >> 16, (value >> 8) & 255, value & 255, 255], 4 * i);
    }
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    /** @type {CanvasRenderingContext2D} */ (small.getContext("2d")).putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(small, left, top, columns * width, rows * height);
  }

  /**
   * Draw a rectangle, filled or as an outline.
   * @param {number} left
   * @param {number} top
   * @param {number} width
   * @param {number} height
   * @param {string} colour
   * @param {number} line width of the outline, or 0 to fill
   */
  box(left, top, width, height, colour, line) {
    this.context.globalAlpha = 1;
    this.context.fillStyle = this.context.strokeStyle = colour;
    this.context.lineWidth = line;
    if (line) this.context.strokeRect(left, top, width, height);
    else this.context.fillRect(left, top, width, height);
  }

  /**
   * Draw a curve from left to right.
   * @param {number} left
   * @param {number} y at the left end
   * @param {number} right
   * @param {number} y2 at the right end
   * @param {string} colour
   * @param {number} width
   * @param {number} opacity
   */
  curve(left, y, right, y2, colour, width, opacity) {
    const middle = (left + right) / 2;
    this.context.globalAlpha = opacity;
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.beginPath();
    this.context.moveTo(left, y);
    this.context.bezierCurveTo(middle, y, middle, y2, right, y2);
    this.context.stroke();
    this.context.globalAlpha = 1;
  }

  /**
   * Write a text whose middle is at the height y.
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {Style} style `upright` turns the text to the left
   */
  text(text, x, y, { size = 12, align = "start", upright = false, colour, bold = false }) {
    this.context.save();
    this.context.translate(x, y);
    if (upright) this.context.rotate(-Math.PI / 2);
    this.context.font = `${bold ? "bold " : ""}${size}px ${FONT}`;
    this.context.direction = "ltr"; // `align` must not depend on the language of a token
    this.context.textAlign = /** @type {CanvasTextAlign} */ ({ start: "left", middle: "center", end: "right" }[align]);
    this.context.textBaseline = "middle";
    this.context.fillStyle = colour;
    this.context.fillText(text, 0, 0);
    this.context.restore();
  }
}

/** Writes an SVG. */
export class SvgPainter {
  constructor() {
    /** @type {string[]} */
    this.parts = [];
  }

  /** @type {CanvasPainter["cells"]} */
  cells(left, top, width, height, rows, columns, colour) {
    this.parts.push('<g shape-rendering="crispEdges">');
    for (let i = 0; i < rows * columns; i++) {
      const x = left + (i % columns) * width;
      const fill = `#${colour(i).toString(16).padStart(6, "0")}`;
      if (fill !== "#ffffff") this.box(x, top + Math.floor(i / columns) * height, width, height, fill, 0);
    }
    this.parts.push("</g>");
  }

  /** @type {CanvasPainter["box"]} */
  box(left, top, width, height, colour, line) {
    const paint = line ? `fill="none" stroke="${colour}" stroke-width="${line}"` : `fill="${colour}"`;
    const [x, y, w, h] = [left, top, width, height].map(round);
    this.parts.push(`<rect x="${x}" y="${y}" width="${w}" height="${h}" ${paint}/>`);
  }

  /** @type {CanvasPainter["curve"]} */
  curve(left, y, right, y2, colour, width, opacity) {
    const middle = round((left + right) / 2);
    const [from, to] = [y, y2].map(round);
    this.parts.push(
      `<path d="M${round(left)} ${from}C${middle} ${from} ${middle} ${to} ${round(right)} ${to}" fill="none" ` +
        `stroke="${colour}" stroke-width="${round(width)}" stroke-opacity="${round(opacity)}"/>`,
    );
  }

  /** @type {CanvasPainter["text"]} */
  text(text, x, y, { size = 12, align = "start", upright = false, colour, bold = false }) {
    const turn = upright ? " rotate(-90)" : "";
    this.parts.push(
      `<text transform="translate(${round(x)} ${round(y)})${turn}" font-size="${size}" text-anchor="${align}" ` +
        `dominant-baseline="central" fill="${colour}"${bold ? ' font-weight="bold"' : ""}>${escaped(text)}</text>`,
    );
  }

  /**
   * Return the file.
   * @param {number} width
   * @param {number} height
   * @returns {string}
   */
  file(width, height) {
    const [w, h] = [width, height].map(Math.ceil);
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" ` +
      `font-family="${FONT}" direction="ltr"><rect width="${w}" height="${h}" fill="#ffffff"/>\n` +
      `${this.parts.join("\n")}</svg>\n`
    );
  }
}

/**
 * @param {number} value
 * @returns {number}
 */
function round(value) {
  return Math.round(value * 100) / 100;
}

/**
 * Escape a text for XML.
 * @param {string} text
 * @returns {string}
 */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
