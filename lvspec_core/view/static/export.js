// Stands in for the page around the board in an exported race: one value, and nothing that could be asked of a server.

const element = document.querySelector("#lv-race");
const props = { value: [document.querySelector("#lv-value").textContent], plotly: "", share: null };
const watch = () => {};
const trigger = () => {};
const themeButton = document.querySelector(".lv-theme");
const darkNow = matchMedia("(prefers-color-scheme: dark)").matches;
document.body.classList.toggle("dark", darkNow);
const nameTheme = () => { themeButton.textContent = document.body.classList.contains("dark") ? "Light" : "Dark"; };
themeButton.addEventListener("click", () => { document.body.classList.toggle("dark"); nameTheme(); });
nameTheme();
