// Light or dark, decided before the first paint, which is why this is no module.
// Inside of Airflow the page follows Airflow's own setting while it is open: a class on Airflow's <html>. Elsewhere it follows the
// same key of the browser's storage, which Airflow writes when both have one address, and without that the system.
(() => {
  const page = document.documentElement;
  const KEY = "theme";

  function airflow() {
    try {
      return window.parent !== window ? window.parent.document.documentElement : null;
    } catch {
      return null; // framed by another origin
    }
  }

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  function apply() {
    const around = airflow();
    const wanted = around ? ["dark", "light"].find((mode) => around.classList.contains(mode)) : stored();
    if (wanted === "dark" || wanted === "light") page.dataset.theme = wanted;
    else delete page.dataset.theme;
  }

  if (window.parent !== window) page.dataset.framed = "yes";
  const around = airflow();
  if (around) new MutationObserver(apply).observe(around, { attributes: true, attributeFilter: ["class"] });
  window.addEventListener("storage", apply);
  window.addEventListener("snowpack-theme", apply);
  apply();
})();
