// The live parts of the pages; all else works without it. Texts of stores become text nodes, never markup.
"use strict";

// Copy a command.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// Stop a search that still loads: the connection ends, and with it the work.
const stop = document.getElementById("stop");
if (stop && document.readyState !== "complete") {
  stop.hidden = false;
  stop.addEventListener("click", () => {
    window.stop();
    stop.hidden = true;
    document.getElementById("stopped").hidden = false;
  });
  window.addEventListener("load", () => { stop.hidden = true; });
}

// The bytes of a field and its row in the table light up together.
const fields = document.querySelectorAll("[data-field]");
for (const one of fields) {
  const mark = (on) => {
    for (const other of fields) {
      if (other.dataset.field === one.dataset.field) other.classList.toggle("lit", on);
    }
  };
  one.addEventListener("mouseenter", () => mark(true));
  one.addEventListener("mouseleave", () => mark(false));
}

// Follow a topic. A page that nobody sees has no connection.
const tail = document.getElementById("tail");
if (tail) {
  const rows = tail.querySelector("tbody");
  const state = document.getElementById("tail-state");
  const pause = document.getElementById("tail-pause");
  let source = null, passed = 0, seen = 0, paused = false;
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const add = (message) => {
    const line = document.createElement("tr");
    const cells = [message.time, message.place, message.tags, message.keys, message.body];
    cells.forEach((text, number) => {
      const cell = document.createElement("td");
      if (number === 1) {
        const link = document.createElement("a");
        link.href = message.href;
        link.textContent = text;
        cell.append(link);
      } else cell.textContent = text;
      if (number > 2) cell.className = number === 3 ? "keys" : "body";
      line.append(cell);
    });
    line.className = "new";
    rows.prepend(line);
    while (rows.children.length > 200) rows.lastChild.remove();
  };
  const open = () => {
    if (source || paused || document.hidden) return;
    say("connecting");
    source = new EventSource(tail.dataset.events);
    source.onmessage = (event) => {
      const given = JSON.parse(event.data);
      passed += given.passed;
      seen += given.rows.length;
      given.rows.forEach(add);
      say(`live: ${seen} new` + (passed ? `, ${passed} passed too quickly to show` : ""));
    };
    source.addEventListener("over", (event) => { close(); paused = true; say(JSON.parse(event.data)); });
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) { close(); say("the server refused; load the page again"); }
      else say("the connection broke; trying again");
    };
  };
  const close = () => { if (source) source.close(); source = null; };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) { close(); say("paused"); } else open();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  open();
}
