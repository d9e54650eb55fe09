// The switch between light and dark names what it leads to.
const button = element.querySelector(".lv-theme");
const label = () => { button.textContent = window.lvspecTheme.dark() ? "Light" : "Dark"; };
button.addEventListener("click", () => { window.lvspecTheme.toggle(); label(); });
new MutationObserver(label).observe(document.body, { attributes: true, attributeFilter: ["class"] });
label();
