"""What a Markdown page comes to in a reader that knows tables."""

from markdown_it import MarkdownIt

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def parsed(text):
    """Return the types of all blocks, of all inline signs, and the plain texts."""
    blocks, signs, texts = [], set(), []
    for token in PARSER.parse(text):
        blocks.append(token.type)
        for child in token.children or ():
            signs.add(child.type)
        if token.type == "inline":
            texts.append("".join(child.content for child in token.children))
    return blocks, signs, texts
