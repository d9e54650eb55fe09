// The last races of this tab, kept as text, bounded in number and size; each can be opened again.

const MOST_RACES = 24;
const MOST_CHARACTERS = 32 * 2 ** 20;
const ORDERS = {
  newest: ["newest first", (one, other) => other.number - one.number],
  fastest: ["fastest first", (one, other) => (other.speedup || 0) - (one.speedup || 0)],
  different: ["most different first", (one, other) => (other.facts - one.facts) || (other.places - one.places)],
};

function buildHistory(open) {
  let entries = [];
  let number = 0;
  let current = null;
  const order = h("select", { class: "lv-select", "aria-label": "Order of the races", onchange: () => draw() }, ...Object.entries(ORDERS).map(([name, [label]]) => h("option", { value: name }, label)));
  const list = h("tbody");
  const root = h("section", { class: "lv-section lv-history", hidden: true },
    h("div", { class: "lv-section-head" }, h("h3", {}, "Races of this tab"), order),
    h("div", { class: "lv-scroll" }, h("table", { class: "lv-table lv-history-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Video"), h("th", { scope: "col" }, "Best lane"), h("th", { scope: "col" }, "Speedup"), h("th", { scope: "col" }, "Differs from AR"))), list)));

  function row(entry) {
    const name = entry.text
      ? h("button", { class: "lv-link", type: "button", "aria-current": entry.id === current ? "true" : null, onclick: () => { if (open(entry)) { current = entry.id; draw(); } } }, entry.name)
      : entry.name;
    const differs = entry.places === null ? "–" : entry.places ? `${entry.places} ${entry.places === 1 ? "place" : "places"}${entry.facts ? `, ${entry.facts} of fact` : ""}` : "nowhere";
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, entry.best), h("td", {}, digits(entry.speedup, "×")), h("td", {}, entry.message || differs));
  }
  function draw() {
    show(root, entries.length > 0);
    list.replaceChildren(...[...entries].sort(ORDERS[order.value][1]).map(row));
  }
  return {
    root,
    // Remembers a race that is over (or one that failed, with its sentence); the oldest make room.
    add: (entry) => {
      number += 1;
      entries = entries.filter((one) => one.id !== entry.id);
      entries.push({ ...entry, number });
      let size = entries.reduce((sum, one) => sum + one.text.length, 0);
      while (entries.length > MOST_RACES || (size > MOST_CHARACTERS && entries.length > 1)) size -= entries.shift().text.length;
      current = entry.id;
      draw();
    },
    has: (id) => entries.some((one) => one.id === id),
    get size() { return entries.length; },
  };
}

// What a row of the list tells of a race.
function historyEntry(race, state, compare, message, records) {
  const lanes = [...race.lanes.values()].filter((lane) => lane.name !== "ar" && lane.rounds.length);
  const speeds = lanes.map((lane) => [lane.name, figuresAt(race, lane, null).decode]).filter(([, speed]) => speed);
  const best = speeds.sort((one, other) => other[1] - one[1])[0];
  const compared = best && compare ? compare[best[0]] : null;
  const places = compared ? compared.counts.reworded + compared.counts.fact + compared.counts.differs : null;
  return {
    id: race.id, name: race.start ? race.start.video.name : "–", best: best ? methodOf(best[0]).title : "–", speedup: best ? best[1] : null,
    places, facts: compared ? compared.counts.fact : 0, message, text: JSON.stringify({ state, compare, records }),
  };
}
