// What the theme leaves out for readers who use no mouse or no screen.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".bd-article table").forEach(table => table.setAttribute("tabindex", "0"));
  document.querySelectorAll(".search-button-field").forEach(button =>
    button.setAttribute("aria-label", button.innerText.replace(/\s+/g, " ").trim() || "Search"));
  document.querySelectorAll(".sphx-glr-thumbcontainer a").forEach(link => {
    const title = link.closest(".sphx-glr-thumbcontainer").textContent.trim();
    link.setAttribute("aria-label", title);
  });
});
