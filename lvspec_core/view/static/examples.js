// Recorded races: each opens at once, without any model.

const examples = element.querySelector(".lv-examples");
const buttons = (props.examples || []).map((example, index) =>
  h("button", { class: "lv-link", type: "button", title: example.alt, onclick: () => { trigger("select", { index }); } }, example.title));
examples.hidden = !buttons.length;
examples.replaceChildren(h("span", {}, "Recorded races, to watch at once:"), ...buttons);
window.lvspecExample = buttons.length ? () => buttons[0].click() : null;
