// The evidence for a pinned word: the sampled frames with where the target looked, and what each draft was allowed to see.

const TILE = 36; // canvas pixels along the side of a tile, where there are few
const FAINT = 20; // of 255: below it a tile is not painted

const pointsText = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function evidenceNode({ race, lane, index, token }) {
  const frames = race.start?.thumbnails || [];
  const times = race.start?.video?.timestamps || [];
  if (!frames.length) return h("section", { class: "lv-evidence" }, h("p", { class: "lv-card-small" }, "This race was recorded without its frames."));
  const rows = [heatRow(race, lane, index, token, frames, times), ...sightRows(race, lane, frames, times)];
  return h("section", { class: "lv-evidence" }, h("div", { class: "lv-film", tabindex: 0, role: "region", "aria-label": "Frames of the video" }, ...rows));
}

function heatRow(race, lane, index, token, frames, times) {
  const seen = lane.evidence;
  if (!seen?.heat[index]) return h("p", { class: "lv-film-say" }, race.end ? "Where the target looked was not recorded." : "Where the target looked is worked out when the race is over.");
  const heat = bytesOf(seen.heat[index]);
  const most = (Math.max(...heat) / 255) * seen.peak;
  const [time, rows, columns] = seen.grid;
  const say = Math.max(...heat) < FAINT ? ["Where the target looked for ", said(token.text), ": nowhere much more than for its other words."]
    : ["Where the target looked for ", said(token.text), `: ${pointsText(most)} of its attention above this text’s average on the warmest tile.`];
  const paint = (pen, frame, scale) => {
    const from = sliceOf(frame, frames.length, time) * rows * columns;
    for (let cell = 0; cell < rows * columns; cell += 1) {
      const warm = heat[from + cell] / 255;
      if (heat[from + cell] < FAINT) continue;
      pen.globalAlpha = 0.2 + 0.7 * Math.sqrt(warm);
      pen.fillRect((cell % columns) * scale, Math.floor(cell / columns) * scale, scale, scale);
    }
  };
  return filmRow("heat", say, frames, times, rows, columns, paint);
}

// One row per draft that sees a pruned video, the word's own lane first.
function sightRows(race, lane, frames, times) {
  const others = [...race.lanes.values()].filter((each) => each !== lane);
  return [lane, ...others].flatMap((each) => {
    if (!each.sight) return [];
    const [time, rows, columns] = each.sight.grid;
    const total = time * rows * columns;
    const title = methodOf(each.name).title;
    if (!each.sight.kept) return each === lane ? [h("p", { class: "lv-film-say" }, `${title}’s draft sees all ${total} tiles.`)] : [];
    const bits = bytesOf(each.sight.kept);
    const isKept = (token) => (bits[token >> 3] >> (7 - (token & 7))) & 1;
    let count = 0;
    for (let token = 0; token < total; token += 1) count += isKept(token);
    const paint = (pen, frame, scale) => {
      const from = sliceOf(frame, frames.length, time) * rows * columns;
      for (let cell = 0; cell < rows * columns; cell += 1) {
        if (isKept(from + cell)) continue;
        const [x, y] = [(cell % columns) * scale, Math.floor(cell / columns) * scale];
        pen.globalAlpha = 0.82;
        pen.fillRect(x, y, scale, scale);
        pen.globalAlpha = 0.6;
        pen.beginPath();
        pen.moveTo(x, y + scale);
        pen.lineTo(x + scale, y);
        pen.stroke();
      }
    };
    return [filmRow("sight", [`What ${title}’s draft sees: ${count} of ${total} tiles.`], frames, times, rows, columns, paint)];
  });
}

// Frames are read in pairs or more: which slice of the video tokens frame `frame` of `count` belongs to.
function sliceOf(frame, count, slices) {
  return Math.min(slices - 1, Math.floor(frame / Math.ceil(count / slices)));
}

function filmRow(kind, say, frames, times, rows, columns, paint) {
  const scale = Math.max(2, Math.min(TILE, Math.ceil(192 / Math.max(rows, columns))));
  const cells = frames.map((frame, index) => {
    const canvas = h("canvas", { width: columns * scale, height: rows * scale, "aria-hidden": "true" });
    const pen = canvas.getContext("2d");
    pen.fillStyle = kind === "heat" ? "#ff7a00" : "#808488";
    pen.strokeStyle = "#2a2d30";
    paint(pen, index, scale);
    return h("li", {}, h("div", { class: "lv-cell" }, h("img", { src: /^data:image\/jpeg;base64,/.test(frame) ? frame : "", alt: typeof times[index] === "number" ? `Frame at ${times[index].toFixed(1)} s` : `Frame ${index + 1}` }), canvas));
  });
  return h("div", { class: `lv-film-row ${kind}` }, h("p", { class: "lv-film-say" }, ...say), h("ol", {}, ...cells));
}
