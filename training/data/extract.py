"""Turns HTML documentation into plain text with light Markdown (headings, lists, code fences)."""

import html
import re
from html.parser import HTMLParser

SKIP_TAGS = {"script", "style", "nav", "header", "footer", "svg", "form", "button", "head", "table"}
SKIP_CLASSES = re.compile(
    r"sphinxsidebar|\brelated\b|navheader|navfooter|\btoc\b|fancy_toc|toctree|sidebar|menu|breadcrumb"
    r"|headerlink|topbar|leftnav|nav-chapters|searchmenu|qa-content|docVersion|toplang|preamble|up\b"
    r"|footer|copyright|\bcontents\b|picker|gtoc|indextable|tagline|title-anchors|versionchanged-old"
    r"|spirit-nav|mwin|nosearch"
)
SKIP_IDS = {
    "sidebar",
    "menu-bar",
    "gtoc",
    "column2",
    "quickview",
    "preamble",
    "comments_section",
    "toc_sub",
    "leftnav",
    "header",
    "footer",
    "language",
    "apicontent-toc",
    "toc",
}
BLOCK_TAGS = {
    "p",
    "div",
    "section",
    "li",
    "dt",
    "dd",
    "ul",
    "ol",
    "dl",
    "blockquote",
    "article",
    "main",
    "body",
}
VOID_TAGS = {
    "br",
    "img",
    "hr",
    "input",
    "meta",
    "link",
    "col",
    "source",
    "wbr",
    "area",
    "base",
    "embed",
}
CLOSED_BY_PEER = {"p", "li", "dt", "dd"}


class TextExtractor(HTMLParser):
    """Collects blocks of text; ignores navigation by tag, class and id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self.buffer: list[str] = []
        self.prefix = ""
        self.skip_stack: list[str] = []
        self.in_pre = False

    def flush(self) -> None:
        """Ends the current block."""
        text = "".join(self.buffer)
        self.buffer = []
        if not self.in_pre:
            text = re.sub(r"\s+", " ", text).strip()
        if text.strip():
            self.blocks.append(self.prefix + text)
        self.prefix = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID_TAGS:
            if tag == "br" and not self.skip_stack:
                self.buffer.append("\n" if self.in_pre else " ")
            return
        named = dict(attrs)
        if self.skip_stack:
            if tag not in CLOSED_BY_PEER:
                self.skip_stack.append(tag)
            return
        classes = named.get("class") or ""
        if tag not in ("body", "html") and (
            tag in SKIP_TAGS or SKIP_CLASSES.search(classes) or (named.get("id") or "") in SKIP_IDS
        ):
            self.flush()
            self.skip_stack.append(tag)
            return
        self.open_block(tag)

    def open_block(self, tag: str) -> None:
        """Starts a block for a tag that makes one."""
        if tag == "pre":
            self.flush()
            self.in_pre = True
        elif re.fullmatch(r"h[1-6]", tag):
            self.flush()
            self.prefix = "#" * int(tag[1]) + " "
        elif tag in BLOCK_TAGS and not self.in_pre:
            self.flush()
            if tag == "li":
                self.prefix = "- "

    def handle_endtag(self, tag: str) -> None:
        if self.skip_stack:
            if tag in self.skip_stack:
                while self.skip_stack and self.skip_stack.pop() != tag:
                    pass
            return
        if tag == "pre":
            code = "".join(self.buffer).strip("\n").rstrip()
            self.buffer = []
            self.in_pre = False
            if code.strip():
                self.blocks.append(f"```\n{code}\n```")
        elif tag in BLOCK_TAGS or re.fullmatch(r"h[1-6]", tag):
            if not self.in_pre:
                self.flush()

    def handle_data(self, data: str) -> None:
        if not self.skip_stack:
            self.buffer.append(data)


REPLACEMENTS = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2013": "-",
    "\u2014": " - ",
    "\u00a0": " ",
    "\u00b6": "",
    "\u2026": "...",
    "\u200b": "",
    "\u2192": "->",
    "\u00a7": "",
    "\u2011": "-",
    "\u2212": "-",
    "\ufeff": "",
}


def normalise(text: str) -> str:
    """Plain quotes and dashes, no trailing blanks, at most one empty line in a row."""
    for old, new in REPLACEMENTS.items():
        text = text.replace(old, new)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def html_to_text(source: str) -> str:
    """The readable text of an HTML page."""
    body = re.search(r"<(?:div|section|main)[^>]*role=[\"']?main[\"']?[^>]*>", source)
    parser = TextExtractor()
    parser.feed(source[body.start() :] if body else source)
    parser.flush()
    return normalise(join_blocks(parser.blocks))


def join_blocks(blocks: list[str]) -> str:
    """Joins blocks by an empty line, list items by a line break."""
    parts: list[str] = []
    for block in blocks:
        if parts:
            both_items = block.startswith("- ") and parts[-1].startswith("- ")
            parts.append("\n" if both_items else "\n\n")
        parts.append(block)
    return "".join(parts)


def markdown_to_text(source: str) -> str:
    """Markdown as it is, without HTML tags, badges, link targets and comments."""
    text = re.sub(r"<!--.*?-->", "", source, flags=re.S)
    text = re.sub(r"\[!\[.*?\]\(.*?\)\]\(.*?\)|!\[.*?\]\(.*?\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"</?(?:h\d|p|div|img|a|br|table|td|tr|tbody|details|summary)\b[^>]*>", "", text)
    return normalise(html.unescape(text))


JSDOC = re.compile(
    r"/\*\*(.*?)\*/\s*(?:export |declare |readonly |async |static |function |class |interface |const )*([\w$]*)",
    re.S,
)


def jsdoc_to_text(source: str) -> str:
    """The doc comments of a JavaScript or TypeScript file: a heading per name, then its text."""
    parts = []
    for comment, name in JSDOC.findall(source):
        text = re.sub(r"^[ \t]*\* ?", "", comment, flags=re.M).strip()
        text = re.sub(
            r"\{@\w+ ([^}|]*)[^}]*\}", r"\1", html.unescape(re.sub(r"</?\w+[^>]*>", "", text))
        )
        if len(text) > 60:
            parts.append(f"### {name}\n\n{text}" if name else text)
    return normalise("\n\n".join(parts))
