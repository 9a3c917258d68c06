"""Every public symbol of the header is on a page of the site, and every link leads somewhere.

site/check.py HEADER FOLDER
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if link := attributes.get("href") or attributes.get("src"):
            self.links.append(link)


def main():
    header = Path(sys.argv[1]).read_text()
    root = Path(sys.argv[2]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    faults = []

    # Read with a pattern of its own, and not with the reader that the pages are made by.
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    names = set(re.findall(r"\b(ucxx_\w+)\(", code))
    names |= set(re.findall(r"\b(ucxx_\w+_t)\b", code))
    names |= set(re.findall(r"^enum (ucxx_\w+)", code, re.M))
    names |= set(re.findall(r"^ +(UCXX_\w+) = ", code, re.M))
    names |= set(re.findall(r"^#define (UCXX_(?:RS_VERSION_\w+|\w+_INIT)) ", code, re.M))
    reference = set()
    for path, page in pages.items():
        if path.parent.name == "reference":
            reference |= page.ids
    lost = [
        name
        for name in sorted(names)
        if not any(f"c.{name}" == anchor or anchor.endswith(f".{name}") for anchor in reference)
    ]
    faults += [f"{name} is on no page of the reference" for name in lost]

    links = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc:
                continue
            links += 1
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                faults.append(f"{path.relative_to(root)}: no {link}")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].ids:
                    faults.append(f"{path.relative_to(root)}: no {link}")
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    if faults or not names or not links:
        sys.exit(1)
    print(f"docs: {len(pages)} pages, {len(names)} symbols on them, {links} links inside the site")


if __name__ == "__main__":
    main()
