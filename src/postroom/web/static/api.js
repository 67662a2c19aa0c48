// Calls an operation as its form says, with the session of whoever looks, and shows the answer.
async function call(form) {
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const field of form.querySelectorAll("[data-place]")) {
    if (field.dataset.place === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (field.value) query.set(field.name, field.value);
  }
  const options = { method: form.dataset.method };
  const body = form.elements.body;
  if (body) {
    options.body = body.files ? body.files[0] : body.value;
    options.headers = { "content-type": body.files ? "application/octet-stream" : "application/json" };
  }
  const answer = await fetch(query.size ? `${path}?${query}` : path, options);
  const kind = answer.headers.get("content-type") ?? "";
  const text = kind.includes("json") ? JSON.stringify(await answer.json(), null, 2) : `${(await answer.blob()).size} bytes, ${kind}`;
  return `${answer.status} ${answer.statusText}\n${text}`;
}

for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const shown = form.querySelector("pre");
    shown.hidden = false;
    shown.textContent = "…";
    shown.textContent = await call(form).catch((error) => String(error));
  });
}
