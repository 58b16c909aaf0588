// What a page cannot do without a script. Everything else works with scripts switched off.
"use strict";

document.addEventListener("change", async (event) => {
  const field = event.target.closest("input[type=file][data-fills]");
  if (field && field.files.length) {
    document.getElementById(field.dataset.fills).value = await field.files[0].text();
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (button) {
    const source = document.getElementById(button.dataset.copies);
    await navigator.clipboard.writeText(source.value);
    button.nextElementSibling.textContent = "Copied.";
  }
});

function showScripted() {
  document.querySelectorAll("[data-scripted]").forEach((part) => { part.hidden = false; });
}

showScripted();
document.addEventListener("htmx:afterSwap", showScripted);  // what has come since is hidden again
