// Copies the text of a chosen file into a text area.
for (const input of document.querySelectorAll("[data-text-of]")) {
  input.closest("label").hidden = false;
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file) document.getElementById(input.dataset.textOf).value = await file.text();
  });
}
