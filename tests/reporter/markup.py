"""What can be asked of a page without a browser."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

_VOID = {"meta", "br", "img", "input", "link", "hr"}
_REFERENCES = ("aria-labelledby", "aria-describedby", "for")


class Markup(HTMLParser):
    """A page's elements, and what is wrong with how they stand."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.faults: list[str] = []
        self.texts: dict[str, list[str]] = {"caption": [], "figcaption": [], "title": [], "h1": []}
        self._open: list[str] = []
        self._wanted: list[str] = []
        self.feed(page)
        self.close()
        self.faults += [f"never closed: {tag}" for tag in self._open]
        self.faults += [f"id twice: {name}" for name, number in Counter(self.ids).items() if number > 1]
        self.faults += [f"no such id: {name}" for name in self._wanted if name not in self.ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        if tag not in _VOID:
            self._open.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        self._wanted += [name for attribute in _REFERENCES for name in values.get(attribute, "").split()]
        self._wanted += [values["href"][1:]] if values.get("href", "").startswith("#") else []
        self.faults += [f"<{tag} {name}>" for name in values if name == "style" or name.startswith("on")]
        if len(values) != len(attrs):
            self.faults.append(f"an attribute twice: {tag}")
        if tag == "th" and "scope" not in values:
            self.faults.append("<th> without scope")
        for collected in self.texts:
            if tag == collected:
                self.texts[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"out of place: </{tag}>")

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            if tag in self.texts:
                self.texts[tag][-1] += data
