"""Links and headings in Markdown, for check-links.py and book-links.py."""

import re

# Blocks between fences, and spans between as many backticks. Of what is in them nothing is a link.
CODE = re.compile(
    r"^(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=fence)[^\n]*$|(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
# [text](target) and ![text](target "title"); the text may hold one more pair of brackets.
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)(?:\s+\"[^\"]*\")?\)")
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"(?P<target>[^\"]+)\"")
NAMED = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
FENCED = re.compile(r"^(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=fence)[^\n]*$", re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def masked(text):
    """The same length, with all code made unreadable."""
    return CODE.sub(lambda found: re.sub(r"[^\n]", "x", found.group()), text)


def targets(text):
    """Where it links to, with the line of each link."""
    text = masked(text)
    for pattern in (LINK, HTML):
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, found["target"]


def replaced(text, replace):
    """The text with each link replaced by `replace(image, text, target)`; None leaves a link as it is."""
    parts, end = [], 0
    for found in LINK.finditer(masked(text)):
        shown = text[found.start("text") : found.end("text")]
        other = replace(bool(found["image"]), shown, found["target"])
        if other is not None:
            parts += [text[end : found.start()], other]
            end = found.end()
    return "".join(parts) + text[end:]


def slug(heading):
    """A heading's anchor, as GitHub makes it."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"<[^>]+>", "", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    """All anchors of a page."""
    found, seen = set(NAMED.findall(masked(text))), {}
    text = FENCED.sub("", text)
    for heading in HEADING.findall(text):
        name = slug(heading)
        number = seen.get(name, 0)
        seen[name] = number + 1
        found.add(f"{name}-{number}" if number else name)
    return found
