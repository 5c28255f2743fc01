// SPDX-FileCopyrightText: The slurmscope authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps a page as new as the data: asks for its own address after each poll, and changes only what differs, so that
// nothing flickers, and what somebody reads, writes, has opened or marked stays.

const words = JSON.parse(document.body.dataset.words);
const body = document.body;
const WITHOUT_STREAM = 30_000; // milliseconds from one look to the next where streams are refused
const AT_THE_LATEST = 120_000; // and where one is open, but says nothing
const SPREAD = 2_000; // readers do not all ask in the same moment, and what was read is written meanwhile
const LEAST = 300;

// --- changing only what differs -------------------------------------------------------------------------------------

const selection = () => {
  const found = getSelection();
  return found && !found.isCollapsed ? found : null;
};

/** Somebody has marked it, to copy it. */
const held = (node) => selection()?.containsNode(node, true) ?? false;

/** Something is being written into a form: it is left as it is. */
function touched(form) {
  if (form.contains(document.activeElement)) return true;
  return [...form.elements].some((one) => {
    if (one.type === "checkbox" || one.type === "radio") return one.checked !== one.defaultChecked;
    if (one.options) return one.selectedIndex !== Math.max(0, [...one.options].findIndex((it) => it.defaultSelected));
    return "defaultValue" in one && one.value !== one.defaultValue;
  });
}

/** By what an element is known again, wherever it stands: a row by what it is of, a section by its heading. */
function name(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  if (node.id) return `#${node.id}`;
  if (node.tagName === "TR") return [...node.querySelectorAll("a")].map((one) => one.getAttribute("href")).join(" ");
  if (node.tagName === "SECTION") return node.querySelector(":scope > h2")?.textContent ?? "";
  return node.tagName === "FIGURE" ? node.querySelector("svg > title")?.textContent ?? "" : "";
}

/** Names and nodes, both ways; of several by one name each has its number. */
function known(nodes) {
  const [nodeOf, nameOf] = [new Map(), new Map()];
  for (const node of nodes) {
    const base = name(node);
    if (!base) continue;
    let [unique, count] = [`${node.nodeName} ${base}`, 1];
    while (nodeOf.has(unique)) unique = `${node.nodeName} ${base} ${(count += 1)}`;
    nodeOf.set(unique, node);
    nameOf.set(node, unique);
  }
  return { nodeOf, nameOf };
}

/** What is a reader's own doing: opened, narrowed. */
const kept = (element, name) => name === "data-out" || (name === "open" && element.tagName === "DETAILS");

function attributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!kept(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!kept(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

/** Whether one may become the other: the same element, for the same purpose. */
function alike(old, fresh) {
  return old.nodeName === fresh.nodeName && old.classList?.item(0) === fresh.classList?.item(0);
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data && !held(old)) old.data = fresh.data;
    return;
  }
  if (old.dataset.zoomed !== undefined || old.isEqualNode(fresh)) return;
  if (old.tagName === "FORM" && touched(old)) return;
  attributes(old, fresh);
  children(old, fresh);
}

function children(old, fresh) {
  const there = [...old.childNodes].filter((node) => node.dataset?.ours === undefined);
  const [before, after] = [known(there), known(fresh.childNodes)];
  const free = (node) => !before.nameOf.has(node);
  const drop = (node) => held(node) || node.remove();
  // what is gone goes first, so that what stays need not be moved
  const rest = there.filter((node) => {
    const gone = !free(node) && !after.nodeOf.has(before.nameOf.get(node)) && !held(node);
    if (gone) node.remove();
    return !gone;
  });
  const nodes = [...fresh.childNodes];
  nodes.forEach((node, at) => {
    const same = before.nodeOf.get(after.nameOf.get(node)) ?? unnamed(node, at);
    if (!same) {
      old.insertBefore(document.importNode(node, true), rest[0] ?? null);
      return;
    }
    // those before it that have no name are not wanted: without them it stands where it should
    const until = rest.indexOf(same);
    if (rest.slice(0, until).every(free)) rest.splice(0, until).forEach(drop);
    if (rest[0] !== same) old.insertBefore(same, rest[0] ?? null);
    rest.splice(rest.indexOf(same), 1);
    morph(same, node);
  });
  rest.forEach(drop);

  /** Which of those without a name becomes this one. */
  function unnamed(node, at) {
    if (after.nameOf.has(node) || !rest.length) return null;
    const found = rest.find((one) => free(one) && alike(one, node));
    if (!found || found === rest[0]) return found ?? null;
    // either something was put in here, or what stands before it is gone
    const later = nodes.slice(at + 1);
    const stays = !free(rest[0]) || later.some((one) => !after.nameOf.has(one) && alike(rest[0], one));
    return stays ? null : found;
  }
}

// --- the age --------------------------------------------------------------------------------------------------------

let since = Date.now(); // when the page's age was true

function span(seconds) {
  const [days, hours, minutes] = [seconds / 86400, (seconds % 86400) / 3600, (seconds % 3600) / 60].map(Math.floor);
  if (days) return `${days.toLocaleString("en")} ${words.day} ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** Counts up by itself. It is spoken only when it becomes old, or new again. */
function showAge() {
  const age = document.querySelector(".age[data-seconds]");
  if (!age) return;
  const [then, old, dead] = ["seconds", "old", "dead"].map((name) => Number(age.dataset[name]));
  const seconds = then + Math.round((Date.now() - since) / 1000);
  const text = words.age.replace("{span}", span(seconds));
  const level = seconds >= dead ? "dead" : seconds >= old ? "old" : age.dataset.level;
  if (age.textContent !== text) age.textContent = text;
  const name = `age ${level}`.trim();
  if (age.className.trim() !== name) {
    age.className = name;
    document.getElementById("said").textContent = text;
  }
}

// --- asking anew ----------------------------------------------------------------------------------------------------

let asked = Date.now(); // when this page was last asked for
let waiting = null; // the timer of the next time
let asking = null; // … or the one under way
let ended = false; // nothing new comes by asking

const files = (page) => [...page.head.querySelectorAll("link, script")].map((one) => one.outerHTML).join();

function signedOut() {
  ended = true;
  document.getElementById("said").textContent = words.signed_out;
  const age = document.querySelector(".age");
  if (!age) return;
  delete age.dataset.seconds;
  Object.assign(age, { className: "age dead", textContent: words.signed_out });
}

function show(page) {
  const main = page.querySelector("main");
  if (!main) return;
  if (files(page) !== files(document)) {
    // slurmscope is another one than before: what it sends needs its own files
    ended = true;
    if (![...document.forms].some(touched)) location.reload();
    return;
  }
  const focus = document.activeElement;
  body.dataset.zone = page.body.dataset.zone;
  morph(document.querySelector("main"), main);
  const [age, fresh] = [document.querySelector(".age"), page.querySelector(".age")];
  if (age && fresh) {
    attributes(age, fresh);
    if (!fresh.dataset.seconds) age.textContent = fresh.textContent;
  }
  if (document.title !== page.title) document.title = page.title;
  // one that was moved has lost it
  if (focus?.isConnected && focus !== document.activeElement) focus.focus({ preventScroll: true });
  document.dispatchEvent(new Event("portal:changed"));
  showAge();
}

async function refresh() {
  clearTimeout(waiting);
  waiting = null;
  if (asking || ended) return;
  asked = Date.now();
  asking = new AbortController();
  try {
    const answer = await fetch(location.href, { signal: asking.signal, cache: "no-cache" });
    const text = await answer.text();
    if (answer.redirected && new URL(answer.url).pathname === "/sign-in") {
      signedOut();
    } else if (answer.ok && !answer.redirected) {
      since = Date.now();
      show(new DOMParser().parseFromString(text, "text/html"));
    }
  } catch {
    // the age goes on, and says how it is
  } finally {
    asking = null;
  }
}

function soon() {
  if (!document.hidden) waiting ??= setTimeout(refresh, LEAST + Math.random() * SPREAD);
}

// --- being told -----------------------------------------------------------------------------------------------------

let stream = null;
let stale = false; // something came while nobody looked

function listen() {
  if (stream || document.hidden || !("EventSource" in window)) return;
  stream = new EventSource("/events");
  stream.addEventListener("poll", (event) => {
    const cluster = JSON.parse(event.data).cluster;
    if (!body.dataset.live || body.dataset.live === cluster) soon();
  });
  stream.addEventListener("error", () => {
    if (stream?.readyState === EventSource.CLOSED) stream = null; // refused: the clock looks after it
  });
}

/** Who does not look holds no stream, and is shown what is new on coming back. */
function onVisible() {
  if (document.hidden) {
    stream?.close();
    stream = null;
    stale = true;
  } else {
    listen();
    if (stale) soon();
    stale = false;
  }
}

function tick() {
  showAge();
  const patience = stream?.readyState === EventSource.OPEN ? AT_THE_LATEST : WITHOUT_STREAM;
  if (body.dataset.live !== undefined && !document.hidden && Date.now() - asked > patience) {
    refresh();
    listen();
  }
}

document.addEventListener("portal:refresh", refresh);
setInterval(tick, 1000);
if (body.dataset.live !== undefined) {
  document.addEventListener("visibilitychange", onVisible);
  addEventListener("pagehide", () => { stream?.close(); stream = null; });
  addEventListener("pageshow", listen);
  listen();
}
