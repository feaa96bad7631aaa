"""Style and script of the HTML report."""

from __future__ import annotations

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1.5rem; margin: 0; }
dt { color: #666; } dd { margin: 0; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .8rem; border-bottom: 1px solid #e5e5e5; }
th:first-child, td:first-child, td.chart, th.chart { text-align: left; padding-left: 0; }
td.chart { width: 20rem; } td.chart svg { width: 100%; height: .8rem; background: #f4f4f4; }
svg { display: block; } svg.wide { width: 100%; height: 1.4rem; }
.note { color: #8a5a00; } .unit { text-align: right; margin: 0; color: #666; }
.keys span { margin-right: 1.2rem; white-space: nowrap; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem;
  vertical-align: -1px; }
#timeline { display: grid; grid-template-columns: 9rem 1fr; }
.labels { position: relative; } .labels span { position: absolute; white-space: nowrap; }
.plot { overflow: hidden; } #bars { width: 100%; background: #fafafa; }
#ticks { position: relative; height: 1.5rem; border-top: 1px solid #999; }
#ticks span { position: absolute; transform: translateX(-50%); color: #555; }
#ticks span:first-child { transform: none; }
#ticks span:last-child { transform: translateX(-100%); }
.forward, .compute { fill: #4c78a8; background: #4c78a8; }
.input { fill: #72b7b2; background: #72b7b2; } .weight { fill: #54a24b; background: #54a24b; }
.exposed { fill: #e45756; background: #e45756; } .update { fill: #b279a2; background: #b279a2; }
.host { fill: #9d755d; background: #9d755d; } .bubble { fill: #ddd; background: #ddd; }
.communication { fill: #f5a04a; background: #f5a04a; } .dim { fill: #eeca3b; background: #eeca3b; }
.faint { fill: #f7e8b0; }
"""

# The part of the time that is shown stands in the address, as #FROM-TO in shares of the whole.
SCRIPT = """
(() => {
  const svg = document.getElementById("bars");
  const ticks = [...document.querySelectorAll("#ticks span")];
  const total = Number(document.getElementById("timeline").dataset.totalNs);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  let from = 0, to = 1;
  const show = (a, b) => {
    const span = Math.min(1, Math.max(b - a, 1e-5));
    from = Math.min(Math.max(a, 0), 1 - span);
    to = from + span;
    svg.setAttribute("viewBox", `${from * width} 0 ${span * width} ${height}`);
    ticks.forEach((tick, i) => {
      const us = total * (from + span * i / (ticks.length - 1)) / 1000;
      const digits = span < 0.01 ? 3 : 1;
      tick.textContent = us.toLocaleString("en", {
        minimumFractionDigits: digits, maximumFractionDigits: digits });
    });
  };
  const keep = () => {
    try { history.replaceState(null, "", `#${from.toFixed(6)}-${to.toFixed(6)}`); } catch { }
  };
  const read = () => {
    const found = /^#([0-9.]+)-([0-9.]+)$/.exec(location.hash);
    if (found && Number(found[1]) < Number(found[2])) show(Number(found[1]), Number(found[2]));
  };
  const at = event => {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) / box.width;
  };
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    const centre = from + at(event) * (to - from), by = event.deltaY > 0 ? 1.25 : 0.8;
    show(centre - (centre - from) * by, centre + (to - centre) * by);
    keep();
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", event => {
    held = { at: at(event), from, to };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    if (!held) return;
    const by = (held.at - at(event)) * (held.to - held.from);
    show(held.from + by, held.to + by);
  });
  svg.addEventListener("pointerup", () => { held = null; keep(); });
  document.getElementById("whole").addEventListener("click", () => { show(0, 1); keep(); });
  addEventListener("hashchange", read);
  document.getElementById("tools").hidden = false;
  read();
})();
"""
