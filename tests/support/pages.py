"""Pages read back, and a text that would act in one if it could."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover='alert(1)' "
    "{{ 7*7 }} {% raw %} <!-- ]]> javascript:alert(1) \u202e\u2066 \x1b[31mred\x1b[0m \x00 \ud800 \u200b end"
)
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """A parsed page: tags with attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)
