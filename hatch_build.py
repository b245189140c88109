"""Built with the package: the .mo files that gettext reads, made from the .po files that people edit."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Catalogues(BuildHookInterface):
    """A wheel carries .mo files only; an editable install finds them beside the .po files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        package = Path(self.root) / "src" / "qkv"
        sys.path.insert(0, str(package.parent))
        from qkv.i18n import compile_catalogue

        for po in sorted((package / "locale").glob("*.po")):
            compile_catalogue(str(po), str(po.with_suffix(".mo")))
            if not po.with_suffix(".mo").exists():
                raise RuntimeError(f"{po.name} could not be compiled")
        build_data["artifacts"].append("src/qkv/locale/*.mo")
