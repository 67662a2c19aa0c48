// Asks for the page again when the feed tells of a change, and puts its changing parts in place.
const live = document.getElementById("live");
let waiting;
let held = false;

async function refresh() {
  waiting = undefined;
  const answer = await fetch(location.href, { cache: "no-store" });
  if (answer.status === 401 || answer.redirected) location.reload();
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (old && old.innerHTML !== part.innerHTML) place(part, old);
  }
  // Where the newest stands last, what is new comes behind it.
  for (const each of fresh.querySelectorAll("[data-append] > [id]")) {
    if (!document.getElementById(each.id)) document.getElementById(each.parentNode.id)?.append(Object.assign(each, { open: false }));
  }
}

// What somebody has in hand stays as it is, and who reads further down a list is not moved.
function place(part, old) {
  if (old.querySelector("details[open]") || old.contains(document.activeElement)) return;
  const rows = part.querySelectorAll("tr[id]");
  held = scrollY > 120 && rows.length > 0;
  if (!held) return old.replaceChildren(...part.childNodes);
  for (const row of rows) document.getElementById(row.id)?.replaceChildren(...row.childNodes);
}

addEventListener("scroll", () => { if (held && scrollY <= 120) { held = false; changed(); } }, { passive: true });

function changed() {
  // Many changes in a moment are one look.
  waiting ??= setTimeout(refresh, 250);
}

const source = new EventSource(live.dataset.events);
source.onopen = () => { live.textContent = "Updated live"; live.classList.remove("lost"); changed(); };
source.onerror = () => { live.textContent = "Connection lost, trying again"; live.classList.add("lost"); };
for (const name of ["message", "reset", ...(live.dataset.names ?? "document.created document.changed").split(" ")]) {
  source.addEventListener(name, changed);
}
