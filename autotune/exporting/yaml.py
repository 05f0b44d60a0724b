"""yaml: the config as data."""

from __future__ import annotations

from typing import Any

from autotune.exporting.base import Export, Target
from autotune.exporting.json import as_data


class Yaml(Target):
    name = "yaml"
    help = "The config as YAML"
    suffix = ".yaml"

    def refusal(self, name: str, value: Any) -> str | None:
        return None  # data can say everything

    def write(self, export: Export) -> str:
        import yaml

        return str(yaml.safe_dump(as_data(export, self), sort_keys=False, allow_unicode=True, width=110))
