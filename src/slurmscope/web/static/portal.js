// SPDX-FileCopyrightText: The slurmscope authors
// SPDX-License-Identifier: Apache-2.0
//
// What makes the pages pleasanter; all of them are complete without it. What is put into a page has `data-ours`, and
// live.js leaves it alone. Words come with the page, in the reader's language.

const words = JSON.parse(document.body.dataset.words);
const told = (text, values = {}) => text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

/** For those who do not see it. */
function say(text) {
  document.getElementById("said").textContent = text;
}

function made(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.dataset.ours = "";
  element.append(...children);
  return element;
}

// --- the zone -------------------------------------------------------------------------------------------------------

/** The reader's zone is kept at the first visit; whoever chose another in the settings has it already. */
function keepZone() {
  if (/(?:^|; )zone=/.test(document.cookie)) return;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `zone=${encodeURIComponent(zone)}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  if (zone !== document.body.dataset.zone) document.dispatchEvent(new Event("portal:refresh"));
}

// --- the search -----------------------------------------------------------------------------------------------------

function onKey(event) {
  const search = document.querySelector(".search input");
  if (!search || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && event.target === search) search.blur();
  if (event.key !== "/" || event.target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  search.focus();
  search.select();
}

// --- copying --------------------------------------------------------------------------------------------------------

/** Only what is to be pasted: neither what is struck out, nor remarks. */
function pasted(pre) {
  if (pre.classList.contains("copy")) return pre.textContent.trim();
  const clone = pre.cloneNode(true);
  for (const one of clone.querySelectorAll("del, .hidden, .soft")) one.remove();
  const lines = clone.textContent.split("\n").map((line) => line.trim());
  return lines.filter(Boolean).join("\n") + "\n";
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // by plain HTTP a browser gives no clipboard, but takes what is selected
  const area = made("textarea", { value: text, className: "hidden" });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not copied");
}

function addCopy(pre) {
  if (pre.previousElementSibling?.matches("button.copying") || !pasted(pre).trim()) return;
  const button = made("button", { type: "button", className: "copying", textContent: words.copy });
  button.addEventListener("click", async () => {
    const done = await copy(pasted(pre)).then(() => words.copied, () => words.not_copied);
    button.textContent = done;
    say(done);
    setTimeout(() => { button.textContent = words.copy; }, 2000);
  });
  pre.before(button);
}

// --- narrowing lists ------------------------------------------------------------------------------------------------

const LISTS = ".card.jobs, .card.nodes";

/** Hides the rows that have not all of the words; what is hidden is still on the page. */
function narrow(section) {
  const [form, rows] = [section.querySelector("form.narrowing"), section.querySelectorAll("tbody tr")];
  const wanted = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = wanted.length ? row.textContent.toLowerCase() : "";
    const out = !wanted.every((word) => text.includes(word));
    if (row.hasAttribute("data-out") !== out) row.toggleAttribute("data-out", out);
    if (!out) shown += 1;
  }
  const count = wanted.length ? told(words.rows, { shown, all: rows.length }) : "";
  const output = form.querySelector("output");
  if (output.textContent !== count) output.textContent = count;
}

function addNarrowing(section) {
  if (section.querySelector("form.narrowing")) return narrow(section);
  const table = section.querySelector(".table");
  if (!table || section.querySelectorAll("tbody tr").length < 2) return;
  const input = made("input", { type: "search", name: "words", placeholder: words.narrow, autocomplete: "off" });
  input.setAttribute("aria-label", words.narrow);
  const form = made("form", { className: "narrowing" }, input, made("output"));
  input.addEventListener("input", () => narrow(section));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // the page's own form asks for all that have such a name, with the other filters as they are
    const own = document.querySelector("form.fields [name=name]");
    if (!own || !input.value.trim()) return;
    own.value = input.value.trim();
    own.form.requestSubmit();
  });
  table.before(form);
}

// --- the page -------------------------------------------------------------------------------------------------------

function enhance() {
  document.querySelectorAll(".changes pre, pre.copy").forEach(addCopy);
  document.querySelectorAll(LISTS).forEach(addNarrowing);
  // only pages that have charts pay for them
  if (document.querySelector("svg[data-chart]")) import(document.body.dataset.charts);
}

document.addEventListener("keydown", onKey);
document.addEventListener("portal:changed", enhance);
enhance();
keepZone();
