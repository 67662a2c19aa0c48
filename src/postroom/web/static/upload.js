// Uploads files that are dropped on the page or chosen, two at a time, and shows progress and result of each.
const zone = document.getElementById("upload");
const list = document.getElementById("uploads");
const STATES = { queued: "Queued", processing: "Processing", completed: "Completed", skipped: "Skipped", needs_review: "Needs review", failed: "Failed" };
const AT_ONCE = 2;
const waiting = [];
const seen = new Set(); // documents that this page uploaded
let running = 0;

function add(files) {
  const added = [...files].map((file) => {
    const [item, name, result] = ["li", "bdi", "span"].map((tag) => document.createElement(tag));
    const bar = Object.assign(document.createElement("progress"), { max: 1, value: 0 });
    bar.setAttribute("aria-label", `Upload of ${file.name}`);
    name.textContent = file.name;
    item.append(name, bar, result);
    return { file, item, bar, result };
  });
  list.prepend(...added.map(({ item }) => item));
  waiting.push(...added);
  next();
}

function next() {
  while (running < AT_ONCE && waiting.length) {
    running += 1;
    send(waiting.shift()).finally(() => { running -= 1; next(); });
  }
}

function send({ file, bar, result }) {
  const query = new URLSearchParams({ pipeline: document.getElementById("upload-pipeline").value, file_name: file.name });
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) bar.value = event.loaded / event.total; });
    request.addEventListener("loadend", () => {
      bar.remove();
      show(request, result);
      resolve();
    });
    request.open("POST", `/api/v1/documents?${query}`);
    request.responseType = "json";
    request.setRequestHeader("content-type", "application/octet-stream");
    request.send(file);
  });
}

function show(request, result) {
  if (request.status !== 201) {
    result.className = "warn";
    result.textContent = request.response?.detail ?? "Not uploaded: the connection was lost. Try again.";
    return;
  }
  for (const { id, state } of request.response) {
    const isNew = state === "queued" && !seen.has(id);
    const link = Object.assign(document.createElement("a"), { href: `/documents/${id}` });
    link.textContent = isNew ? "Added" : `Already here: ${STATES[state]}`;
    seen.add(id);
    result.append(link, " ");
  }
}

zone.hidden = false;
document.getElementById("files").addEventListener("change", (event) => { add(event.target.files); event.target.value = ""; });
let leaving;
addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  zone.classList.add("over");
  clearTimeout(leaving);
  leaving = setTimeout(() => zone.classList.remove("over"), 300);
});
addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  zone.classList.remove("over");
  add(event.dataTransfer.files);
});
