// Takes a race out of the page: one HTML file that needs nothing else, or a link to the same settings. And takes a file that is dropped.

// `share`: {template: address of the export's page, samples: names of the sample clips, defaults: settings}; null in an export.
function buildShare(share, current) {
  if (!share) return { root: h("div", { hidden: true }), draw: () => {} };
  const say = h("span", { class: "lv-share-say", role: "status" });
  const page = h("button", { class: "lv-button", type: "button", onclick: () => exportPage().catch(() => setText(say, "The page could not be made; is the server still there?")) }, "Save as a web page");
  const link = h("button", { class: "lv-button", type: "button", onclick: copyLink }, "Copy a link to these settings");
  const field = h("input", { class: "lv-link-field", readonly: true, hidden: true, "aria-label": "Link to these settings" });
  const root = h("div", { class: "lv-share", hidden: true }, page, link, say, field);

  async function exportPage() {
    setText(say, "Making the page …");
    const answer = await fetch(share.template);
    if (!answer.ok) throw new Error(`${share.template}: ${answer.status}`);
    const { name, value } = current();
    const file = new Blob([filledTemplate(await answer.text(), value)], { type: "text/html" });
    const address = URL.createObjectURL(file);
    h("a", { href: address, download: `race-${fileStem(name)}.html` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    setText(say, `Saved, ${digits(file.size / 1e6)} MB: it opens in any browser, offline.`);
  }
  async function copyLink() {
    const { start } = current();
    const address = linkTo(start, share, location.origin + location.pathname);
    field.value = address;
    const own = share.samples.includes(start.video.name) ? "" : " The video itself is not in the link.";
    try {
      await navigator.clipboard.writeText(address);
      setText(say, `Copied.${own}`);
    } catch {
      // without HTTPS a page may not write to the clipboard
      show(field, true);
      field.select();
      setText(say, `Copy it from here.${own}`);
    }
  }
  return { root, draw: (on) => { show(root, on); if (!on) { setText(say, ""); show(field, false); } } };
}

// Text inside a script element must not be able to end it.
function filledTemplate(template, value) {
  const data = JSON.stringify(value).replace(/</g, "\\u003c").replace(/\u2028/g, "\\u2028").replace(/\u2029/g, "\\u2029");
  return template.replace("\"@RACE@\"", () => data);
}

function fileStem(name) {
  return name.replace(/\.[^.]*$/, "").replace(/[^\p{L}\p{N}_-]/gu, "-").slice(0, 60);
}

// The settings that differ from the defaults as query parameters, and the sample.
function linkTo(start, share, base) {
  const query = new URLSearchParams();
  if (share.samples.includes(start.video.name)) query.set("sample", start.video.name);
  for (const [name, standard] of Object.entries(share.defaults)) {
    const value = start.settings[name];
    if (value === undefined || value === null || String(value) === String(standard)) continue;
    query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${base}?${text}` : base;
}

// A race file dropped anywhere on the page is opened as the button would.
function takeDrops() {
  const isRace = (event) => [...(event.dataTransfer?.files || [])].find((file) => /\.jsonl$/i.test(file.name));
  document.addEventListener("dragover", (event) => { if ([...(event.dataTransfer?.types || [])].includes("Files")) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    const file = isRace(event);
    const input = document.querySelector("input[type=file][accept*='.jsonl']");
    if (!file || !input) return;
    event.preventDefault();
    event.stopPropagation();
    const files = new DataTransfer();
    files.items.add(file);
    input.files = files.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }, true);
}
