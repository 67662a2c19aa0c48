// Sends the request described by a form, with the visitor's session, and displays the response.
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
  const response = await fetch(query.size ? `${path}?${query}` : path, options);
  const kind = response.headers.get("content-type") ?? "";
  const text = kind.includes("json") ? JSON.stringify(await response.json(), null, 2) : `${(await response.blob()).size} bytes, ${kind}`;
  return `${response.status} ${response.statusText}\n${text}`;
}

for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const output = form.querySelector("pre");
    output.hidden = false;
    output.textContent = "…";
    output.textContent = await call(form).catch((error) => String(error));
  });
}
