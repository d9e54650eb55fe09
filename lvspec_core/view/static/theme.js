// Light or dark: the visitor's choice if there is one, else the system's, which Gradio follows by itself.
// Runs from the page's head, to be early, and from the title, which must not depend on which of the two comes first.
(() => {
  if (window.lvspecTheme) return;
  // a page in a sandbox may not remember
  const store = (() => { try { return window.localStorage; } catch { return null; } })();
  const wanted = store && store.getItem("lvspec-theme");
  const dark = () => document.body.classList.contains("dark");
  const set = (on) => document.body.classList.toggle("dark", on);
  const apply = () => { if (wanted && dark() !== (wanted === "dark")) set(wanted === "dark"); };
  const observer = new MutationObserver(apply);
  const start = () => {
    apply();
    // Gradio sets the system's theme once more while it starts
    observer.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    setTimeout(() => observer.disconnect(), 3000);
  };
  if (document.body) start();
  else document.addEventListener("DOMContentLoaded", start);
  window.lvspecTheme = {
    dark,
    toggle: () => {
      observer.disconnect();
      set(!dark());
      if (store) store.setItem("lvspec-theme", dark() ? "dark" : "light");
    },
  };
})();
