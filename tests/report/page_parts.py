"""What a page carries, read off its HTML as a browser would."""

import json
import re
from pathlib import Path
from typing import Any


class Page:
    """The HTML of a page and what is embedded in it: ``meta``, ``rows`` (a dict each) and ``pictures``."""

    def __init__(self, path: Path) -> None:
        self.path, self.html = path, path.read_text(encoding="utf-8")
        data = self.block("report-data")
        self.meta, self.pictures = data["meta"], self.block("report-pictures")
        columns = {name: _values(column) for name, column in data["rows"].items()}
        self.rows = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]

    def block(self, name: str) -> Any:
        """The JSON embedded as ``name``."""
        (text,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', self.html, re.DOTALL)
        return json.loads(text)

    def charts(self, kind: str) -> list[dict[str, Any]]:
        return [chart for chart in self.meta["charts"].values() if chart["kind"] == kind]

    def marks(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Every counted mark of every chart: its name, its number, its filter."""
        found = []
        for chart in self.meta["charts"].values():
            for each in (*chart.get("marks", ()), *chart.get("links", ())):
                found.append((f"{chart['title']}: {each}", each["value"], each["filter"]))
            for line in chart.get("cells", ()):
                found += [(cell["name"], cell["value"], cell["filter"]) for cell in line if cell is not None]
            if chart["kind"] == "table":
                for line in chart["rows"]:
                    found += [(f"{chart['title']}: {line[0]['value']}", cell["value"], cell["filter"])
                              for cell in line if cell["filter"] and isinstance(cell["value"], int)]  # fmt: skip
        return found

    def behind(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a filter without ``wrong_at``."""
        return [row for row in self.rows if all(row[name] in values for name, values in wanted.items())]


def _values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    return [None if code < 0 else column["words"][code] for code in column["codes"]]
