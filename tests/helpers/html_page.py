"""Pages as parsers see them."""

from html.parser import HTMLParser

VOID = {"meta", "line", "rect", "input"}


class Page(HTMLParser):
    """The elements and texts of a page; complains of a tag that is not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shape(page):
    """Return elements and attribute names: what text must never change."""
    return [(tag, sorted(attributes)) for tag, attributes in page.elements]
