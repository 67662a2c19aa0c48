// Reloads the changing parts of the page when the event stream announces a change.
const live = document.getElementById("live");
let waiting;
let held = false;
let repeating;

async function refresh() {
  waiting = undefined;
  const response = await fetch(location.href, { cache: "no-store" });
  if (response.status === 401 || response.redirected) location.reload();
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (old && old.innerHTML !== part.innerHTML) place(part, old);
  }
  document.title = fresh.title;
  repeat();
  // Lists with the newest item last: append new items.
  for (const item of fresh.querySelectorAll("[data-append] > [id]")) {
    if (!document.getElementById(item.id)) document.getElementById(item.parentNode.id)?.append(Object.assign(item, { open: false }));
  }
}

// Do not replace a part that the visitor is using, and do not move the list while it is scrolled down.
function place(part, old) {
  if (old.querySelector("details[open]") || old.contains(document.activeElement)) return;
  const rows = part.querySelectorAll("tr[id]");
  held = scrollY > 120 && rows.length > 0;
  if (!held) return old.replaceChildren(...part.childNodes);
  for (const row of rows) document.getElementById(row.id)?.replaceChildren(...row.childNodes);
}

// Something in progress that no event announces: reload every few seconds until it is gone.
function repeat() {
  const seconds = document.querySelector("[data-refresh-seconds]")?.dataset.refreshSeconds;
  clearTimeout(repeating);
  if (seconds) repeating = setTimeout(() => (document.hidden ? repeat() : changed()), seconds * 1000);
}

addEventListener("scroll", () => { if (held && scrollY <= 120) { held = false; changed(); } }, { passive: true });

function changed() {
  // Coalesce changes in quick succession into one reload.
  waiting ??= setTimeout(refresh, 250);
}

repeat();
const source = new EventSource(live.dataset.events);
source.onopen = () => { live.textContent = "Live"; live.classList.remove("lost"); changed(); };
source.onerror = () => { live.textContent = "Connection lost. Reconnecting…"; live.classList.add("lost"); };
for (const name of ["message", "reset", ...(live.dataset.names ?? "document.created document.changed").split(" ")]) {
  source.addEventListener(name, changed);
}
