// Stands in for the page around the board in an exported race or report: values, and nothing that could be asked of a server.

const element = document.querySelector("#lv-race");
const alone = document.querySelector("#lv-value");
const props = { value: alone ? [alone.textContent] : null, plotly: "", share: null };
const watchers = [];
const watch = (_name, call) => watchers.push(call);
const trigger = () => {};
// how a report puts a race on the board
window.lvspecShow = (value) => { props.value = [value]; for (const call of watchers) call(); };
const themeButton = document.querySelector(".lv-theme");
const darkNow = matchMedia("(prefers-color-scheme: dark)").matches;
document.body.classList.toggle("dark", darkNow);
const nameTheme = () => { themeButton.textContent = document.body.classList.contains("dark") ? "Light" : "Dark"; };
themeButton.addEventListener("click", () => { document.body.classList.toggle("dark"); nameTheme(); });
nameTheme();
