// The script of the page. Everything works without it; with it the page updates itself, counts down to the next attempt,
// shows local times and copies.
"use strict";
(() => {
  const words = document.body.dataset;
  const main = () => document.getElementById("main");

  // Times: in UTC as the server wrote them, or local.
  // A browser may refuse to keep anything.
  const kept = (() => { try { return window.localStorage; } catch { return null; } })();
  let isLocalNow = kept?.getItem("ringback-time") === "local";
  const isLocal = () => isLocalNow;
  const pad = (number) => String(number).padStart(2, "0");
  const local = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
    `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const showTimes = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.dataset.utc ||= time.textContent;
      time.textContent = isLocal() ? local(at) : time.dataset.utc;
      time.title = isLocal() ? time.dataset.utc : local(at);
    }
    for (const label of document.querySelectorAll("[data-clock]")) {
      const at = new Date(label.dataset.clock);
      label.textContent = isLocal() ? `${pad(at.getHours())}:${pad(at.getMinutes())}` : label.dataset.clock.slice(11, 16);
    }
    for (const words of document.querySelectorAll("[data-utc-only]")) words.hidden = isLocal();
  };
  const clock = document.createElement("button");
  clock.type = "button";
  clock.className = "plain";
  const nameClock = () => { clock.textContent = isLocal() ? words.utc : words.local; };
  clock.addEventListener("click", () => {
    isLocalNow = !isLocalNow;
    try { kept?.setItem("ringback-time", isLocalNow ? "local" : "utc"); } catch { /* it is shown now, and not kept */ }
    nameClock();
    showTimes();
  });
  nameClock();

  // The countdown to the next attempt.
  const span = (seconds) => {
    const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
    if (days) return `${days}d ${hours}h`;
    if (hours) return `${hours}h ${minutes}m`;
    if (minutes) return `${minutes}m ${seconds % 60}s`;
    return `${seconds}s`;
  };
  const countDown = () => {
    for (const place of document.querySelectorAll("[data-countdown]")) {
      const time = place.querySelector("time");
      if (!time) continue;
      let left = place.querySelector(".countdown");
      if (!left) {
        left = document.createElement("span");
        left.className = "countdown";
        place.append(" ", left);
      }
      const seconds = Math.round((new Date(time.dateTime) - Date.now()) / 1000);
      left.textContent = seconds >= 0 ? `${words.in} ${span(seconds)}` : `${words.overdue} ${span(-seconds)}`;
    }
  };

  // Copying.
  const prepareCopies = () => {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button[data-copy], button[data-copy-from]")) button.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy], button[data-copy-from]");
    if (!button) return;
    const from = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
    await navigator.clipboard.writeText(from ? from.textContent : button.dataset.copy);
    const text = button.textContent;
    button.textContent = words.copied;
    setTimeout(() => { button.textContent = text; }, 1500);
  });

  const refresh = () => { showTimes(); countDown(); prepareCopies(); };

  // Updates: the server says when something has changed, and the page is fetched again.
  const light = document.createElement("span");
  light.className = "live";
  light.setAttribute("role", "status");
  let stream = null;
  const showLive = (on) => {
    light.hidden = !main().dataset.live;
    light.classList.toggle("live-on", on);
    light.textContent = on ? words.liveOn : words.liveOff;
  };
  // Whoever fills in a form, or reads something that was opened, keeps it.
  const isBusy = () => {
    const at = document.activeElement;
    if (at && main().contains(at) && at.matches("input, textarea, select")) return true;
    return [...main().querySelectorAll("textarea, input:not([type=hidden]), select")].some((field) =>
      field.matches("select") ? [...field.options].some((option) => option.selected !== option.defaultSelected)
        : field.value !== field.defaultValue);
  };
  // The focus is kept by what has it, which is looked for in the nearest element with an id.
  const nameOf = (element) => `${element.tagName} ${element.getAttribute("href") ?? element.textContent}`;
  const placeOfFocus = () => {
    const at = document.activeElement;
    if (!at || !main().contains(at)) return null;
    return { id: at.closest("[id]").id, name: at.id ? null : nameOf(at) };
  };
  const focusOn = (place) => {
    const home = place && document.getElementById(place.id);
    if (!home) return;
    const parts = home.querySelectorAll("a, button, summary, [tabindex]");
    const at = place.name === null ? home : [...parts].find((part) => nameOf(part) === place.name);
    at?.focus({ preventScroll: true });
  };
  let isStale = false;
  // What the server has written, before the script changed anything in it.
  let written = main().innerHTML;
  const update = async () => {
    if (isBusy()) { isStale = true; return; }
    isStale = false;
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "follow" });
    if (answer.redirected || !answer.ok) { if (answer.redirected) location.reload(); return; }
    const read = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!read || isBusy()) { isStale = true; return; }
    if (read.innerHTML === written) return;
    written = read.innerHTML;
    const opened = new Set([...main().querySelectorAll("details[id][open]")].map((details) => details.id));
    const focused = placeOfFocus();
    main().replaceWith(document.adoptNode(read));
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    refresh();
    focusOn(focused);
  };
  const close = () => { stream?.close(); stream = null; showLive(false); };
  const open = () => {
    const address = main().dataset.live;
    if (!address || stream || document.hidden) { showLive(Boolean(stream)); return; }
    stream = new EventSource(address);
    // Something may have changed before the stream was there.
    stream.addEventListener("open", () => { showLive(true); update().catch(() => {}); });
    stream.addEventListener("change", () => { update().catch(() => {}); });
    stream.addEventListener("error", () => {
      showLive(false);
      if (stream && stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(open, 30000); }
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); } else { open(); }
  });
  document.addEventListener("focusout", () => { if (isStale) setTimeout(() => update().catch(() => {}), 300); });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);

  document.getElementById("tools")?.append(light, " ", clock);
  refresh();
  open();
  setInterval(countDown, 1000);
})();
