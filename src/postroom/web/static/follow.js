// Asks for the page again when the feed tells of a change, and puts its changing parts in place.
const live = document.getElementById("live");
let waiting;

async function refresh() {
  waiting = undefined;
  const answer = await fetch(location.href, { cache: "no-store" });
  if (answer.status === 401 || answer.redirected) location.reload();
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (old && old.innerHTML !== part.innerHTML) old.replaceChildren(...part.childNodes);
  }
}

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
