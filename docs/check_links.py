"""Looks at every link inside the built site: the file must be there, and the place in it. No others are asked."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, and where it leads."""

    def __init__(self, file: Path):
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def dead(site: Path) -> list[str]:
    """Return the links that lead nowhere."""
    pages = {file: Page(file) for file in site.resolve().rglob("*.html") if "_static" not in file.parts}
    found = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            places = pages[target].places if target in pages else {parts.fragment}
            if not target.exists() or (parts.fragment and parts.fragment not in places):
                found.append(f"{file.relative_to(site.resolve())}: {link}")
    return found


if __name__ == "__main__":
    lost = dead(Path(sys.argv[1]))
    print("\n".join(lost) or "every link inside the site leads somewhere")
    sys.exit(1 if lost else 0)
