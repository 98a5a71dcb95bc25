// SPDX-License-Identifier: Apache-2.0
//
// Where the labels of points go: beside the point if there is room, else further
// away, with a line to it. Nothing here knows a page.

// Directions from a point, the best first, and how far away.
const ways = [
  [1, 0],
  [-1, 0],
  [0, -1],
  [0, 1],
  [1, -1],
  [1, 1],
  [-1, -1],
  [-1, 1],
];
const distances = [9, 16, 26, 38, 52, 68, 88, 110, 140];

function boxAt(point, [dx, dy], away) {
  const x = point.x + dx * away - (dx < 0 ? point.width : dx === 0 ? point.width / 2 : 0);
  const y = point.y + dy * away - (dy < 0 ? point.height : dy === 0 ? point.height / 2 : 0);
  return { x, y, width: point.width, height: point.height };
}

function overlap(a, b) {
  const x = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const y = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return x > 0 && y > 0 ? x * y : 0;
}

// How much of a box lies outside.
function outside(box, area) {
  const inside = overlap(box, { x: 0, y: 0, ...area });
  return box.width * box.height - inside;
}

// The first place that covers nothing, or else the one that covers least.
function bestPlace(point, others, area) {
  let found = null;
  let least = Infinity;
  for (const away of distances)
    for (const way of ways) {
      const box = boxAt(point, way, away);
      const covered = others.reduce((sum, other) => sum + overlap(box, other), 3 * outside(box, area));
      if (covered >= least) continue;
      found = { ...box, far: away > 16 };
      least = covered;
      if (covered < 1) return found; // less than a pixel is the rounding of sums
    }
  return found;
}

// points: {x, y, width, height} of each with the size of its label, the important
// first. Returns where the labels begin, and whether a line should lead there.
export function placeLabels(points, area) {
  const others = points.map(({ x, y }) => ({ x: x - 6, y: y - 6, width: 12, height: 12 }));
  return points.map((point) => {
    const found = bestPlace(point, others, area);
    others.push(found);
    return found;
  });
}
