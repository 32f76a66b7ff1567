// The colours of pictures, in light and dark.

/**
 * @typedef {{
 *   back: string, text: string, quiet: string, line: string, accent: string, zero: number, palette: number[]
 * }} Theme
 */

/**
 * Return 256 colours 0xRRGGBB that lead through `colours`.
 * @param {string[]} colours as #rrggbb
 * @returns {number[]}
 */
function gradient(colours) {
  const stops = colours.map((text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16)));
  return Array.from({ length: 256 }, (_, index) => {
    const position = (index / 255) * (stops.length - 1);
    const lower = Math.min(Math.floor(position), stops.length - 2);
    const mixed = stops[lower].map((value, i) =>
      Math.round(value + (stops[lower + 1][i] - value) * (position - lower)),
    );
    return (mixed[0] << 16) | (mixed[1] << 8) | mixed[2];
  });
}

/**
 * Return the theme. A larger score is always further from the background.
 * @param {string[]} colours from a score of 0 to the largest, on white
 * @param {boolean} dark
 * @returns {Theme}
 */
export function theme(colours, dark) {
  if (!dark) {
    const palette = gradient(colours);
    return {
      back: "#ffffff",
      text: "#1b1f24",
      quiet: "#59636e",
      line: "#8a949f",
      accent: "#b3460b",
      zero: 0xd9d9d9,
      palette,
    };
  }
  const palette = gradient([...colours].reverse());
  return {
    back: "#14181d",
    text: "#e3e7ec",
    quiet: "#a3adb8",
    line: "#6a747f",
    accent: "#ffab70",
    zero: 0x3d3d3d,
    palette,
  };
}

/**
 * Return a colour 0xRRGGBB as text.
 * @param {number} colour
 * @returns {string}
 */
export function asText(colour) {
  return `#${colour.toString(16).padStart(6, "0")}`;
}
