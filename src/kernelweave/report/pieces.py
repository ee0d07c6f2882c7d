"""Pieces of a page: tables, bars, heat maps, and the frame around them. Nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

STYLE = """
:root{--ink:#1d2733;--soft:#4d5a68;--paper:#fff;--panel:#f4f6f9;--grid:#dde2e9;--good:#1f6f43;--bad:#a8321f;
--s0:#2f6f9f;--s1:#b8502e;--s2:#2e7d4f;--s3:#7a4f9a;--s4:#8a6a12;--s5:#2d7f7e;--s6:#a03c68;--s7:#5c6168;--heat:47,111,159}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#aab4c0;--paper:#14181d;--panel:#1d232a;--grid:#323b45;
--good:#6fcf97;--bad:#ff8f78;--s0:#74b3e0;--s1:#f0926f;--s2:#7cc99a;--s3:#bf9bdc;--s4:#d9bb63;--s5:#74c7c5;--s6:#e58db1;
--s7:#aab0b8;--heat:116,179,224}}
*{box-sizing:border-box}
html{color-scheme:light dark}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main,header,footer{max-width:60rem;margin:0 auto;padding:0 1rem}
h1{font-size:1.7rem;line-height:1.2;margin:1.6rem 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .5rem;border-top:1px solid var(--grid);padding-top:1rem}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.4rem 0;max-width:44rem;overflow-wrap:anywhere}
.soft{color:var(--soft)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;list-style:none}
a{color:var(--s0)}
.wide{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
td.text{text-align:left;white-space:normal;min-width:9rem;overflow-wrap:anywhere}
.facts td.text{min-width:0}
td.bar{width:40%;min-width:5rem}
td.bar span{display:block;height:.8rem;background:var(--s0);border-radius:2px;min-width:1px}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:.2rem 0;min-height:1.6rem}
th button{cursor:pointer}
th button::after{content:"\\2195";color:var(--soft);padding-left:.3rem}
th[aria-sort=ascending] button::after{content:"\\2191"}
th[aria-sort=descending] button::after{content:"\\2193"}
svg{display:block;width:100%;max-width:44rem;height:auto;margin:.5rem 0}
svg text{font:13px system-ui,sans-serif;fill:var(--soft)}
svg .name{fill:var(--ink)}
.grid{stroke:var(--grid)}.rule{stroke:var(--soft);stroke-dasharray:5 4}
.line{fill:none;stroke-width:2.2}.dot{fill-opacity:.75}
.line.good{stroke:var(--good)}.dot.good{fill:var(--good)}.line.bad{stroke:var(--bad)}.dot.bad{fill:var(--bad)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:0;list-style:none;font-size:.9rem}
.key{display:inline-block;width:1.1rem;height:.3rem;margin-right:.4rem;vertical-align:middle}
footer{margin:3rem auto 2rem;color:var(--soft);font-size:.9rem}
.tall{max-height:32rem;overflow-y:auto}.tall thead th{position:sticky;top:0;background:var(--paper)}
@media (max-width:600px){svg text{font-size:19px}th,td{padding:.25rem .4rem}th{white-space:normal}
td.bar{width:20%;min-width:4rem}td.text,tbody th{min-width:7rem}}
@media print{:root{--ink:#000;--soft:#333;--paper:#fff;--grid:#bbb}nav{display:none}section{break-inside:avoid}
.wide,.tall{overflow:visible;max-height:none}th button::after{content:""}}
""" + "".join(
    f"path.s{k}{{stroke:var(--s{k})}}.bar.s{k},.dot.s{k}{{fill:var(--s{k})}}.key.s{k}{{background:var(--s{k})}}"
    for k in range(8)
)

SCRIPT = """
document.querySelectorAll("table.sortable").forEach(table => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(one => one.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => { const text = row.cells[place].dataset.key ?? row.cells[place].textContent;
      return text !== "" && !isNaN(text) ? Number(text) : text; };
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => { const x = key(a), y = key(b); return (x > y) - (x < y); });
    table.tBodies[0].append(...(up ? rows : rows.reverse()));
  }));
});
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def page(title: str, lead: str, sections: Sequence[tuple[str, str]], foot: str) -> str:
    """Return a whole page, of sections with a title and a body each."""
    anchors = [f"s{place}" for place in range(len(sections))]
    named = list(zip(anchors, sections, strict=True))
    entries = "".join(f'<li><a href="#{a}">{escape(name)}</a></li>' for a, (name, _) in named)
    bodies = "".join(
        f'<section><h2 id="{a}">{escape(name)}</h2>{body}</section>'
        for a, (name, body) in named
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head><body>'
        f"<header><h1>{escape(title)}</h1><p>{escape(lead)}</p>"
        f'<nav aria-label="Sections"><ul>{entries}</ul></nav></header><main>{bodies}</main>'
        f"<footer><p>{escape(foot)}</p></footer><script>{SCRIPT}</script></body></html>\n"
    )


def text(sentence: str, soft: bool = False) -> str:
    """Return a paragraph."""
    return f"<p{' class=soft' if soft else ''}>{escape(sentence)}</p>"


def heading(words: str) -> str:
    """Return a title inside a section."""
    return f"<h3>{escape(words)}</h3>"


def facts(rows: Sequence[tuple[str, Any]]) -> str:
    """Return a table of names and what is known of each."""
    cells = "".join(f'<tr><th scope="row">{escape(k)}</th><td class="text">{escape(str(v))}</td></tr>' for k, v in rows)
    return f'<table class="facts">{cells}</table>'


def bars(header: tuple[str, str, str], rows: Sequence[tuple[str, str, float]]) -> str:
    """Return a table of names and numbers with a bar for each, the longest for the largest."""
    largest = max((abs(size) for _, _, size in rows), default=0.0) or 1.0
    head = "".join(_head(word) for word in header)
    body = "".join(
        f'<tr><td class="text">{escape(name)}</td><td>{escape(value)}</td>'
        f'<td class="bar"><span style="width:{100 * abs(size) / largest:.1f}%"></span></td></tr>'
        for name, value, size in rows
    )
    return _wide(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", header[0])


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], label: str, sortable: bool = False) -> str:
    """Return a table; numbers are written short and sorted by their full value."""
    head = "".join(_head(word, sortable) for word in header)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    kind = ' class="sortable"' if sortable else ""
    return _wide(f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", label, tall=sortable)


def _head(word: str, sortable: bool = False) -> str:
    if not word:
        return "<td></td>"
    if sortable:
        return f'<th scope="col" aria-sort="none"><button type="button">{escape(word)}</button></th>'
    return f'<th scope="col">{escape(word)}</th>'


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f'<td data-key="{float(value)!r}">{float(value):.4g}</td>'
    return f"<td>{escape(str(value))}</td>"


def heat(header: Sequence[str], names: Sequence[str], values: np.ndarray, label: str) -> str:
    """Return a table of numbers whose cells are darker for larger ones."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    head = "".join(_head(word) for word in ["", *header])
    body = []
    for name, row in zip(names, values, strict=True):
        cells = "".join(
            f'<td style="background:rgba(var(--heat),{0.55 * abs(float(value)) / largest:.2f})">{float(value):.2f}</td>'
            for value in row
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return _wide(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>", label)


def _wide(inner: str, label: str, tall: bool = False) -> str:
    """Return something that scrolls by itself where the page is too narrow, or it too long."""
    kind, name = "wide tall" if tall else "wide", escape(f"Table: {label}", quote=True)
    return f'<div class="{kind}" role="group" tabindex="0" aria-label="{name}">{inner}</div>'
