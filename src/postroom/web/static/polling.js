// Replaces the changing parts of a page every few seconds while the page is visible.
const live = document.getElementById("live");
const wait = Number(live.dataset.seconds) * 1000;

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(live.dataset.live, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (response.status === 401) location.reload(); // signed out: the reload redirects to the sign-in page
  if (!response.ok) throw new Error(String(response.status));
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (old && old.innerHTML !== part.innerHTML && !old.querySelector(".chosen")) old.replaceChildren(...part.childNodes);
  }
  document.title = fresh.querySelector("[data-title]")?.dataset.title ?? document.title;
}

async function keepFresh() {
  let status = "Live";
  try {
    await refresh();
  } catch {
    status = "Connection lost. Reconnecting…";
  }
  // Set only on change: screen readers announce every assignment.
  if (live.textContent.trim() !== status) live.textContent = status;
  live.classList.toggle("lost", status !== "Live");
  setTimeout(keepFresh, wait);
}

document.addEventListener("visibilitychange", () => { refresh().catch(() => {}); });
keepFresh();
