"""A page in a browser, as its tests use it."""

import json
import re
from urllib.parse import unquote

EVIL = ("<script>window.hurt=1</script>", "\"><img src=x onerror='window.hurt=1'>", "plain")
"""Names of classes that are markup."""
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


class Opened:
    """A page in a browser, and what it complained about and asked for."""

    def __init__(self, browser, path, *, viewport=WIDE, scheme="light"):
        self.complaints, self.requests = [], []
        self.tab = browser.new_page(viewport=viewport, color_scheme=scheme)
        self.tab.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-ready]")

    @property
    def total(self):
        """How many rows the gallery says there are."""
        text = self.tab.locator("md-gallery .total").inner_text()
        return 0 if text.startswith("Nothing") else int(re.match(r"[\d,]+", text)[0].replace(",", ""))

    @property
    def filter(self):
        """What the address says is looked at."""
        return json.loads(unquote(self.tab.url.partition("#rows=")[2]))

    def choose(self, column, word):
        """Choose the entry of a facet that starts with ``word``."""
        select = self.tab.locator(f'md-gallery select[data-column="{column}"]')
        label = next(each for each in select.locator("option").all_inner_texts() if each.startswith(f"{word} ("))
        select.select_option(label=label)
        self.tab.wait_for_function("([c, w]) => location.hash.includes(encodeURIComponent(JSON.stringify({[c]: [w]})"
                                   ".slice(1, -1)))", arg=[column, word])  # fmt: skip
        self.settle()
        return int(re.search(r"\(([\d,]+)\)$", label)[1].replace(",", ""))

    def settle(self):
        """Wait until the gallery shows what it was asked for."""
        self.tab.wait_for_timeout(250)

    def wide(self):
        """How far the page reaches beyond its window, in pixels."""
        return self.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
