// Rounds: what was proposed, what of it was kept, and how long it took. A lane unfolds into the list of its rounds.

const ROUNDS_AT_ONCE = 16; // drawn before the reader scrolls on

// A round's proposal: kept words as in the text, rejected ones struck out, the target's own word last. A tree is an outline:
// the kept path first, every other branch on a line of its own, as far in as it branches off.
function proposalNode(lane, at) {
  const round = lane.rounds[at];
  const first = at ? lane.tokens[at - 1] : 0;
  const keptNodes = round.tokens.map((token, row) => chipOf(token, first + row));
  const tree = round.parents?.length > 0;
  const rejected = tree ? [] : round.proposed.slice(round.accepted).map((_, row) => guessNode(round, round.accepted + row));
  const own = keptNodes.length > round.accepted ? keptNodes.pop() : null;
  const line = h("p", { class: "lv-guesses" }, ...spaced([...keptNodes, ...rejected]), own ? h("span", { class: "lv-own" }, rejected.length || keptNodes.length ? " ⇢ " : "", own) : null);
  if (!tree) return line;
  const branches = branchesOf(round).map(({ depth, nodes }) => h("li", { style: `--depth:${depth}` }, ...spaced(nodes.map((node) => guessNode(round, node)))));
  return h("div", { class: "lv-tree" }, line, h("ol", { class: "lv-branches", "aria-label": "Other branches of the tree" }, ...branches));
}

function chipOf(token, index) {
  return h("span", { class: `tk k-${kindOf(token)} v-${token.verdict}${token.anchor ? " anchor" : ""}`, "data-index": index }, token.text.trim() || "end");
}

function guessNode(round, node) {
  const [draft, target] = round.chances?.[node] || [];
  const tip = shareText(draft) ? `Not kept. The draft gave it ${shareText(draft)}, the target ${shareText(target)}.` : "Not kept.";
  return h("s", { class: "lv-lost", "data-tip": tip }, round.proposed[node][1].trim() || "end");
}

const spaced = (nodes) => nodes.flatMap((node, index) => (index ? [" ", node] : [node]));

// The branches of a tree beside the kept path, depth first: where each leaves what stands above it, and its nodes.
function branchesOf(round) {
  const below = new Map();
  round.parents.forEach((parent, node) => { if (node >= round.accepted) below.set(parent, [...(below.get(parent) || []), node]); });
  const branches = [];
  const follow = (node, depth, line) => {
    line.push(node);
    (below.get(node) || []).forEach((child, index) => {
      if (index === 0) follow(child, depth + 1, line);
      else branch(child, depth + 1);
    });
  };
  const branch = (node, depth) => {
    const one = { depth, nodes: [] };
    branches.push(one);
    follow(node, depth, one.nodes);
  };
  for (let place = -1; place < round.accepted; place += 1) for (const node of below.get(place) || []) branch(node, place + 1);
  return branches;
}

// Drafting and verifying as parts of one bar, on the scale of the lane's longest round.
function timesNode(lane, at, longest) {
  const { draft_seconds: draft, verify_seconds: verify } = lane.rounds[at];
  const part = (kind, seconds) => h("span", { class: kind, style: `width:${(seconds / longest) * 100}%` });
  const text = draft > 0 && lane.rounds[at].proposed.length ? `draft ${secondsText(draft)} · check ${secondsText(verify)}` : `target ${secondsText(verify)}`;
  return h("div", { class: "lv-times" }, h("div", { class: "lv-times-bar", "aria-hidden": "true" }, part("draft", draft), part("verify", verify)), h("span", {}, text));
}

const longestRound = (lane) => Math.max(1e-9, ...lane.rounds.map((round) => round.draft_seconds + round.verify_seconds));

function roundNode(lane, at, longest) {
  const round = lane.rounds[at];
  const kept = round.proposed.length ? `${round.accepted} of ${round.proposed.length} kept` : "";
  return h("li", { class: "lv-round" }, h("div", { class: "lv-round-head" }, h("b", {}, `Round ${at + 1}`), h("span", {}, kept), timesNode(lane, at, longest)), proposalNode(lane, at));
}

// The button that unfolds a lane, and the list, of which only what is read is built.
function buildRounds(dom) {
  const list = h("ol", { class: "lv-rounds-list", hidden: true, tabindex: 0, "aria-label": `Rounds of ${methodOf(dom.name).title}` });
  const button = h("button", { class: "lv-fold", type: "button", "aria-expanded": "false", hidden: true }, "Show its rounds");
  const state = { lane: null, drawn: 0, limit: ROUNDS_AT_ONCE, count: 0, longest: 0 };

  function fill() {
    const upTo = Math.min(state.count, state.limit);
    if (state.drawn > upTo) while (list.childElementCount > upTo) list.lastElementChild.remove();
    const fresh = [];
    for (let at = Math.min(state.drawn, upTo); at < upTo; at += 1) fresh.push(roundNode(state.lane, at, state.longest));
    list.append(...fresh);
    state.drawn = upTo;
  }
  button.addEventListener("click", () => {
    const open = list.hidden;
    list.hidden = !open;
    setAttribute(button, "aria-expanded", String(open));
    setText(button, open ? "Hide its rounds" : "Show its rounds");
    state.longest = open ? longestRound(state.lane) : 0;
    if (open) fill();
  });
  list.addEventListener("scroll", () => {
    if (state.limit >= state.count || list.scrollTop + list.clientHeight < list.scrollHeight - 200) return;
    state.limit += ROUNDS_AT_ONCE;
    fill();
  }, { passive: true });
  dom.body.append(button, list);
  return (lane, t) => {
    if (lane !== state.lane) {
      Object.assign(state, { lane, drawn: 0, limit: ROUNDS_AT_ONCE, longest: 0 });
      list.replaceChildren();
    }
    const count = roundsAt(lane, t);
    show(button, lane.rounds.length > 0);
    if (count === state.count && state.drawn) return;
    state.count = count;
    if (list.hidden) return;
    state.longest = state.longest || longestRound(lane);
    fill();
  };
}
