// Refreshes the live sections without touching form input. The page works without JavaScript.
const PAUSE = 1500;

async function refresh() {
  if (document.hidden || document.querySelector("[data-live]:focus-within")) return;
  const answer = await fetch(location.pathname + location.search.replace(/[?&](notice|error)=[^&]*/g, ""));
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const newer = fresh.getElementById(part.id);
    if (newer && newer.innerHTML !== part.innerHTML) part.replaceWith(newer);
  }
}

function tick() {
  refresh().catch(() => undefined).finally(() => setTimeout(tick, PAUSE));
}
setTimeout(tick, PAUSE);
