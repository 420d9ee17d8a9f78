// @ts-check
/** Places a small directed graph in layers from left to right, so that few edges cross. Pure. */

const ROUNDS = 8;

/**
 * @param {{id: string, level: number}[]} nodes @param {{from: string, to: string}[]} edges
 * @param {number} width of a box @param {number} height @param {number} gapX @param {number} gapY
 * @returns {{at: Map<string, {x: number, y: number}>, width: number, height: number}}
 */
export function arranged(nodes, edges, width, height, gapX, gapY) {
  /** @type {string[][]} */
  const layers = [];
  for (const node of nodes) (layers[node.level] ??= []).push(node.id);
  const order = new Map();
  const number = () => layers.forEach((layer) => layer?.forEach((id, index) => order.set(id, index - layer.length / 2)));
  /** @type {Map<string, string[]>} */
  const beside = new Map(nodes.map((node) => [node.id, []]));
  for (const { from, to } of edges) {
    beside.get(from)?.push(to);
    beside.get(to)?.push(from);
  }
  const middle = (id) => {
    const places = (beside.get(id) ?? []).map((other) => order.get(other)).filter((each) => each !== undefined);
    return places.length ? places.reduce((sum, each) => sum + each, 0) / places.length : order.get(id);
  };
  number();
  for (let round = 0; round < ROUNDS; round++) {
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      layer?.sort((a, b) => middle(a) - middle(b));
      layer?.forEach((id, index) => order.set(id, index - layer.length / 2));
    }
  }
  const rows = Math.max(1, ...layers.map((layer) => layer?.length ?? 0));
  const tall = rows * (height + gapY) - gapY;
  const at = new Map();
  layers.forEach((layer, level) => {
    const own = layer.length * (height + gapY) - gapY;
    layer.forEach((id, index) => at.set(id, { x: 1 + level * (width + gapX), y: 1 + (tall - own) / 2 + index * (height + gapY) }));
  });
  return { at, width: layers.length * (width + gapX) - gapX + 2, height: tall + 2 };
}
