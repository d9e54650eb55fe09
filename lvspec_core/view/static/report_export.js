// Stands in for the page around an exported report; its races lie in the page itself.

const element = document.querySelector("#lv-report");
const races = JSON.parse(document.querySelector("#lv-races").textContent);
const props = { value: [document.querySelector("#lv-report-value").textContent], plotly: "" };
const watch = () => {};
const trigger = (_name, { race }) => { if (Object.hasOwn(races, race)) window.lvspecShow(JSON.stringify(races[race])); };
