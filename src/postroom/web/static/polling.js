// Puts the changing parts of a page in place, every few seconds, while somebody looks.
const live = document.getElementById("live");
const wait = Number(live.dataset.seconds) * 1000;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(live.dataset.live, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (answer.status === 401) location.reload(); // signed out: the page leads to the sign-in
  if (!answer.ok) throw new Error(String(answer.status));
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    document.getElementById(part.id)?.replaceChildren(...part.childNodes);
  }
}

async function keepFresh() {
  let words = "Updated live";
  try {
    await refresh();
  } catch {
    words = "Connection lost, trying again";
  }
  // Said only when it changes, so that screen readers are not told every two seconds.
  if (live.textContent.trim() !== words) live.textContent = words;
  live.classList.toggle("lost", words !== "Updated live");
  setTimeout(keepFresh, wait);
}

document.addEventListener("visibilitychange", () => { refresh().catch(() => {}); });
keepFresh();
