"use strict";
(() => {
  const form = document.forms[0];
  const { q, listed, order } = form.elements;
  const boxes = [...form.querySelectorAll("[name=engine]")];
  const sections = [...document.querySelectorAll("section")].map((section) => ({
    section,
    count: section.querySelector("h2 small"),
    body: section.querySelector("tbody"),
    noun: section.dataset.noun,
    rows: [...section.querySelectorAll("tbody tr")].map((row, at) => ({
      row, at,
      text: row.cells[0].textContent.toLowerCase(),
      first: row.dataset.d || "",
      ever: (row.dataset.e || "").split(" "),
      now: (row.dataset.n || "").split(" "),
    })),
  }));
  let ordered = "name";
  let changed = false;

  // A row fits when its name holds every word, and every chosen engine lists it (now, or once and no more).
  const fits = (it, words, engines) => {
    const all = engines.length ? engines : it.ever;
    const listing = (engine) =>
      listed.value === "now" ? it.now.includes(engine)
      : listed.value === "gone" ? it.ever.includes(engine) && !it.now.includes(engine)
      : it.ever.includes(engine);
    const enough = engines.length ? all.every(listing) : all.some(listing);
    return enough && words.every((word) => it.text.includes(word));
  };

  const sort = () => {
    if (ordered === order.value) return;
    ordered = order.value;
    for (const { body, rows } of sections) {
      const by = ordered === "new" ? (a, b) => (a.first < b.first ? 1 : a.first > b.first ? -1 : a.at - b.at)
        : (a, b) => a.at - b.at;
      body.append(...[...rows].sort(by).map((it) => it.row));
    }
  };

  const show = () => {
    const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const engines = boxes.filter((box) => box.checked).map((box) => box.value);
    const said = [];
    for (const { section, count, rows, noun } of sections) {
      let shown = 0;
      for (const it of rows) {
        const keep = fits(it, words, engines);
        it.row.hidden = !keep;
        shown += keep;
      }
      section.classList.toggle("empty", !shown);
      count.textContent = shown === rows.length ? `${shown}` : `${shown} of ${rows.length}`;
      said.push(`${count.textContent} ${noun}`);
    }
    sort();
    document.getElementById("count").textContent = said.join(", ");
    remember(engines);
  };

  const remember = (engines) => {
    if (!changed) return; // an address that names a section stays as it is
    const state = new URLSearchParams();
    if (q.value) state.set("q", q.value);
    if (engines.length) state.set("engine", engines.join(" "));
    if (listed.value) state.set("listed", listed.value);
    if (order.value !== "name") state.set("order", order.value);
    try { history.replaceState(null, "", `#${state}`); } catch { /* a page inside another has no address */ }
  };

  const recall = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    q.value = state.get("q") || "";
    const engines = (state.get("engine") || "").split(" ");
    for (const box of boxes) box.checked = engines.includes(box.value);
    for (const [field, other] of [[listed, ""], [order, "name"]]) {
      field.value = state.get(field.name) || other;
      if (field.selectedIndex < 0) field.value = other;
    }
  };

  let waiting = 0;
  form.addEventListener("input", () => {
    changed = true;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(show);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== q && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      q.focus();
      q.select();
    }
  });
  document.body.classList.add("on");

  // What sticks to the top hides what is below it: headings and column names keep clear of it.
  const bar = () => {
    const stuck = getComputedStyle(form).display === "contents" ? form.querySelector(".find") : form;
    document.documentElement.style.setProperty("--top", `${Math.round(stuck.getBoundingClientRect().height)}px`);
  };
  addEventListener("resize", bar);
  if (location.hash.includes("=")) recall();
  show();
  bar();
})();
